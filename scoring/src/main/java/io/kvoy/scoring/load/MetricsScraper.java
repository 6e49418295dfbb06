// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerLoops;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Fetches each worker's metrics page on its own virtual thread and puts it into the {@link
 * LoadBook}. A worker that answers late or not at all delays only itself and becomes unknown.
 */
public final class MetricsScraper implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(MetricsScraper.class);

  private final InFlightLedger ledger;
  private final LoadBook book;
  private final LongSupplier nanoClock;
  private final String path;
  private final Duration timeout;
  private final long logPeriodNanos;
  private final HttpClient client;
  private final WorkerLoops loops;
  private final AtomicLong failures = new AtomicLong();
  private final Consumer<Worker> onFailure;

  /**
   * @param path what to ask, {@code /metrics}
   * @param interval pause between two scrapes of a worker; 50 ms..5 s
   * @param timeout longest wait for one page
   * @param logPeriod at most one line per worker and period about failures
   * @param onFailure told of each failed scrape, on the worker's own thread
   */
  public MetricsScraper(
      FleetRegistry registry,
      InFlightLedger ledger,
      LoadBook book,
      LongSupplier nanoClock,
      String path,
      Duration interval,
      Duration timeout,
      Duration logPeriod,
      Consumer<Worker> onFailure) {
    this.ledger = ledger;
    this.book = book;
    this.nanoClock = nanoClock;
    this.path = path;
    this.timeout = timeout;
    this.logPeriodNanos = logPeriod.toNanos();
    this.onFailure = onFailure;
    this.client =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(timeout)
            .followRedirects(HttpClient.Redirect.NEVER)
            .executor(task -> Thread.ofVirtual().name("scrape-http").start(task))
            .build();
    this.loops = new WorkerLoops("scrape", registry, interval, Target::new);
  }

  /** Starts scraping each present and future worker. */
  public void start() {
    loops.start();
  }

  /** Scrapes that failed since the start. */
  public long failures() {
    return failures.get();
  }

  /** One worker's scraping: the page address and what was last said about failures. */
  private final class Target implements WorkerLoops.Step {
    private final Worker worker;
    private final FailureLog failureLog;

    Target(Worker worker) {
      this.worker = worker;
      this.failureLog = new FailureLog(worker.name(), logPeriodNanos);
    }

    @Override
    public void run() throws InterruptedException {
      int ownBefore = ledger.load(worker).inFlight();
      try {
        HttpRequest request =
            HttpRequest.newBuilder(URI.create("http://" + worker.endpoint() + path))
                .timeout(timeout)
                .GET()
                .build();
        HttpResponse<byte[]> response =
            client.send(
                request,
                BodyHandlers.limiting(BodyHandlers.ofByteArray(), PrometheusText.MAX_PAGE_BYTES));
        if (response.statusCode() != 200) {
          failed("status " + response.statusCode());
          return;
        }
        byte[] page = response.body();
        long now = nanoClock.getAsLong();
        OwnShare own = OwnShare.of(ledger.load(worker)).withAtLeast(ownBefore);
        book.put(worker, PrometheusText.parse(page, page.length, now), own);
      } catch (IOException | IllegalArgumentException e) {
        failed(e.getClass().getSimpleName());
      }
    }

    private void failed(String why) {
      failures.incrementAndGet();
      onFailure.accept(worker);
      failureLog.failed(why, nanoClock.getAsLong()).ifPresent(log::warn);
    }
  }

  @Override
  public void close() {
    loops.close();
    client.shutdownNow();
  }
}
