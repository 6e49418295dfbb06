// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class HealthProberTest {
  private static final InetAddress LOCAL = InetAddress.getLoopbackAddress();

  private static HttpServer server(int status) throws IOException {
    HttpServer server = HttpServer.create(new InetSocketAddress(LOCAL, 0), 0);
    server.createContext(
        "/health",
        exchange -> {
          exchange.sendResponseHeaders(status, -1);
          exchange.close();
        });
    server.start();
    return server;
  }

  private static HealthProber prober(FleetRegistry registry, Duration timeout) {
    return new HealthProber(registry, "/health", Duration.ofMillis(5), timeout);
  }

  private static FleetRegistry registry() {
    return new FleetRegistry(HealthSettings.DEFAULTS.withProbed(true), System::nanoTime);
  }

  @Test
  void eachAnswerIsItsOwnResult() throws Exception {
    HttpServer good = server(200);
    HttpServer bad = server(503);
    int closedPort;
    try (var closed = new ServerSocket(0, 1, LOCAL)) {
      closedPort = closed.getLocalPort();
    }
    // Accepts by backlog and never answers.
    try (var silent = new ServerSocket(0, 1, LOCAL);
        HealthProber prober = prober(registry(), Duration.ofSeconds(30));
        HealthProber impatient = prober(registry(), Duration.ofMillis(300))) {
      assertThat(prober.probe(endpoint(good.getAddress().getPort())))
          .isEqualTo(new ProbeResult.Healthy());
      assertThat(prober.probe(endpoint(bad.getAddress().getPort())))
          .isEqualTo(new ProbeResult.Unhealthy(503));
      assertThat(prober.probe(endpoint(closedPort)))
          .isEqualTo(new ProbeResult.Unreachable("connection refused"));
      assertThat(impatient.probe(endpoint(silent.getLocalPort())))
          .isEqualTo(new ProbeResult.TimedOut());
    } finally {
      good.stop(0);
      bad.stop(0);
    }
  }

  @Test
  void aSilentWorkerDoesNotDelayTheOthers() throws Exception {
    HttpServer good = server(200);
    FleetRegistry registry = registry();
    var ready = new CountDownLatch(1);
    registry.listen(
        change -> {
          if (change.after().readyCount("pool") == 1) {
            ready.countDown();
          }
        });
    try (var silent = new ServerSocket(0, 1, LOCAL);
        HealthProber prober = prober(registry, Duration.ofSeconds(30))) {
      prober.start();
      registry.put(WorkerSpec.ready("pool", "silent", endpoint(silent.getLocalPort())));
      registry.put(WorkerSpec.ready("pool", "good", endpoint(good.getAddress().getPort())));

      assertThat(ready.await(10, TimeUnit.SECONDS)).isTrue();
    } finally {
      good.stop(0);
    }
  }

  private static Endpoint endpoint(int port) {
    return new Endpoint(LOCAL.getHostAddress(), port);
  }
}
