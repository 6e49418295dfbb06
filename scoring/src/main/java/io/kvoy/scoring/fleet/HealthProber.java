// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Asks every worker {@code GET /health} on its own virtual thread, so that a slow one delays nobody
 * else, and hands what it saw to the {@link FleetRegistry}.
 *
 * <p>vLLM answers 200 with an empty body while its engine lives (v0.9 to v0.32, {@code
 * entrypoints/…/instrumentator/health.py}) and 503 when the engine has died. Close stops all loops;
 * a closed prober cannot be started again.
 */
public final class HealthProber implements AutoCloseable {
  private final FleetRegistry registry;
  private final HttpClient client;
  private final String path;
  private final Duration interval;
  private final Duration timeout;
  private final Map<Worker, Thread> loops = new ConcurrentHashMap<>();
  private volatile boolean closed;

  /**
   * @param registry told of every result; its settings should say {@code probed}
   * @param path what to ask, {@code /health} for vLLM and SGLang
   * @param interval pause between two probes of a worker
   * @param timeout longest wait for connection and answer
   */
  public HealthProber(FleetRegistry registry, String path, Duration interval, Duration timeout) {
    this.registry = registry;
    this.path = path;
    this.interval = interval;
    this.timeout = timeout;
    this.client =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(timeout)
            .followRedirects(HttpClient.Redirect.NEVER)
            .executor(task -> Thread.ofVirtual().name("health-http").start(task))
            .build();
  }

  /** Starts a loop for each present and future worker. */
  public void start() {
    registry.listen(
        change -> {
          change.removed().forEach(this::stop);
          change.added().forEach(this::watch);
        });
    registry.fleet().workers().forEach(this::watch);
  }

  private void watch(Worker worker) {
    loops.computeIfAbsent(
        worker, w -> Thread.ofVirtual().name("health-" + w.name()).unstarted(() -> loop(w)));
    Thread loop = loops.get(worker);
    if (loop != null && loop.getState() == Thread.State.NEW) {
      start(loop);
    }
    if (closed) {
      stop(worker);
    }
  }

  private static void start(Thread loop) {
    try {
      loop.start();
    } catch (IllegalThreadStateException _) {
      // Another thread that saw the same worker started it first.
    }
  }

  private void stop(Worker worker) {
    Thread loop = loops.remove(worker);
    if (loop != null) {
      loop.interrupt();
    }
  }

  private void loop(Worker worker) {
    try {
      while (!closed && registry.fleet().isLive(worker)) {
        registry.probed(worker, probe(worker.endpoint()));
        Thread.sleep(interval);
      }
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
    }
  }

  /** One probe; blocks up to the timeout. */
  ProbeResult probe(Endpoint endpoint) throws InterruptedException {
    try {
      HttpRequest request =
          HttpRequest.newBuilder(URI.create("http://" + endpoint + path))
              .timeout(timeout)
              .GET()
              .build();
      int status = client.send(request, BodyHandlers.discarding()).statusCode();
      return status / 100 == 2 ? new ProbeResult.Healthy() : new ProbeResult.Unhealthy(status);
    } catch (HttpConnectTimeoutException _) {
      return new ProbeResult.TimedOut();
    } catch (HttpTimeoutException _) {
      return new ProbeResult.TimedOut();
    } catch (ConnectException e) {
      return new ProbeResult.Unreachable("connection refused" + detail(e.getMessage()));
    } catch (IOException | IllegalArgumentException e) {
      return new ProbeResult.Unreachable(e.getClass().getSimpleName());
    }
  }

  private static String detail(@Nullable String message) {
    return message == null || message.isEmpty() ? "" : ": " + message;
  }

  @Override
  public void close() {
    closed = true;
    loops.keySet().forEach(this::stop);
    client.shutdownNow();
  }
}
