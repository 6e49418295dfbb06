// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import io.envoyproxy.envoy.service.ext_proc.v3.ExternalProcessorGrpc;
import io.grpc.Server;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.kvoy.server.RoutingPipeline;
import io.kvoy.server.metrics.ServerMeters;
import io.netty.util.HashedWheelTimer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/**
 * The ext_proc port and the gRPC health port, with the threads that they need.
 *
 * <p>Lifecycle: {@link #start} binds both ports or none; {@link #setReady} flips health; {@link
 * #drain} says NOT_SERVING, lets running streams end and stops. Every method may be called from any
 * thread; close is idempotent.
 */
public final class ExtProcServer implements AutoCloseable {
  /** Health service names that gateways ask for; {@code ""} is the whole server. */
  private static final List<String> READINESS_SERVICES =
      List.of("", "readiness", ExternalProcessorGrpc.SERVICE_NAME);

  private static final String LIVENESS_SERVICE = "liveness";

  /** A header list of 200 headers of 200 bytes must pass, also when Envoy adds its own. */
  private static final int MAX_METADATA_BYTES = 256 << 10;

  /** Room for a protobuf envelope and headers beside a body of the largest size. */
  private static final int ENVELOPE_BYTES = 1 << 20;

  /** Wide enough that a 1 MiB body arrives without a window update in between. */
  private static final int FLOW_CONTROL_WINDOW_BYTES = 1 << 20;

  /** Bodies take at most this part of the heap; a body being read exists twice. */
  private static final int HELD_SHARE = 4;

  private static final Duration TIMER_TICK = Duration.ofMillis(10);

  /**
   * Where to listen and what to allow.
   *
   * @param address ext_proc listen address
   * @param healthAddress gRPC health listen address, empty for none
   * @param limits bounds on each exchange, asked again and again
   * @param decisionThreads threads that read and tokenize, at least 1
   * @param decisionQueue requests that may wait for such a thread before the pick is by load alone
   */
  public record Settings(
      InetSocketAddress address,
      Optional<InetSocketAddress> healthAddress,
      Supplier<ExchangeLimits> limits,
      int decisionThreads,
      int decisionQueue) {}

  private final Server server;
  private final Optional<Server> healthServer;
  private final HealthStatusManager health = new HealthStatusManager();
  private final ThreadPoolExecutor decisionThreads;
  private final HashedWheelTimer timer;

  private ExtProcServer(Settings settings, RoutingPipeline pipeline, ServerMeters metrics) {
    AtomicInteger number = new AtomicInteger();
    decisionThreads =
        new ThreadPoolExecutor(
            settings.decisionThreads(),
            settings.decisionThreads(),
            0,
            TimeUnit.SECONDS,
            new ArrayBlockingQueue<>(settings.decisionQueue()),
            task ->
                Thread.ofPlatform()
                    .name("kvoy-decide-" + number.getAndIncrement())
                    .daemon()
                    .unstarted(task));
    timer =
        new HashedWheelTimer(
            task -> Thread.ofPlatform().name("kvoy-timer").daemon().unstarted(task),
            TIMER_TICK.toMillis(),
            TimeUnit.MILLISECONDS);
    ExchangeContext context =
        new ExchangeContext(
            decisionThreads,
            timer,
            settings.limits(),
            new AtomicInteger(),
            new AtomicLong(),
            Runtime.getRuntime().maxMemory() / HELD_SHARE,
            metrics);
    server =
        NettyServerBuilder.forAddress(settings.address())
            .directExecutor()
            .maxInboundMessageSize(
                (int)
                    Math.min(
                        Integer.MAX_VALUE, settings.limits().get().maxBodyBytes() + ENVELOPE_BYTES))
            .maxInboundMetadataSize(MAX_METADATA_BYTES)
            .flowControlWindow(FLOW_CONTROL_WINDOW_BYTES)
            .maxConcurrentCallsPerConnection(Integer.MAX_VALUE)
            .addService(new ExtProcService(pipeline, context))
            .addService(health.getHealthService())
            .build();
    healthServer =
        settings
            .healthAddress()
            .map(
                address ->
                    NettyServerBuilder.forAddress(address)
                        .directExecutor()
                        .addService(health.getHealthService())
                        .build());
    health.setStatus(LIVENESS_SERVICE, ServingStatus.SERVING);
    setReady(false);
  }

  /** Binds both ports; throws with nothing left open when one is taken. */
  public static ExtProcServer start(
      Settings settings, RoutingPipeline pipeline, ServerMeters metrics) throws IOException {
    ExtProcServer started = new ExtProcServer(settings, pipeline, metrics);
    try {
      started.server.start();
      if (started.healthServer.isPresent()) {
        started.healthServer.get().start();
      }
      return started;
    } catch (IOException e) {
      started.close();
      throw e;
    }
  }

  /** The bound ext_proc port; differs from the setting when that was 0. */
  public int port() {
    return server.getPort();
  }

  /** The bound health port; -1 when there is none. */
  public int healthPort() {
    return healthServer.map(Server::getPort).orElse(-1);
  }

  /** Tells proxies whether to send requests here. */
  public void setReady(boolean ready) {
    ServingStatus status = ready ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
    READINESS_SERVICES.forEach(service -> health.setStatus(service, status));
  }

  /** Stops taking streams and waits for the running ones, at most {@code grace}. */
  public void drain(Duration grace) throws InterruptedException {
    health.enterTerminalState();
    server.shutdown();
    if (!server.awaitTermination(grace.toMillis(), TimeUnit.MILLISECONDS)) {
      server.shutdownNow();
    }
    close();
  }

  @Override
  public void close() {
    server.shutdownNow();
    healthServer.ifPresent(Server::shutdownNow);
    decisionThreads.shutdownNow();
    timer.stop();
  }
}
