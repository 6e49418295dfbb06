// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.load;

import io.kvoy.scoring.fleet.Endpoint;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.channel.Channel;
import io.netty.channel.ChannelFutureListener;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.codec.http.DefaultFullHttpResponse;
import io.netty.handler.codec.http.DefaultHttpContent;
import io.netty.handler.codec.http.DefaultHttpResponse;
import io.netty.handler.codec.http.FullHttpResponse;
import io.netty.handler.codec.http.HttpContent;
import io.netty.handler.codec.http.HttpHeaders;
import io.netty.handler.codec.http.HttpMethod;
import io.netty.handler.codec.http.HttpObject;
import io.netty.handler.codec.http.HttpRequest;
import io.netty.handler.codec.http.HttpResponse;
import io.netty.handler.codec.http.HttpResponseStatus;
import io.netty.handler.codec.http.HttpServerCodec;
import io.netty.handler.codec.http.HttpUtil;
import io.netty.handler.codec.http.HttpVersion;
import io.netty.handler.codec.http.LastHttpContent;
import io.netty.util.ReferenceCountUtil;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * An HTTP/1.1 worker that computes nothing: for what a router adds, and for what it does to bytes.
 *
 * <p>It tells what it was sent in {@code x-seen-*} response headers. The request header {@value
 * #DO} says how to answer; the default is a small whole answer with usage:
 *
 * <ul>
 *   <li>{@code echo}: the body comes back;
 *   <li>{@code stream first=400 chunks=5 gap=20}: response headers at once, the first event after
 *       {@code first} milliseconds, then {@code chunks} events {@code gap} milliseconds apart,
 *       usage in the last;
 *   <li>{@code status=500}: that status;
 *   <li>{@code reset}: the connection is cut when the request is whole;
 *   <li>{@code hold}: the request is taken and never answered, as by a worker with a long queue;
 *   <li>{@code tunnel}: 101 at once, or 200 to CONNECT, and from then on every byte comes back;
 *   <li>{@code early=429}: that status as soon as the headers are there, then the body is read.
 * </ul>
 *
 * Thread-safe; one event loop serves all connections.
 */
public final class InstantWorker implements AutoCloseable {
  /** Request header that says how to answer. */
  public static final String DO = "x-do";

  private static final byte[] WHOLE =
      """
      {"id":"x","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",\
      "message":{"role":"assistant","content":"hello"}}],\
      "usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8,\
      "prompt_tokens_details":{"cached_tokens":0}}}\
      """
          .getBytes(StandardCharsets.UTF_8);

  private static final String CHUNK =
      "data:"
          + " {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\""
          + " word\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
  private static final String USAGE =
      "data:"
          + " {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"choices\":[],"
          + "\"usage\":{\"prompt_tokens\":77,\"completion_tokens\":5,\"total_tokens\":82,\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\n"
          + "data: [DONE]\n\n";

  private final MultiThreadIoEventLoopGroup loop =
      new MultiThreadIoEventLoopGroup(1, NioIoHandler.newFactory());
  private final Channel server;
  private final AtomicInteger requests = new AtomicInteger();
  private final List<Seen> seen = new CopyOnWriteArrayList<>();
  private volatile int healthStatus = 200;
  private volatile @Nullable String heldPaths;
  private final AtomicInteger held = new AtomicInteger();

  /**
   * A request as it arrived.
   *
   * @param headers {@code name: value} lines in order, names in lower case
   * @param bytes of the body
   * @param sha256 of the body, lower-case hex
   */
  public record Seen(String method, String path, List<String> headers, long bytes, String sha256) {
    /** All values of a header. */
    public List<String> header(String name) {
      return headers.stream()
          .filter(line -> line.startsWith(name + ": "))
          .map(line -> line.substring(name.length() + 2))
          .toList();
    }
  }

  private InstantWorker(String host, int port, boolean records) {
    server =
        new ServerBootstrap()
            .group(loop)
            .channel(NioServerSocketChannel.class)
            .option(ChannelOption.SO_BACKLOG, 4096)
            .childOption(ChannelOption.TCP_NODELAY, true)
            .childHandler(
                new ChannelInitializer<SocketChannel>() {
                  @Override
                  protected void initChannel(SocketChannel connection) {
                    connection
                        .pipeline()
                        .addLast(
                            new HttpServerCodec(8 << 10, 128 << 10, 64 << 10),
                            new Answering(records));
                  }
                })
            .bind(new InetSocketAddress(host, port))
            .syncUninterruptibly()
            .channel();
  }

  /** A worker on loopback that notes every request. */
  public static InstantWorker start() {
    return new InstantWorker("127.0.0.1", 0, true);
  }

  /** A worker for load: notes nothing and computes no digests. */
  public static InstantWorker forLoad(int port) {
    return new InstantWorker("127.0.0.1", port, false);
  }

  /** On another loopback address, such as {@code ::1}. */
  public static InstantWorker startOn(String host) {
    return new InstantWorker(host, 0, true);
  }

  public Endpoint endpoint() {
    InetSocketAddress address = (InetSocketAddress) server.localAddress();
    String host = address.getAddress().getHostAddress();
    return new Endpoint(host.equals("0:0:0:0:0:0:0:1") ? "::1" : host, address.getPort());
  }

  /** Requests to inference paths and others, health and metrics left out. */
  public int requests() {
    return requests.get();
  }

  /** Those requests, in order. */
  public List<Seen> seen() {
    return List.copyOf(seen);
  }

  public void forget() {
    seen.clear();
    requests.set(0);
  }

  /** What {@code /health} answers from now on. */
  public void health(int status) {
    healthStatus = status;
  }

  /**
   * Requests whose path ends so are taken and never answered from now on, and not counted as {@link
   * #requests}: those that a router sends of its own.
   */
  public void holdPaths(String ending) {
    heldPaths = ending;
  }

  /** Requests taken by {@link #holdPaths}. */
  public int held() {
    return held.get();
  }

  /** Stops accepting and cuts what is open; the second time nothing. */
  @Override
  public void close() {
    if (loop.isShuttingDown()) {
      return;
    }
    server.close().syncUninterruptibly();
    loop.shutdownGracefully(0, 1, TimeUnit.SECONDS).syncUninterruptibly();
  }

  @SuppressWarnings("FutureReturnValueIgnored") // a write that fails closes the connection
  private final class Answering extends SimpleChannelInboundHandler<HttpObject> {
    private final boolean records;
    private @Nullable HttpRequest request;
    private @Nullable MessageDigest digest;
    private @Nullable ByteBuf echo;
    private long bytes;
    private boolean answered;

    Answering(boolean records) {
      this.records = records;
    }

    @Override
    protected void channelRead0(ChannelHandlerContext context, HttpObject message) {
      if (message instanceof HttpRequest head) {
        begin(context, head);
      }
      if (message instanceof HttpContent content) {
        ByteBuf part = content.content();
        bytes += part.readableBytes();
        if (digest != null) {
          digest.update(part.nioBuffer());
        }
        if (echo != null) {
          echo.writeBytes(part.slice());
        }
      }
      if (message instanceof LastHttpContent) {
        end(context);
      }
    }

    private void begin(ChannelHandlerContext context, HttpRequest head) {
      request = head;
      bytes = 0;
      answered = false;
      digest = records ? sha256() : null;
      String how = head.headers().get(DO, "");
      echo = how.equals("echo") ? Unpooled.buffer() : null;
      if (HttpUtil.is100ContinueExpected(head)) {
        context.writeAndFlush(
            new DefaultFullHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.CONTINUE));
      }
      if (how.startsWith("early=")) {
        answered = true;
        answer(context, Integer.parseInt(how.substring(6)), WHOLE);
      }
      if (how.equals("tunnel")) {
        answered = true;
        requests.incrementAndGet();
        if (records) {
          note(head);
        }
        tunnel(context, head);
      }
    }

    /** Nothing of HTTP is left on the connection. */
    private void tunnel(ChannelHandlerContext context, HttpRequest head) {
      boolean connects = head.method().equals(HttpMethod.CONNECT);
      HttpResponse response =
          new DefaultHttpResponse(
              HttpVersion.HTTP_1_1,
              connects ? HttpResponseStatus.OK : HttpResponseStatus.SWITCHING_PROTOCOLS);
      if (!connects) {
        response
            .headers()
            .set("connection", "upgrade")
            .set("upgrade", head.headers().get("upgrade", "websocket"));
      }
      context.pipeline().addLast(new Echoing());
      context
          .writeAndFlush(response)
          .addListener(
              _ -> {
                context.pipeline().remove(HttpServerCodec.class);
                context.pipeline().remove(this);
              });
    }

    private void end(ChannelHandlerContext context) {
      HttpRequest head = request;
      if (head == null || head.headers().get(DO, "").equals("tunnel")) {
        return;
      }
      String never = heldPaths;
      if (never != null && head.uri().endsWith(never)) {
        held.incrementAndGet();
        return;
      }
      switch (head.uri()) {
        case "/health" -> answer(context, healthStatus, new byte[0]);
        case "/metrics" -> answer(context, 200, new byte[0]);
        default -> {
          requests.incrementAndGet();
          if (records) {
            note(head);
          }
          if (!answered) {
            answer(context, head);
          }
        }
      }
    }

    private void note(HttpRequest head) {
      List<String> lines =
          head.headers().entries().stream()
              .map(e -> e.getKey().toLowerCase(Locale.ROOT) + ": " + e.getValue())
              .toList();
      String hash = digest == null ? "" : HexFormat.of().formatHex(digest.digest());
      seen.add(new Seen(head.method().name(), head.uri(), lines, bytes, hash));
    }

    private void answer(ChannelHandlerContext context, HttpRequest head) {
      String how = head.headers().get(DO, "");
      if (how.equals("reset")) {
        context.close();
      } else if (how.equals("hold")) {
        // Until the other side gives up.
        return;
      } else if (how.startsWith("status=")) {
        answer(context, Integer.parseInt(how.substring(7)), WHOLE);
      } else if (how.startsWith("stream")) {
        stream(context, how);
      } else if (echo != null) {
        byte[] back = new byte[echo.readableBytes()];
        echo.readBytes(back);
        answer(context, 200, back);
      } else {
        answer(context, 200, WHOLE);
      }
    }

    private void answer(ChannelHandlerContext context, int status, byte[] body) {
      FullHttpResponse response =
          new DefaultFullHttpResponse(
              HttpVersion.HTTP_1_1,
              HttpResponseStatus.valueOf(status),
              Unpooled.wrappedBuffer(body));
      response
          .headers()
          .set("content-type", echo == null ? "application/json" : "application/octet-stream")
          .set("content-length", body.length);
      tell(response.headers());
      context.writeAndFlush(response);
    }

    private void tell(HttpHeaders headers) {
      headers.set("x-seen-bytes", bytes);
    }

    private void stream(ChannelHandlerContext context, String how) {
      int first = setting(how, "first", 0);
      int chunks = setting(how, "chunks", 5);
      int gap = setting(how, "gap", 0);
      HttpResponse response = new DefaultHttpResponse(HttpVersion.HTTP_1_1, HttpResponseStatus.OK);
      response
          .headers()
          .set("content-type", "text/event-stream; charset=utf-8")
          .set("transfer-encoding", "chunked");
      context.writeAndFlush(response);
      context.executor().schedule(() -> next(context, chunks, gap), first, TimeUnit.MILLISECONDS);
    }

    private void next(ChannelHandlerContext context, int left, int gap) {
      if (!context.channel().isActive()) {
        return;
      }
      if (left == 0) {
        context.write(content(USAGE));
        context.writeAndFlush(LastHttpContent.EMPTY_LAST_CONTENT);
        return;
      }
      context.writeAndFlush(content(CHUNK));
      if (gap == 0) {
        context.executor().execute(() -> next(context, left - 1, gap));
      } else {
        context.executor().schedule(() -> next(context, left - 1, gap), gap, TimeUnit.MILLISECONDS);
      }
    }

    private HttpContent content(String text) {
      return new DefaultHttpContent(
          Unpooled.wrappedBuffer(text.getBytes(StandardCharsets.US_ASCII)));
    }

    private int setting(String how, String name, int fallback) {
      for (String word : how.split(" ", -1)) {
        if (word.startsWith(name + "=")) {
          return Integer.parseInt(word.substring(name.length() + 1));
        }
      }
      return fallback;
    }

    @Override
    public void exceptionCaught(ChannelHandlerContext context, Throwable broken) {
      context.close().addListener(ChannelFutureListener.CLOSE_ON_FAILURE);
    }
  }

  private static final class Echoing extends ChannelInboundHandlerAdapter {
    @Override
    public void channelRead(ChannelHandlerContext context, Object message) {
      if (message instanceof ByteBuf bytes) {
        context.writeAndFlush(bytes).addListener(ChannelFutureListener.CLOSE_ON_FAILURE);
      } else {
        // The end of the request's head, from the decoder that leaves.
        ReferenceCountUtil.release(message);
      }
    }
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException("every Java has SHA-256", impossible);
    }
  }
}
