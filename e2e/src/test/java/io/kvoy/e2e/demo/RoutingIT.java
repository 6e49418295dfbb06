// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.load.ChatAnswer;
import io.kvoy.e2e.load.ChatClient;
import io.kvoy.e2e.load.ChatMessage;
import io.kvoy.e2e.load.Conversation;
import io.kvoy.e2e.load.LoadRun;
import io.kvoy.e2e.load.LoadRun.Turn;
import io.kvoy.e2e.load.Workloads;
import io.kvoy.e2e.sim.EngineOptions;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The main job on a real Envoy, with three simulated workers. */
final class RoutingIT {
  /** Prefill slow enough that its time, not this machine's, decides every comparison. */
  private static final EngineOptions ENGINE =
      EngineOptions.DEFAULTS.withSpeed(3_000, 100, 0.02, 2).withCache(1_500, 16, 16_000);

  private static SimRig rig;
  private static HttpClient http;

  private ChatClient viaKvoy;

  @BeforeAll
  static void start() throws IOException, InterruptedException {
    rig = SimRig.start(ENGINE);
    http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    // A fresh JVM interprets its code: what it costs then is not what is compared here.
    try (ChatClient client = new ChatClient(rig.stage.url(), SimRig.MODEL)) {
      LoadRun.run(client, new Workloads(0).unique(60, 50, 400, 1), 6, _ -> {});
    }
  }

  @AfterAll
  static void stop() throws IOException {
    http.close();
    rig.close();
  }

  @BeforeEach
  void coldCaches() throws IOException, InterruptedException {
    rig.stage.resetCaches();
    viaKvoy = new ChatClient(rig.stage.url(), SimRig.MODEL);
  }

  @AfterEach
  void closeClient() {
    viaKvoy.close();
  }

  @Test
  void sharedPrefixesGetTheirFirstTokenInAThirdOfRoundRobinsTime() throws Exception {
    // Three users to a prefix: by round robin two thirds of the requests are the first of their
    // prefix on their worker, by Kvoy one third. At half and half a median would tell nothing.
    List<Conversation> load = new Workloads(1).sharedPrefix(16, 3, 2_000, 30, 4);
    List<Turn> plain;
    try (ChatClient viaRoundRobin = new ChatClient(rig.stage.plainUrl(), SimRig.MODEL)) {
      plain = LoadRun.run(viaRoundRobin, load, 3, _ -> {});
    }
    rig.stage.resetCaches();
    List<Turn> routed = LoadRun.run(viaKvoy, load, 3, _ -> {});

    assertThat(routed).allMatch(turn -> turn.answer().ok());
    double ratio = LoadRun.ttftQuantile(routed, 0.5) / LoadRun.ttftQuantile(plain, 0.5);
    report("shared prefixes", plain, routed);
    assertThat(ratio).isLessThanOrEqualTo(1.0 / 3);
    assertThat(LoadRun.hitShare(routed)).isGreaterThan(LoadRun.hitShare(plain));
  }

  @Test
  void uniquePromptsAreNoWorseThanByRoundRobin() throws Exception {
    Workloads workloads = new Workloads(2);
    List<Turn> plain = new ArrayList<>();
    List<Turn> routed = new ArrayList<>();
    try (ChatClient viaRoundRobin = new ChatClient(rig.stage.plainUrl(), SimRig.MODEL)) {
      // The same prompts by both, and in turns, so that whatever else this machine does hits both.
      for (int round = 0; round < 4; round++) {
        List<Conversation> load = workloads.unique(15, 200, 2_000, 8);
        plain.addAll(LoadRun.run(viaRoundRobin, load, 3, _ -> {}));
        rig.stage.resetCaches();
        routed.addAll(LoadRun.run(viaKvoy, load, 3, _ -> {}));
      }
    }

    assertThat(routed).allMatch(turn -> turn.answer().ok());
    report("unique prompts", plain, routed);
    assertThat(LoadRun.ttftQuantile(routed, 0.5) / LoadRun.ttftQuantile(plain, 0.5))
        .isLessThanOrEqualTo(1.05);
  }

