// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.net.httpserver.HttpServer;
import io.kvoy.scoring.FakeClock;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.WorkerSpec;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class MetricsScraperTest {
  private static final InetAddress LOCAL = InetAddress.getLoopbackAddress();

  @Test
  void MET_03_aSlowPageDelaysOnlyItsOwnWorker() throws Exception {
    var scrapes = new CountDownLatch(5);
    HttpServer quick = HttpServer.create(new InetSocketAddress(LOCAL, 0), 0);
    quick.createContext(
        "/metrics",
        exchange -> {
          byte[] page =
              "vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n"
                  .getBytes(StandardCharsets.UTF_8);
          exchange.sendResponseHeaders(200, page.length);
          exchange.getResponseBody().write(page);
          exchange.close();
          scrapes.countDown();
        });
    quick.start();
    var registry = new FleetRegistry(HealthSettings.DEFAULTS, System::nanoTime);
    var book = new LoadBook(System::nanoTime, Duration.ofSeconds(30));
    var ledger = new InFlightLedger(System::nanoTime);
    // Accepts by backlog and never answers.
    try (var silent = new ServerSocket(0, 1, LOCAL);
        var scraper =
            new MetricsScraper(
                registry,
                ledger,
                book,
                System::nanoTime,
                "/metrics",
                Duration.ofMillis(5),
                Duration.ofSeconds(30),
                Duration.ofMinutes(1),
                _ -> {})) {
      String host = LOCAL.getHostAddress();
      registry.put(WorkerSpec.ready("pool", "silent", new Endpoint(host, silent.getLocalPort())));
      registry.put(
          WorkerSpec.ready("pool", "quick", new Endpoint(host, quick.getAddress().getPort())));
      scraper.start();

      assertThat(scrapes.await(10, TimeUnit.SECONDS)).isTrue();
      long now = System.nanoTime();
      assertThat(book.fresh(registry.fleet().workers().get(1), now)).isNotNull();
      assertThat(book.fresh(registry.fleet().workers().get(0), now)).isNull();
    } finally {
      quick.stop(0);
    }
  }

  @Test
  void MET_06_aWrongPortLogsOneLinePerWorkerAndPeriod() {
    var clock = new FakeClock();
    var log = new FailureLog("w0", Duration.ofSeconds(60).toNanos());
    int lines = 0;
    for (int scrape = 0; scrape < 2400; scrape++) {
      lines += log.failed("ConnectException", clock.getAsLong()).isPresent() ? 1 : 0;
      clock.advance(Duration.ofMillis(50));
    }

    assertThat(lines).isEqualTo(2);
    clock.advance(Duration.ofSeconds(60));
    assertThat(log.failed("ConnectException", clock.getAsLong()))
        .hasValue(
            "metrics scrape failed, load unknown: worker=w0 why=ConnectException untold=1199");
  }
}
