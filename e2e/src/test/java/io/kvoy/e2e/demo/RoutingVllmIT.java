// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.Scratch;
import io.kvoy.e2e.env.VllmOptions;
import io.kvoy.e2e.load.ChatAnswer;
import io.kvoy.e2e.load.ChatClient;
import io.kvoy.e2e.load.ChatMessage;
import io.kvoy.e2e.load.Conversation;
import io.kvoy.e2e.load.LoadRun;
import io.kvoy.e2e.load.LoadRun.Turn;
import io.kvoy.e2e.load.Workloads;
import java.io.IOException;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/**
 * The main job on two real vLLM workers behind a real Envoy. Their start takes minutes, so all
 * tests share them.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
final class RoutingVllmIT {
  private static final String MODEL = "tiny-qwen3";
  private static final List<VllmStageWorker> WORKERS = new ArrayList<>();

  private static Stage stage;
  private static ChatClient client;

  @BeforeAll
  static void start() throws IOException, InterruptedException {
    LocalTools tools = LocalTools.find();
    WORKERS.clear();
    WORKERS.addAll(
        VllmStageWorker.start(
            tools,
            List.of(VllmOptions.tinyQwen3(tools, "vllm-a"), VllmOptions.tinyQwen3(tools, "vllm-b")),
            System.out::println));
    stage =
        Stage.start(
            tools,
            Files.createTempDirectory("kvoy-vllm-rig-"),
            MODEL,
            tools.tokenizer("qwen3"),
            WORKERS,
            0);
    client = new ChatClient(stage.url(), MODEL);
  }

  @AfterAll
  static void stop() throws IOException {
    if (client != null) {
      client.close();
    }
    if (stage != null) {
      stage.close();
      Scratch.delete(stage.folder());
    }
  }

  @Test
  @Order(1)
  void laterTurnsGoWhereTheirPrefixIsAndCachedTokensAreThoseThatVllmReports() throws Exception {
    // 20 conversations of 5 turns, one at a time; sized so that both caches together hold a few of
    // them: evictions happen, and must be known.
    List<Conversation> load = new Workloads(1).multiTurn(20, 5, 250, 90, 12);
    // A reader takes a moment before the next turn; events follow an answer within milliseconds.
    List<Turn> turns =
        LoadRun.run(client, load, 1, _ -> LockSupport.parkNanos(Duration.ofMillis(150).toNanos()));
    turns.stream()
        .filter(turn -> turn.answer().ok())
        .filter(turn -> !isExact(turn))
        .forEach(
            turn ->
                System.out.printf(
                    "conversation %d turn %d: predicted %s, reported %d of %d: %s%n",
                    turn.conversation(),
                    turn.turn(),
                    turn.answer().header("x-kvoy-predicted-cached-tokens"),
                    turn.answer().cachedTokens(),
                    turn.answer().promptTokens(),
                    turn.answer().header("x-kvoy-why")));

    assertThat(turns).hasSize(100).extracting(Turn::answer).allMatch(ChatAnswer::ok);
    Map<Integer, List<Turn>> byConversation =
        turns.stream().collect(Collectors.groupingBy(Turn::conversation));
    byConversation.forEach(
        (conversation, own) ->
            assertThat(own)
                .extracting(turn -> turn.answer().header("x-kvoy-target"))
                .as("workers of conversation %d", conversation)
                .containsOnly(own.getFirst().answer().header("x-kvoy-target")));
    long exact = turns.stream().filter(RoutingVllmIT::isExact).count();
    System.out.printf(
        "vLLM: predicted cached tokens equal to reported ones in %d of %d turns; cached %.0f %% of"
            + " prompt tokens%n",
        exact, turns.size(), 100 * LoadRun.hitShare(turns));
    assertThat(exact).isGreaterThanOrEqualTo(95);
    assertThat(turns)
        .filteredOn(turn -> turn.turn() > 1)
        .allMatch(turn -> turn.answer().cachedTokens() > 0);
  }

  private static boolean isExact(Turn turn) {
    return turn.answer()
        .header("x-kvoy-predicted-cached-tokens")
        .equals(Long.toString(turn.answer().cachedTokens()));
  }

  @Test
  @Order(2)
  void resetCacheIsNoticedWithTheNextStep() throws Exception {
    List<ChatMessage> prompt =
        List.of(ChatMessage.system(new Workloads(2).text(300)), ChatMessage.user("Hello"));
    client.chat(prompt, 2);
    assertThat(client.chat(prompt, 2).cachedTokens()).isPositive();

    stage.resetCaches();
    await()
        .atMost(Duration.ofSeconds(5))
        .until(() -> stage.kvoy().metric("kvoy_kv_events_total", "cleared") >= 2);
    ChatAnswer cold = client.chat(prompt, 2);

    assertThat(cold.cachedTokens()).isZero();
    assertThat(cold.header("x-kvoy-predicted-cached-tokens")).isEqualTo("0");
  }

  @Test
  @Order(3)
  void killedWorkerLosesNoRequestAfterTheHealthIntervalAndComesBackCold() throws Exception {
    List<ChatMessage> prompt =
        List.of(ChatMessage.system(new Workloads(3).text(400)), ChatMessage.user("Hello"));
    String warm = client.chat(prompt, 2).header("x-kvoy-target");
    assertThat(client.chat(prompt, 2).cachedTokens()).isPositive();
    VllmStageWorker victim =
        WORKERS.stream().filter(worker -> worker.name().equals(warm)).findFirst().orElseThrow();

    victim.process().crash();
    await().atMost(Duration.ofSeconds(10)).until(() -> fleet().contains("\"health\":\"unready\""));
    for (int i = 0; i < 20; i++) {
      ChatAnswer answer = client.chat(prompt, 2);
      assertThat(answer.ok()).as("request %d: %s", i, answer.error()).isTrue();
      assertThat(answer.header("x-kvoy-target")).isNotEqualTo(warm);
    }

    victim.process().restart();
    victim.awaitHealthy(System.out::println);
    await().atMost(Duration.ofSeconds(20)).until(() -> !fleet().contains("\"health\":\"unready\""));
    // Whatever it held before is gone: no answer of it may have been predicted to be cached more
    // than it was.
    for (int i = 0; i < 10; i++) {
      ChatAnswer answer =
          client.chat(List.of(prompt.getFirst(), ChatMessage.user("Again " + i)), 2);
      assertThat(answer.ok()).as(answer.error()).isTrue();
      assertThat(Long.parseLong(answer.header("x-kvoy-predicted-cached-tokens")))
          .isLessThanOrEqualTo(answer.cachedTokens());
    }
    ChatAnswer direct;
    try (ChatClient past =
        new ChatClient(java.net.URI.create("http://" + victim.endpoint()), MODEL)) {
      direct = past.chat(prompt, 2);
    }
    assertThat(direct.ok()).as(direct.error()).isTrue();
  }

  @Test
  @Order(4)
  void tokenIdsEqualVllmsOwn() throws Exception {
    // Prompt tokens are counted by the worker after its own rendering: equal counts over many
    // shapes leave no room for another template.
    for (int words : new int[] {1, 5, 31, 32, 33, 64, 200}) {
      ChatAnswer answer =
          client.chat(List.of(ChatMessage.user(new Workloads(words).text(words))), 1);
      String decision =
          stage.kvoy().admin("/debug/decisions/" + answer.header("x-kvoy-decision-id")).body();
      assertThat(decision)
          .contains("\"mode\":\"exact\"")
          .contains("\"prompt_tokens\":" + answer.promptTokens());
    }
  }

  private static String fleet() throws IOException, InterruptedException {
    return stage.kvoy().admin("/debug/fleet").body();
  }
}
