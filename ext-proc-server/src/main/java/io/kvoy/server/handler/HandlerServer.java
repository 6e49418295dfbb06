// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.handler;

import io.grpc.Server;
import io.grpc.netty.NettyServerBuilder;
import io.kvoy.server.DoorShare;
import io.kvoy.server.RoutingPipeline;
import io.kvoy.server.extproc.ExchangeLimits;
import io.kvoy.server.feedback.DispatchBook;
import io.kvoy.server.metrics.ServerMeters;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.function.Supplier;

/**
 * The port of the inference handler. Picks under way count among the streams that a drain of the
 * server waits for. Every method may be called from any thread; close is idempotent.
 */
public final class HandlerServer implements AutoCloseable {
  /** Pieces of 1 MiB are allowed; the rest is envelope. */
  private static final int MAX_MESSAGE_BYTES = 2 << 20;

  private final Server server;

  private HandlerServer(Server server) {
    this.server = server;
  }

  /**
   * Binds the port; throws when it is taken.
   *
   * @param share what this door shares with the others; stays theirs
   * @param limits bounds on each call
   */
  public static HandlerServer start(
      InetSocketAddress address,
      RoutingPipeline pipeline,
      DoorShare share,
      Supplier<ExchangeLimits> limits,
      DispatchBook book,
      ServerMeters metrics)
      throws IOException {
    return new HandlerServer(
        NettyServerBuilder.forAddress(address)
            .directExecutor()
            .maxInboundMessageSize(MAX_MESSAGE_BYTES)
            .addService(
                new HandlerService(new HandlerContext(pipeline, share, limits, book, metrics)))
            .build()
            .start());
  }

  /** The bound port; differs from the setting when that was 0. */
  public int port() {
    return server.getPort();
  }

  @Override
  public void close() {
    server.shutdownNow();
  }
}
