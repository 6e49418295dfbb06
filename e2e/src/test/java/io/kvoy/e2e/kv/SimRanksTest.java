// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.sim.EngineOptions;
import io.kvoy.e2e.sim.EventOptions;
import io.kvoy.e2e.sim.SimOptions;
import io.kvoy.e2e.sim.SimWorker;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.CacheIdentity;
import io.kvoy.scoring.kvcache.KvCacheListener;
import io.kvoy.scoring.kvcache.KvEventSources;
import io.kvoy.scoring.kvcache.KvEventSubscriber;
import io.kvoy.scoring.kvcache.KvSubscriberConfig;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.PrefixIndex;
import io.kvoy.scoring.kvcache.PrefixIndexConfig;
import io.kvoy.scoring.kvcache.PrefixMatch;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** A simulated worker of several data-parallel ranks, found and followed as the server does it. */
class SimRanksTest {
  private static final int RANKS = 4;

  private final SimWorker sim =
      SimWorker.start(
          SimOptions.builder("m")
              .engine(EngineOptions.DEFAULTS.withCache(400, 16, 4096))
              .events(EventOptions.LOOPBACK)
              .timeScale(0.01)
              .dataParallelSize(RANKS)
              .build());
  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT);
  private final KvEventSubscriber subscriber =
      new KvEventSubscriber(index, KvSubscriberConfig.DEFAULT, _ -> 0, KvCacheListener.NONE);
  private final HttpClient http =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final PrefixMatch match = new PrefixMatch();

  @AfterEach
  void close() {
    subscriber.close();
    sim.close();
    http.shutdownNow();
  }

  @Test
  void KVE_07_ranksAreDiscoveredAndFollowedEachWithItsOwnCache() throws Exception {
    Worker worker = worker(discovered());
    assertThat(worker.kv().ranks()).hasSize(RANKS);
    int[] ids = IntStream.range(1000, 1000 + 65).toArray();
    post(ids, 0); // before anybody listens: comes by replay
    subscriber.start();
    subscriber.update(List.of(worker));
    await().atMost(Duration.ofSeconds(20)).until(() -> view(worker) == KvViewState.LIVE);
    assertThat(cached(worker, ids)).isEqualTo(64 / RANKS);

    for (int rank = 1; rank < RANKS; rank++) {
      post(ids, rank);
      int holders = rank + 1;
      await()
          .atMost(Duration.ofSeconds(10))
          .untilAsserted(() -> assertThat(cached(worker, ids)).isEqualTo(64 * holders / RANKS));
    }
  }

  private List<KvEventSources.Source> discovered() throws IOException, InterruptedException {
    String answer =
        http.send(
                HttpRequest.newBuilder(uri("/kv_event_sources")).build(),
                HttpResponse.BodyHandlers.ofString())
            .body();
    return ((KvEventSources.Found) KvEventSources.parse(answer, "127.0.0.1")).sources();
  }

  private Worker worker(List<KvEventSources.Source> sources) {
    return new Worker(
        0,
        1,
        "sim",
        "pool",
        new Endpoint("127.0.0.1", sim.port()),
        new KvPublishers(
            sources.stream()
                .map(source -> new KvPublishers.Rank(source.endpoint(), source.replayEndpoint()))
                .toList(),
            false,
            ""));
  }

  private void post(int[] ids, int rank) throws IOException, InterruptedException {
    HttpResponse<String> answer =
        http.send(
            HttpRequest.newBuilder(uri("/v1/completions"))
                .header("content-type", "application/json")
                .header("x-data-parallel-rank", Integer.toString(rank))
                .POST(
                    HttpRequest.BodyPublishers.ofString(
                        "{\"model\":\"m\",\"prompt\":%s,\"max_tokens\":1}"
                            .formatted(Arrays.toString(ids))))
                .build(),
            HttpResponse.BodyHandlers.ofString());
    assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
  }

  private URI uri(String path) {
    return URI.create("http://127.0.0.1:" + sim.port() + path);
  }

  private int cached(Worker worker, int[] ids) {
    index.lookup(BlockKeys.of(CacheIdentity.PLAIN, ids, 16), match);
    return match.cachedTokens(worker);
  }

  private KvViewState view(Worker worker) {
    index.lookup(BlockKeys.of(CacheIdentity.PLAIN, new int[0], 16), match);
    return match.view(worker);
  }
}
