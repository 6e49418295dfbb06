// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import io.envoyproxy.envoy.service.ext_proc.v3.ExternalProcessorGrpc;
import io.grpc.Server;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.kvoy.server.DoorShare;
import io.kvoy.server.RoutingPipeline;
import io.kvoy.server.feedback.DispatchBook;
import io.kvoy.server.metrics.ServerMeters;
import io.netty.handler.ssl.SslContext;
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

  /**
   * Room beside a body of the largest size: for the envelope, and for what a proxy buffers beyond
   * our limit, so that we get to see it and refuse it in the caller's shape.
   */
  private static final int ENVELOPE_BYTES = 2 << 20;

  /** Wide enough that a 1 MiB body arrives without a window update in between. */
  private static final int FLOW_CONTROL_WINDOW_BYTES = 1 << 20;

  /** Bodies take at most this part of the heap; a body being read exists twice. */
  private static final int HELD_SHARE = 4;

  /** Nothing open and nothing new for so long: proxies have gone. */
  private static final Duration QUIET = Duration.ofMillis(1_500);

  private static final Duration DRAIN_POLL = Duration.ofMillis(20);
  private static final Duration TIMER_TICK = Duration.ofMillis(10);

  /**
   * Where to listen and what to allow.
   *
   * @param address ext_proc listen address
   * @param healthAddress gRPC health listen address, empty for none
   * @param tls of the ext_proc port, plaintext when empty; health is plaintext always
   * @param limits bounds on each exchange, asked again and again
   * @param decisionThreads threads that read and tokenize, at least 1
   * @param conformanceHooks whether {@link io.kvoy.server.ConformanceHooks} are on
   * @param decisionQueue requests that may wait for such a thread before the pick is by load alone
   */
  public record Settings(
      InetSocketAddress address,
      Optional<InetSocketAddress> healthAddress,
      Optional<SslContext> tls,
      Supplier<ExchangeLimits> limits,
      int decisionThreads,
      int decisionQueue,
      boolean conformanceHooks) {}

  private final Server server;
  private final Optional<Server> healthServer;
  private final HealthStatusManager health = new HealthStatusManager();
  private final ThreadPoolExecutor decisionThreads;
  private final HashedWheelTimer timer;
  private final ExchangeContext context;

  private ExtProcServer(
      Settings settings, RoutingPipeline pipeline, DispatchBook book, ServerMeters metrics) {
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
    context =
        new ExchangeContext(
            decisionThreads,
            new InlineReading(),
            timer,
            settings.limits(),
            new AtomicInteger(),
            new AtomicLong(),
            new AtomicLong(),
            Runtime.getRuntime().maxMemory() / HELD_SHARE,
            book,
            settings.conformanceHooks(),
            metrics);
    NettyServerBuilder door = NettyServerBuilder.forAddress(settings.address());
    settings.tls().ifPresent(door::sslContext);
    server =
        door.directExecutor()
            .maxInboundMessageSize(
                (int)
                    Math.min(
                        Integer.MAX_VALUE, settings.limits().get().maxBodyBytes() + ENVELOPE_BYTES))
            .maxInboundMetadataSize(MAX_METADATA_BYTES)
            .flowControlWindow(FLOW_CONTROL_WINDOW_BYTES)
            .maxConcurrentCallsPerConnection(Integer.MAX_VALUE)
            .addService(ExtProcService.of(pipeline, context))
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
      Settings settings, RoutingPipeline pipeline, DispatchBook book, ServerMeters metrics)
      throws IOException {
    ExtProcServer started = new ExtProcServer(settings, pipeline, book, metrics);
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

  /** What other doors share with this one; not to be used after its end. */
  public DoorShare share() {
    return new DoorShare(
        context.decisionThreads(),
        context.timer(),
        context.openStreams(),
        context.startedStreams(),
        context.heldBytes(),
        context.maxHeldBytes());
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

  /**
   * Says NOT_SERVING and goes on serving until proxies have stopped sending, then says GOAWAY,
   * waits for what still runs and closes. A proxy that learns of the end by its health check loses
   * no request; an idle server is gone after {@link #QUIET}.
   *
   * @param grace longest time for all of it
   */
  public void drain(Duration grace) throws InterruptedException {
    long start = System.nanoTime();
    long deadline = start + grace.toNanos();
    health.enterTerminalState();
    long seen = context.startedStreams().get();
    long quietSince = start;
    while (System.nanoTime() - deadline < 0) {
      long now = System.nanoTime();
      long started = context.startedStreams().get();
      if (started != seen || context.openStreams().get() > 0) {
        seen = started;
        quietSince = now;
      } else if (now - quietSince >= QUIET.toNanos()) {
        break;
      }
      Thread.sleep(DRAIN_POLL);
    }
    server.shutdown();
    long left = Math.max(0, deadline - System.nanoTime());
    if (!server.awaitTermination(left, TimeUnit.NANOSECONDS)) {
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
