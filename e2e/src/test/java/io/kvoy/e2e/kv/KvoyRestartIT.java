// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.demo.SimStageWorker;
import io.kvoy.e2e.demo.Stage;
import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.load.ChatAnswer;
import io.kvoy.e2e.load.ChatClient;
import io.kvoy.e2e.load.ChatMessage;
import io.kvoy.e2e.load.LoadRun;
import io.kvoy.e2e.load.Workloads;
import io.kvoy.e2e.sim.EngineOptions;
import io.kvoy.e2e.sim.FolderSimTokenizer;
import io.kvoy.e2e.sim.SimTokenizer;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** What a restarted Kvoy knows, and when. */
final class KvoyRestartIT {
  private static final String MODEL = "rig-qwen3";
  private static final int BLOCKS = 10_000;

  @Test
  void IDX_03_restartedKvoyServesAtOnceAndHasItsIndexBackByReplay() throws Exception {
    LocalTools tools = LocalTools.find();
    SimTokenizer tokenizer = FolderSimTokenizer.load(tools.tokenizer("qwen3"), "<|im_end|>");
    EngineOptions engine =
        EngineOptions.DEFAULTS.withCache(8_000, 16, 40_000).withSpeed(2e6, 1e5, 0, 0.1);
    List<SimStageWorker> workers =
        List.of(
            SimStageWorker.start("sim-0", MODEL, tokenizer, engine, 1),
            SimStageWorker.start("sim-1", MODEL, tokenizer, engine, 2));
    try (Stage stage =
            Stage.start(
                tools,
                Files.createTempDirectory("kvoy-restart-"),
                MODEL,
                tools.tokenizer("qwen3"),
                workers,
                0);
        ChatClient client = new ChatClient(stage.url(), MODEL)) {
      List<ChatMessage> prompt =
          List.of(ChatMessage.system(new Workloads(5).text(400)), ChatMessage.user("Hello"));
      client.chat(prompt, 2);
      fill(workers);
      await().atMost(Duration.ofSeconds(20)).until(() -> entries(stage.kvoy()) >= BLOCKS);
      double before = entries(stage.kvoy());
      AtomicBoolean isOver = new AtomicBoolean();
      AtomicInteger served = new AtomicInteger();
      AtomicInteger failed = new AtomicInteger();
      // Requests all the time: while Kvoy is away, the proxy lets them through.
      Thread load =
          Thread.ofVirtual()
              .start(() -> LoadRun.untilOver(client, Duration.ZERO, isOver, served, failed));

      stage.kvoy().kill();
      int servedBefore = served.get();
      long start = System.nanoTime();
      try (KvoyProcess again =
          KvoyProcess.start(
              stage.configFile(),
              stage.adminUrl().getPort(),
              stage.folder().resolve("again.log"))) {
        long alive = System.nanoTime();
        await()
            .ignoreExceptions() // a page that a busy machine renders too late
            .atMost(Duration.ofSeconds(60))
            .until(() -> entries(again) >= before);
        long whole = System.nanoTime();
        again.awaitReady(Duration.ofSeconds(60));
        int failedBefore = failed.get();
        System.out.printf(
            "process alive after %d ms, %.0f entries back %d ms later, ready %d ms after that; %d"
                + " requests served meanwhile%n",
            (alive - start) / 1_000_000,
            before,
            (whole - alive) / 1_000_000,
            (System.nanoTime() - whole) / 1_000_000,
            served.get() - servedBefore);
        assertThat(Duration.ofNanos(whole - alive)).isLessThan(Duration.ofSeconds(10));
        await()
            .atMost(Duration.ofSeconds(20))
            .until(() -> predictsAsReported(client.chat(prompt, 2)));
        isOver.set(true);
        load.join();
        // Requests that meet a killed process fail until the proxy's next health check.
        assertThat(failed.get()).as("requests failed since it is back").isEqualTo(failedBefore);
        assertThat(served.get()).isGreaterThan(servedBefore);
      }
    }
  }

  private static boolean predictsAsReported(ChatAnswer answer) {
    return answer.cachedTokens() > 0
        && answer
            .header("x-kvoy-predicted-cached-tokens")
            .equals(Long.toString(answer.cachedTokens()));
  }

  /** Prompts of 2,000 blocks, straight to the workers. */
  private static void fill(List<SimStageWorker> workers) throws IOException, InterruptedException {
    try (HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()) {
      for (int i = 0; i < 6; i++) {
        int first = 1_000 + 7 * i;
        String ids =
            Arrays.toString(
                IntStream.range(0, 32_000).map(t -> (t * 31 + first) % 90_000).toArray());
        HttpResponse<String> answer =
            http.send(
                HttpRequest.newBuilder(
                        URI.create(
                            "http://"
                                + workers.get(i % workers.size()).endpoint()
                                + "/v1/completions"))
                    .header("content-type", "application/json")
                    .POST(
                        HttpRequest.BodyPublishers.ofString(
                            "{\"model\":\"%s\",\"prompt\":%s,\"max_tokens\":1}"
                                .formatted(MODEL, ids)))
                    .build(),
                HttpResponse.BodyHandlers.ofString());
        assertThat(answer.statusCode()).as(answer.body()).isEqualTo(200);
      }
    }
  }

  private static double entries(KvoyProcess kvoy) throws IOException, InterruptedException {
    return kvoy.metric("kvoy_index_entries", "");
  }
}
