// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.scoring.fleet.Endpoint;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Clients that ask one thing after the other until they are ended, every second one for a stream
 * that lasts some hundred milliseconds. Whatever is not a whole answer with status 200 is kept.
 */
final class ConstantLoad implements AutoCloseable {
  private static final String STREAM = "stream first=30 chunks=20 gap=15";

  final AtomicInteger answered = new AtomicInteger();
  private final List<String> failures = new CopyOnWriteArrayList<>();
  private final HttpClient http =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor();
  private volatile boolean ending;

  ConstantLoad(Endpoint door, int count) {
    for (int i = 0; i < count; i++) {
      boolean streams = i % 2 == 0;
      clients.execute(() -> askOn(door, streams));
    }
  }

  private void askOn(Endpoint door, boolean streams) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create("http://" + door + "/v1/chat/completions"))
            .timeout(Duration.ofSeconds(30))
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(Rig.CHAT.formatted(streams, "hello")));
    if (streams) {
      request.header(InstantWorker.DO, STREAM);
    }
    HttpRequest ready = request.build();
    while (!ending) {
      try {
        HttpResponse<String> answer = http.send(ready, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200 || (streams && !answer.body().endsWith("[DONE]\n\n"))) {
          failures.add(answer.statusCode() + " " + answer.body());
        }
        answered.incrementAndGet();
        // A client that finds an instant worker would otherwise take all of the machine.
        Thread.sleep(Duration.ofMillis(2));
      } catch (java.io.IOException e) {
        failures.add(e.toString());
      } catch (InterruptedException _) {
        return;
      }
    }
  }

  /** Lets every request under way come to its end; then what went wrong. */
  List<String> end() throws InterruptedException {
    ending = true;
    clients.shutdown();
    if (!clients.awaitTermination(30, TimeUnit.SECONDS)) {
      failures.add("a request did not end");
    }
    return failures;
  }

  @Override
  public void close() {
    ending = true;
    clients.shutdownNow();
    http.shutdownNow();
  }
}
