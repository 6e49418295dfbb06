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
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Token ids that come from real vLLM workers, and ids that are compared with theirs. One worker has
 * render endpoints, one has {@code /tokenize} alone. Their start takes minutes, so all tests share
 * them.
 */
final class TokenSourcesVllmIT {
  private static final String MODEL = "tiny-qwen3";
  private static final List<VllmStageWorker> WORKERS = new ArrayList<>();

  private static Stage stage;
  private static ChatClient client;
  private static String original;
  private static int prompts;

  @BeforeAll
  static void start() throws IOException, InterruptedException {
    LocalTools tools = LocalTools.find();
    WORKERS.clear();
    WORKERS.addAll(
        VllmStageWorker.start(
            tools,
            List.of(
                options(tools, "vllm-plain", List.of()),
                options(tools, "vllm-render", List.of("--enable-scale-out"))),
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
    original = Files.readString(stage.configFile());
  }

  private static VllmOptions options(LocalTools tools, String name, List<String> arguments) {
    return VllmOptions.tinyQwen3(tools, name)
        .withMore(arguments, Map.of("VLLM_ENABLE_RESPONSES_API_STORE", "1"));
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

  @BeforeEach
  void plainConfiguration() throws Exception {
    if (!Files.readString(stage.configFile()).equals(original)) {
      configure(original);
    }
  }

  /** Writes the configuration and waits until it is in force. */
  private static void configure(String yaml) throws Exception {
    double before = stage.kvoy().metric("kvoy_config_reloads_total", "ok");
    Path fresh = stage.folder().resolve("kvoy.yaml.new");
    Files.writeString(fresh, yaml);
    Files.move(fresh, stage.configFile(), StandardCopyOption.ATOMIC_MOVE);
    await()
        .atMost(Duration.ofSeconds(20))
        .until(() -> stage.kvoy().metric("kvoy_config_reloads_total", "ok") > before);
  }

  private static ChatAnswer chat() throws Exception {
    ChatAnswer answer =
        client.chat(List.of(ChatMessage.user("A secret question, number " + prompts++)), 2);
    assertThat(answer.ok()).as(answer.error()).isTrue();
    return answer;
  }

  private static String decision(ChatAnswer answer) throws Exception {
    return stage.kvoy().admin("/debug/decisions/" + answer.header("x-kvoy-decision-id")).body();
  }

  private static boolean isExact(ChatAnswer answer) throws Exception {
    String decision = decision(answer);
    return decision.contains("\"mode\":\"exact\"")
        && decision.contains("\"prompt_tokens\":" + answer.promptTokens());
  }

  @Test
  void aPoolWithoutATokenizerGetsItsIdsFromItsWorkers() throws Exception {
    configure(original.replaceAll("tokenizer: .*", "tokenizerWorker: {timeout: 4s}"));

    // Both workers take their turns: one renders, one tokenizes.
    for (int i = 0; i < 6; i++) {
      ChatAnswer answer = chat();
      assertThat(isExact(answer)).as(decision(answer)).isTrue();
    }
    List<ChatMessage> turn = List.of(ChatMessage.user("The same prompt twice. ".repeat(30)));
    client.chat(turn, 1);
    // Events follow an answer within milliseconds.
    LockSupport.parkNanos(Duration.ofMillis(500).toNanos());
    ChatAnswer second = client.chat(turn, 1);
    assertThat(second.cachedTokens()).isPositive();
    assertThat(second.header("x-kvoy-predicted-cached-tokens"))
        .isEqualTo(Long.toString(second.cachedTokens()));
  }

  @Test
  void workersThatAreTooSlowToTellCostNothingButThePrediction() throws Exception {
    configure(original.replaceAll("tokenizer: .*", "tokenizerWorker: {timeout: 1ms}"));

    ChatAnswer answer = chat();

    assertThat(decision(answer)).contains("\"degraded\":\"worker_timeout");
    assertThat(stage.kvoy().metric("kvoy_decisions_degraded_total", "worker_timeout")).isPositive();
  }

  @Test
  void equalIdsAreFoundEqualOnBothWorkers() throws Exception {
    configure(withParity(original));
    double before = stage.kvoy().metric("kvoy_parity_checks_total", "result=\"match\"");
    // The first ones may come before the tokenizer of the new configuration is loaded.
    await()
        .atMost(Duration.ofSeconds(90))
        .pollInterval(Duration.ofMillis(50))
        .untilAsserted(
            () -> {
              chat();
              assertThat(stage.kvoy().metric("kvoy_parity_checks_total", "result=\"match\""))
                  .as(parityMetrics())
                  .isGreaterThanOrEqualTo(before + 8);
            });
    assertThat(stage.kvoy().metric("kvoy_parity_checks_total", "mismatch")).isZero();
  }

  @Test
  void TOK_05_anotherTemplateThanTheWorkersIsFoundOutAndHealedByTheRightOne() throws Exception {
    Path template = stage.folder().resolve("other.jinja");
    Files.writeString(
        template, "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:");
    configure(
        withParity(original).replaceAll("(tokenizer: .*)", "$1\n  chatTemplate: " + template));

    // Believed at first, then found out.
    chat();
    await()
        .atMost(Duration.ofSeconds(60))
        .pollInterval(Duration.ofMillis(300))
        .until(() -> decision(chat()).contains("tokenizer_mismatch"));
    assertThat(stage.kvoy().metric("kvoy_parity_state", "mismatching")).isEqualTo(1);
    await()
        .atMost(Duration.ofSeconds(5))
        .until(() -> stage.kvoy().metric("kvoy_tokenizer_state", "mismatch") == 1);
    assertThat(stage.kvoy().admin("/debug/fleet").body())
        .contains("\"state\":\"mismatching\"")
        .contains(template.toString());
    assertThat(stage.kvoy().admin("/readyz").statusCode()).isEqualTo(200);
    String log = stage.kvoy().logTail(1000);
    assertThat(log)
        .contains("token_ids_differ")
        .contains("parity_lost")
        .doesNotContain("secret question");

    configure(withParity(original));

    await()
        .atMost(Duration.ofSeconds(60))
        .pollInterval(Duration.ofMillis(300))
        .until(() -> isExact(chat()));
    assertThat(stage.kvoy().metric("kvoy_parity_state", "\"matching\"")).isEqualTo(1);
    assertThat(stage.kvoy().logTail(1000)).contains("parity_regained");
  }

  @Test
  void STREAM_07_usageIsCountedAndTheClientsStreamIsThatOfTheWorker() throws Exception {
    configure(original.replace("  healthInterval:", "  injectUsage: true\n  healthInterval:"));
    String chat =
        "{\"model\":\"tiny-qwen3\",\"messages\":[{\"role\":\"user\",\"content\":\"Count!\"}],"
            + "\"stream\":true,\"max_tokens\":12,\"temperature\":0,\"ignore_eos\":true}";
    String text =
        "{\"model\":\"tiny-qwen3\",\"prompt\":\"Once\",\"stream\":true,\"max_tokens\":12,"
            + "\"temperature\":0,\"ignore_eos\":true}";
    Map<String, String> bodies = Map.of("/v1/chat/completions", chat, "/v1/completions", text);
    double before = stage.kvoy().metric("kvoy_usage_injected_total", "hidden");
    int streams = 0;
    for (Map.Entry<String, String> request : bodies.entrySet()) {
      HttpResponse<String> through;
      HttpResponse<String> direct;
      do {
        streams++;
        through = post(stage.url(), request.getKey(), request.getValue());
        VllmStageWorker worker = worker(target(through));
        direct =
            post(URI.create("http://" + worker.endpoint()), request.getKey(), request.getValue());
        // vLLM puts tokens into one event when it is behind with sending them.
      } while (events(through) != events(direct) && streams < 40);

      assertThat(through.body()).doesNotContain("\"usage\":{").contains("[DONE]");
      assertThat(sha256(normalised(through.body())))
          .as("through Kvoy:%n%s%ndirect:%n%s", through.body(), direct.body())
          .isEqualTo(sha256(normalised(direct.body())));
      String id = through.headers().firstValue("x-kvoy-decision-id").orElseThrow();
      await()
          .atMost(Duration.ofSeconds(5))
          .until(
              () ->
                  stage
                      .kvoy()
                      .admin("/debug/decisions/" + id)
                      .body()
                      .contains("\"completion_tokens\":12"));
    }
    assertThat(stage.kvoy().metric("kvoy_usage_injected_total", "hidden"))
        .isEqualTo(before + streams);

    // Who asks for usage gets it, untouched.
    String asking =
        chat.replace(
            "\"stream\":true", "\"stream\":true,\"stream_options\":" + "{\"include_usage\":true}");
    assertThat(post(stage.url(), "/v1/chat/completions", asking).body()).contains("\"usage\":{");
  }

  private static int events(HttpResponse<String> stream) {
    return stream.body().split("data:", -1).length;
  }

  @Test
  void API_06_aRequestThatContinuesAnAnswerGoesToItsWorker() throws Exception {
    for (int i = 0; i < 6; i++) {
      String stream = Boolean.toString(i % 2 == 0);
      HttpResponse<String> first =
          post(
              stage.url(),
              "/v1/responses",
              "{\"model\":\"tiny-qwen3\",\"input\":\"Remember %d\",\"max_output_tokens\":4,\"stream\":%s}"
                  .formatted(i, stream));
      Matcher id = Pattern.compile("\"id\":\"(resp_[^\"]+)\"").matcher(first.body());
      assertThat(id.find()).as(first.body()).isTrue();
      HttpResponse<String> second =
          post(
              stage.url(),
              "/v1/responses",
              ("{\"model\":\"tiny-qwen3\",\"input\":\"And?\",\"max_output_tokens\":4,"
                      + "\"previous_response_id\":\"%s\"}")
                  .formatted(id.group(1)));

      assertThat(target(second)).isEqualTo(target(first));
      assertThat(second.statusCode()).as(second.body()).isEqualTo(200);
    }
    assertThat(stage.kvoy().metric("kvoy_response_homes_total", "found")).isEqualTo(6);

    HttpResponse<String> invented =
        post(
            stage.url(),
            "/v1/responses",
            "{\"model\":\"tiny-qwen3\",\"input\":\"x\",\"previous_response_id\":\"resp_invented\"}");
    assertThat(invented.statusCode()).as("the worker's own answer").isEqualTo(404);
    assertThat(stage.kvoy().metric("kvoy_response_homes_total", "unknown")).isEqualTo(1);
  }

  private static String parityMetrics() throws Exception {
    return stage
        .kvoy()
        .admin("/metrics")
        .body()
        .lines()
        .filter(line -> line.startsWith("kvoy_parity"))
        .collect(Collectors.joining("\n"));
  }

  private static VllmStageWorker worker(String name) {
    return WORKERS.stream().filter(each -> each.name().equals(name)).findFirst().orElseThrow();
  }

  private static String target(HttpResponse<String> response) {
    return response.headers().firstValue("x-kvoy-target").orElseThrow();
  }

  private static HttpResponse<String> post(URI base, String path, String body) throws Exception {
    try (HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()) {
      return http.send(
          HttpRequest.newBuilder(base.resolve(path))
              .timeout(Duration.ofSeconds(60))
              .header("content-type", "application/json")
              .POST(HttpRequest.BodyPublishers.ofString(body))
              .build(),
          HttpResponse.BodyHandlers.ofString());
    }
  }

  /**
   * Without what differs between two runs of the same request: ids, times, and how many tokens of
   * text vLLM puts into one chunk when its API server is behind its engine. The text itself comes
   * last.
   */
  private static String normalised(String stream) {
    Pattern piece = Pattern.compile("\"(text|content)\":\"((?:[^\"\\\\]|\\\\.)*)\"");
    StringBuilder text = new StringBuilder();
    piece.matcher(stream).results().forEach(found -> text.append(found.group(2)));
    String last = "";
    StringBuilder events = new StringBuilder();
    String bare =
        piece
            .matcher(stream)
            .replaceAll("\"$1\":\"\"")
            .replaceAll("\"id\":\"[^\"]*\"", "\"id\":\"\"")
            .replaceAll("\"created\":[0-9]+", "\"created\":0");
    for (String event : bare.splitWithDelimiters("\n\n", 0)) {
      if (event.equals("\n\n") || !event.equals(last)) {
        events.append(event);
      }
      last = event.equals("\n\n") ? last : event;
    }
    return events.toString().replaceAll("\n\n(\n\n)+", "\n\n") + text;
  }

  private static String sha256(String text) throws Exception {
    return HexFormat.of()
        .formatHex(
            MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)));
  }

  private static String withParity(String yaml) {
    return yaml.replace(
        "  feedback:", "  parity: {samplesPerMinute: 6000, timeout: 10s}\n  feedback:");
  }
}
