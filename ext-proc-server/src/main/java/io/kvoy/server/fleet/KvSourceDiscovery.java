// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.fleet;

import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.kvcache.KvEventSources;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks workers where they publish KV events ({@code GET /kv_event_sources}, vLLM 0.32) and declares
 * them anew with the answer. Asks again until each has answered, and now and then afterwards, since
 * a restarted worker may publish elsewhere.
 */
public final class KvSourceDiscovery implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(KvSourceDiscovery.class);
  private static final Duration INTERVAL = Duration.ofSeconds(2);
  private static final Duration TIMEOUT = Duration.ofSeconds(2);
  private static final int MAX_ANSWER_BYTES = 256 << 10;

  private final FleetRegistry registry;
  private final HttpClient http =
      HttpClient.newBuilder()
          .version(HttpClient.Version.HTTP_1_1)
          .connectTimeout(TIMEOUT)
          .executor(Executors.newVirtualThreadPerTaskExecutor())
          .build();
  private final ScheduledExecutorService loop =
      Executors.newSingleThreadScheduledExecutor(
          task -> Thread.ofPlatform().name("kvoy-kv-discovery").daemon().unstarted(task));

  /** Answers so far, by the worker as declared without them. */
  private final Map<WorkerSpec, WorkerSpec> answers = new ConcurrentHashMap<>();

  /** Written by {@link #ask}, read by the loop. */
  private volatile List<WorkerSpec> asked = List.of();

  public KvSourceDiscovery(FleetRegistry registry) {
    this.registry = registry;
    var _ =
        loop.scheduleWithFixedDelay(this::doWork, 0, INTERVAL.toMillis(), TimeUnit.MILLISECONDS);
  }

  /** The worker with its event endpoints if it has told them, else as given. */
  public WorkerSpec known(WorkerSpec spec) {
    return answers.getOrDefault(spec, spec);
  }

  /** From now on exactly these workers are asked. */
  public void ask(List<WorkerSpec> workers) {
    asked = List.copyOf(workers);
    answers.keySet().retainAll(workers);
  }

  /** One round over all workers. */
  void doWork() {
    for (WorkerSpec spec : asked) {
      try {
        HttpResponse<byte[]> response =
            http.send(
                HttpRequest.newBuilder(
                        URI.create("http://" + spec.endpoint() + "/kv_event_sources"))
                    .timeout(TIMEOUT)
                    .build(),
                HttpResponse.BodyHandlers.limiting(
                    HttpResponse.BodyHandlers.ofByteArray(), MAX_ANSWER_BYTES));
        if (response.statusCode() == 200) {
          answered(spec, response.body());
        }
      } catch (IOException e) {
        LOG.debug(
            "kv_event_sources worker={} failed={}", spec.name(), e.getClass().getSimpleName());
      } catch (InterruptedException _) {
        Thread.currentThread().interrupt();
        return;
      } catch (RuntimeException e) {
        LOG.warn(
            "kv_event_sources worker={} unreadable={}", spec.name(), e.getClass().getSimpleName());
      }
    }
  }

  private void answered(WorkerSpec spec, byte[] answer) {
    String json = new String(answer, StandardCharsets.UTF_8);
    switch (KvEventSources.parse(json, spec.endpoint().host())) {
      case KvEventSources.Found(List<KvEventSources.Source> ranks) -> {
        List<KvPublishers.Rank> publishing =
            ranks.stream()
                .filter(rank -> !rank.endpoint().isEmpty())
                .map(rank -> new KvPublishers.Rank(rank.endpoint(), rank.replayEndpoint()))
                .toList();
        if (!publishing.isEmpty()) {
          declare(spec, publishing);
        }
      }
      case KvEventSources.Unreadable(String reason) ->
          LOG.warn("kv_event_sources worker={} unreadable=\"{}\"", spec.name(), reason);
    }
  }

  private void declare(WorkerSpec spec, List<KvPublishers.Rank> ranks) {
    WorkerSpec complete = spec.with(new KvPublishers(ranks, spec.kv().bind(), spec.kv().topic()));
    if (!Objects.equals(answers.put(spec, complete), complete)) {
      LOG.info(
          "kv_events_discovered worker={} ranks={} endpoint={} replay={} bind={}",
          spec.name(),
          ranks.size(),
          ranks.getFirst().events(),
          ranks.getFirst().replay(),
          complete.kv().bind());
      registry.put(complete);
    }
  }

  @Override
  public void close() {
    loop.shutdownNow();
    http.shutdownNow();
  }
}