  @Test
  void laterTurnsGoWhereTheirPrefixIsAndCachedTokensArePredictedToTheBlock() throws Exception {
    List<Turn> turns =
        LoadRun.run(viaKvoy, new Workloads(3).multiTurn(6, 4, 300, 100, 12), 1, _ -> {});

    assertThat(turns).allMatch(turn -> turn.answer().ok());
    for (Turn turn : turns) {
      assertThat(turn.answer().header("x-kvoy-predicted-cached-tokens"))
          .as("conversation %d turn %d", turn.conversation(), turn.turn())
          .isEqualTo(Long.toString(turn.answer().cachedTokens()));
      assertThat(turn.answer().header("x-kvoy-target"))
          .as(
              "conversation %d turn %d: %s",
              turn.conversation(), turn.turn(), turn.answer().header("x-kvoy-why"))
          .isEqualTo(target(turns, turn.conversation()));
      if (turn.turn() > 1) {
        assertThat(turn.answer().cachedTokens()).isPositive();
      }
    }
  }

  private static String target(List<Turn> turns, int conversation) {
    return turns.stream()
        .filter(turn -> turn.conversation() == conversation && turn.turn() == 1)
        .findFirst()
        .orElseThrow()
        .answer()
        .header("x-kvoy-target");
  }

  @Test
  void HDR_01_clientCannotChooseItsWorker() throws Exception {
    List<ChatMessage> prompt =
        List.of(ChatMessage.system(new Workloads(4).text(600)), ChatMessage.user("Hello"));
    ChatAnswer first = viaKvoy.chat(prompt, 4);
    String warm = first.header("x-kvoy-target");
    String other =
        rig.workers.stream()
            .filter(worker -> !worker.name().equals(warm))
            .findFirst()
            .orElseThrow()
            .endpoint()
            .toString();

    for (String header :
        List.of("x-gateway-destination-endpoint", "X-Gateway-Destination-Endpoint")) {
      for (String address : List.of(other, "192.0.2.66:8000", "", "not an address")) {
        ChatAnswer spoofed =
            viaKvoy.chat(prompt, 4, address.isEmpty() ? Map.of() : Map.of(header, address));
        assertThat(spoofed.status()).isEqualTo(200);
        assertThat(spoofed.header("x-kvoy-target")).isEqualTo(warm);
        assertThat(spoofed.cachedTokens()).isPositive();
      }
    }
  }

  @Test
  void HDR_04_otherPathsPassUntouched() throws Exception {
    HttpResponse<String> models = get("/v1/models");
    assertThat(models.statusCode()).isEqualTo(200);
    assertThat(models.body()).contains(SimRig.MODEL);
    assertThat(get("/no/such/path").statusCode()).isEqualTo(404);
    HttpResponse<String> tokenized =
        post(
            "/tokenize", "{\"model\":\"%s\",\"prompt\":\"one two three\"}".formatted(SimRig.MODEL));
    assertThat(tokenized.statusCode()).isEqualTo(200);
    assertThat(tokenized.body()).contains("\"count\"");
  }

  @Test
  void PARSE_01_unreadableBodiesAreRefusedInTheCallersShape() throws Exception {
    HttpResponse<String> openAi = post("/v1/chat/completions", "{\"model\":\"x\",\"messages\":[{");
    assertThat(openAi.statusCode()).isEqualTo(400);
    assertThat(openAi.body()).startsWith("{\"error\":{\"message\":");
    HttpResponse<String> anthropic = post("/v1/messages", "{\"model\":");
    assertThat(anthropic.statusCode()).isEqualTo(400);
    assertThat(anthropic.body()).startsWith("{\"type\":\"error\",\"error\":{\"type\":");
  }

  @Test
  void BODY_02_bodiesUpToTheLimitPassAndLargerOnesAreRefused() throws Exception {
    String padding = "x".repeat(1 << 20);
    String within =
        "{\"model\":\"%s\",\"prompt\":\"hi\",\"max_tokens\":1,\"user\":\"%s\"}"
            .formatted(SimRig.MODEL, padding.repeat(3));
    assertThat(post("/v1/completions", within).statusCode()).isEqualTo(200);
    String beyond =
        "{\"model\":\"%s\",\"prompt\":\"hi\",\"max_tokens\":1,\"user\":\"%s\"}"
            .formatted(SimRig.MODEL, padding.repeat(4));
    HttpResponse<String> refused = post("/v1/completions", beyond);
    assertThat(refused.statusCode()).isEqualTo(413);
    assertThat(refused.body()).contains("larger than the limit");
  }

