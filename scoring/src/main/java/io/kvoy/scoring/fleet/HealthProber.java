// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.HttpTimeoutException;
import java.time.Duration;

/**
 * Asks every worker {@code GET /health} on its own virtual thread and hands what it saw to the
 * {@link FleetRegistry}.
 *
 * <p>vLLM answers 200 with an empty body while its engine lives and 503 when the engine has died
 * (vLLM 0.32, {@code vllm/entrypoints/serve/instrumentator/health.py}).
 */
public final class HealthProber implements AutoCloseable {
  private final HttpClient client;
  private final String path;
  private final Duration timeout;
  private final WorkerLoops loops;

  /**
   * @param registry told of every result; its settings should say {@code probed}
   * @param path what to ask, {@code /health} for vLLM and SGLang
   * @param interval pause between two probes of a worker
   * @param timeout longest wait for connection and answer
   */
  public HealthProber(FleetRegistry registry, String path, Duration interval, Duration timeout) {
    this.path = path;
    this.timeout = timeout;
    this.client =
        HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(timeout)
            .followRedirects(HttpClient.Redirect.NEVER)
            .executor(task -> Thread.ofVirtual().name("health-http").start(task))
            .build();
    this.loops =
        new WorkerLoops(
            "health",
            registry,
            interval,
            worker -> () -> registry.probed(worker, probe(worker.endpoint())));
  }

  /** Starts probing each present and future worker. */
  public void start() {
    loops.start();
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
    } catch (HttpTimeoutException _) {
      return new ProbeResult.TimedOut();
    } catch (ConnectException _) {
      return new ProbeResult.Unreachable("connection refused");
    } catch (IOException | IllegalArgumentException e) {
      return new ProbeResult.Unreachable(e.getClass().getSimpleName());
    }
  }

  @Override
  public void close() {
    loops.close();
    client.shutdownNow();
  }
}
