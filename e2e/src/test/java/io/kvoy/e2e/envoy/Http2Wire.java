// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import io.kvoy.scoring.fleet.Endpoint;
import io.netty.bootstrap.Bootstrap;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.http2.DefaultHttp2DataFrame;
import io.netty.handler.codec.http2.DefaultHttp2Headers;
import io.netty.handler.codec.http2.DefaultHttp2HeadersFrame;
import io.netty.handler.codec.http2.DefaultHttp2WindowUpdateFrame;
import io.netty.handler.codec.http2.Http2DataFrame;
import io.netty.handler.codec.http2.Http2FrameCodecBuilder;
import io.netty.handler.codec.http2.Http2Headers;
import io.netty.handler.codec.http2.Http2HeadersFrame;
import io.netty.handler.codec.http2.Http2MultiplexHandler;
import io.netty.handler.codec.http2.Http2ResetFrame;
import io.netty.handler.codec.http2.Http2StreamChannel;
import io.netty.handler.codec.http2.Http2StreamChannelBootstrap;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** One HTTP/2 connection without TLS. */
@SuppressWarnings("FutureReturnValueIgnored") // a failed write shows as the answer that is missing
final class Http2Wire implements Wire {
  private static final int PIECE_BYTES = 15_000;

  private final MultiThreadIoEventLoopGroup loop =
      new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());
  private final Channel connection;

  Http2Wire(Endpoint to) {
    connection =
        new Bootstrap()
            .group(loop)
            .channel(NioSocketChannel.class)
            .handler(
                new ChannelInitializer<SocketChannel>() {
                  @Override
                  protected void initChannel(SocketChannel channel) {
                    channel
                        .pipeline()
                        .addLast(
                            Http2FrameCodecBuilder.forClient().build(),
                            new Http2MultiplexHandler(new ChannelInboundHandlerAdapter()));
                  }
                })
            .connect(new InetSocketAddress(to.host(), to.port()))
            .syncUninterruptibly()
            .channel();
  }

  @Override
  public Answer send(Request request) throws IOException {
    Reading reading = new Reading();
    Http2StreamChannel stream =
        new Http2StreamChannelBootstrap(connection)
            .handler(reading)
            .open()
            .syncUninterruptibly()
            .getNow();
    Http2Headers headers =
        new DefaultHttp2Headers()
            .method(request.method())
            .path(request.path())
            .scheme("http")
            .authority("test");
    for (int i = 0; i < request.headers().size(); i += 2) {
      headers.add(
          request.headers().get(i).toLowerCase(java.util.Locale.ROOT),
          request.headers().get(i + 1));
    }
    byte[] body = request.body();
    stream.write(new DefaultHttp2HeadersFrame(headers, body == null));
    if (body != null) {
      int at = 0;
      do {
        int size = Math.min(PIECE_BYTES, body.length - at);
        boolean last = at + size == body.length;
        stream.write(
            new DefaultHttp2DataFrame(
                Unpooled.wrappedBuffer(body, at, size), last && !request.trailers()));
        at += size;
      } while (at < body.length);
      if (request.trailers()) {
        stream.write(
            new DefaultHttp2HeadersFrame(new DefaultHttp2Headers().add("x-after", "1"), true));
      }
    }
    stream.flush();
    try {
      return reading.answer.get(30, TimeUnit.SECONDS);
    } catch (ExecutionException | TimeoutException e) {
      throw new IOException("no answer", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    }
  }

  private static final class Reading extends ChannelInboundHandlerAdapter {
    final CompletableFuture<Answer> answer = new CompletableFuture<>();
    private final Map<String, String> headers = new TreeMap<>();
    private final ByteArrayOutputStream body = new ByteArrayOutputStream();
    private int status;

    @Override
    public void channelRead(ChannelHandlerContext context, Object frame) throws IOException {
      switch (frame) {
        case Http2HeadersFrame head -> {
          for (Map.Entry<CharSequence, CharSequence> header : head.headers()) {
            headers.put(header.getKey().toString(), header.getValue().toString());
          }
          String code = headers.getOrDefault(":status", "0");
          status = code.startsWith("1") ? 0 : Integer.parseInt(code);
          if (head.isEndStream()) {
            finish(true);
          }
        }
        case Http2DataFrame data -> {
          int bytes = data.initialFlowControlledBytes();
          data.content().readBytes(body, data.content().readableBytes());
          boolean end = data.isEndStream();
          data.release();
          context.writeAndFlush(new DefaultHttp2WindowUpdateFrame(bytes).stream(data.stream()));
          if (end) {
            finish(true);
          }
        }
        case Http2ResetFrame _ -> finish(false);
        default -> {}
      }
    }

    @Override
    public void userEventTriggered(ChannelHandlerContext context, Object event) {
      if (event instanceof Http2ResetFrame) {
        finish(false);
      }
    }

    @Override
    public void channelInactive(ChannelHandlerContext context) {
      finish(false);
    }

    private void finish(boolean whole) {
      answer.complete(new Answer(status, Map.copyOf(headers), body.toByteArray(), whole));
    }
  }

  @Override
  public void close() {
    connection.close().syncUninterruptibly();
    loop.shutdownGracefully(0, 1, TimeUnit.SECONDS).syncUninterruptibly();
  }
}