  @Test
  void BODY_04_compressedBodiesAreReadForTheDecisionAndPassUntouched() throws Exception {
    String body =
        "{\"model\":\"%s\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
            .formatted(SimRig.MODEL);
    ByteArrayOutputStream packed = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(packed)) {
      gzip.write(body.getBytes(StandardCharsets.UTF_8));
    }
    HttpResponse<String> answer =
        http.send(
            HttpRequest.newBuilder(at("/v1/chat/completions"))
                .header("content-type", "application/json")
                .header("content-encoding", "gzip")
                .POST(HttpRequest.BodyPublishers.ofByteArray(packed.toByteArray()))
                .build(),
            HttpResponse.BodyHandlers.ofString());

    String id = answer.headers().firstValue("x-kvoy-decision-id").orElseThrow();
    assertThat(rig.stage.kvoy().admin("/debug/decisions/" + id).body())
        .contains("\"mode\":\"exact\"")
        .contains("\"degraded\":\"\"");
    // The simulated worker, like vLLM, does not unpack: that the packed bytes reach it is the
    // point.
    assertThat(answer.statusCode()).isEqualTo(400);
  }

  @Test
  void wholeAnswersReportTheirCachedTokensToo() throws Exception {
    String body =
        "{\"model\":\"%s\",\"max_tokens\":2,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}"
            .formatted(SimRig.MODEL, new Workloads(5).text(300));
    post("/v1/chat/completions", body);
    HttpResponse<String> again = post("/v1/chat/completions", body);

    String id = again.headers().firstValue("x-kvoy-decision-id").orElseThrow();
    await()
        .atMost(Duration.ofSeconds(5))
        .untilAsserted(
            () ->
                assertThat(rig.stage.kvoy().admin("/debug/decisions/" + id).body())
                    .contains("\"end\":\"end\"")
                    .contains("\"cached_tokens\":" + cachedIn(again.body())));
  }

  private static String cachedIn(String body) {
    return body.replaceAll("(?s).*\"cached_tokens\": ?([0-9]+).*", "$1");
  }

  @Test
  void crashedWorkerIsAvoidedAndItsOldCacheIsNotBelievedWhenItComesBack() throws Exception {
    List<ChatMessage> prompt =
        List.of(ChatMessage.system(new Workloads(6).text(800)), ChatMessage.user("Hello"));
    String warm = viaKvoy.chat(prompt, 4).header("x-kvoy-target");
    assertThat(viaKvoy.chat(prompt, 4).header("x-kvoy-predicted-cached-tokens")).isNotEqualTo("0");
    SimStageWorker victim = rig.worker(warm);

    victim.sim().crash();
    await().atMost(Duration.ofSeconds(10)).until(() -> fleet().contains("\"health\":\"unready\""));
    Set<String> served = new HashSet<>();
    for (int i = 0; i < 10; i++) {
      ChatAnswer answer = viaKvoy.chat(prompt, 4);
      assertThat(answer.ok()).as(answer.error()).isTrue();
      served.add(answer.header("x-kvoy-target"));
    }
    assertThat(served).doesNotContain(warm);

    victim.sim().up();
    await().atMost(Duration.ofSeconds(20)).until(() -> !fleet().contains("\"health\":\"unready\""));
    for (int i = 0; i < 20; i++) {
      ChatAnswer answer =
          viaKvoy.chat(List.of(prompt.getFirst(), ChatMessage.user("again " + i)), 2);
      assertThat(answer.ok()).isTrue();
      if (answer.header("x-kvoy-target").equals(warm)) {
        assertThat(Long.parseLong(answer.header("x-kvoy-predicted-cached-tokens")))
            .isLessThanOrEqualTo(answer.cachedTokens());
      }
    }
  }

  @Test
  void brokenConfigurationKeepsTheLastGoodOneAndTheNextGoodOneIsTaken() throws Exception {
    String good = Files.readString(rig.stage.configFile());
    try {
      Files.writeString(rig.stage.configFile(), good.replace("healthInterval", "healthIntervall"));
      await()
          .atMost(Duration.ofSeconds(10))
          .until(() -> rig.stage.kvoy().metric("kvoy_config_rejected", "") == 1);
      assertThat(viaKvoy.chat(List.of(ChatMessage.user("still here?")), 2).ok()).isTrue();

      Files.writeString(
          rig.stage.configFile(), good.replace("responseHeaders: true", "responseHeaders: false"));
      await()
          .atMost(Duration.ofSeconds(10))
          .until(
              () ->
                  viaKvoy
                      .chat(List.of(ChatMessage.user("quiet?")), 2)
                      .header("x-kvoy-target")
                      .isEmpty());
    } finally {
      Files.writeString(rig.stage.configFile(), good);
      await()
          .atMost(Duration.ofSeconds(10))
          .until(
              () ->
                  !viaKvoy
                      .chat(List.of(ChatMessage.user("loud?")), 2)
                      .header("x-kvoy-target")
                      .isEmpty());
    }
  }

  @Test
  void metricsAndDebugPagesTellWhatHappenedAndNoLogHoldsPromptText() throws Exception {
    String secret = "zebra-quartz-" + System.nanoTime();
    ChatAnswer answer =
        viaKvoy.chat(List.of(ChatMessage.user(secret + " " + new Workloads(7).text(100))), 4);
    post("/v1/chat/completions", "{\"model\":\"x\",\"messages\":\"" + secret);
    assertThat(answer.ok()).isTrue();

    await()
        .atMost(Duration.ofSeconds(5))
        .untilAsserted(
            () -> {
              assertThat(rig.stage.kvoy().metric("kvoy_picks_total", "")).isPositive();
              assertThat(rig.stage.kvoy().metric("kvoy_decisions_total", "exact")).isPositive();
              assertThat(rig.stage.kvoy().metric("kvoy_kv_events_total", "stored")).isPositive();
              assertThat(rig.stage.kvoy().metric("kvoy_worker_in_flight_requests", ""))
                  .isCloseTo(0, within(0.0));
            });
    String decision =
        rig.stage.kvoy().admin("/debug/decisions/" + answer.header("x-kvoy-decision-id")).body();
    assertThat(decision).contains("\"candidates\":[").contains(answer.header("x-kvoy-target"));
    assertThat(decision).doesNotContain(secret);
    assertThat(rig.stage.kvoy().admin("/metrics").body()).doesNotContain(secret);
    assertThat(Files.readString(rig.stage.folder().resolve("kvoy.log"))).doesNotContain(secret);
  }

  private static String fleet() throws IOException, InterruptedException {
    return rig.stage.kvoy().admin("/debug/fleet").body();
  }

  private static HttpResponse<String> get(String path) throws IOException, InterruptedException {
    return http.send(
        HttpRequest.newBuilder(at(path)).timeout(Duration.ofSeconds(30)).build(),
        HttpResponse.BodyHandlers.ofString());
  }

  private static HttpResponse<String> post(String path, String body)
      throws IOException, InterruptedException {
    return http.send(
        HttpRequest.newBuilder(at(path))
            .timeout(Duration.ofSeconds(60))
            .header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build(),
        HttpResponse.BodyHandlers.ofString());
  }

  private static URI at(String path) {
    return rig.stage.url().resolve(path);
  }

  private static void report(String what, List<Turn> plain, List<Turn> routed) {
    System.out.printf(
        java.util.Locale.ROOT,
        "%s: median TTFT %.0f ms by round robin, %.0f ms by Kvoy (ratio %.2f); cached %.0f %% and"
            + " %.0f %%%n",
        what,
        LoadRun.ttftQuantile(plain, 0.5),
        LoadRun.ttftQuantile(routed, 0.5),
        LoadRun.ttftQuantile(routed, 0.5) / LoadRun.ttftQuantile(plain, 0.5),
        100 * LoadRun.hitShare(plain),
        100 * LoadRun.hitShare(routed));
  }
}
