// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.e2e.load.InstantWorker.Seen;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.RequestBodyMode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Published failures of requests that lack something, on a real Envoy and with a tokenizer. */
final class PromptCasesIT {
  private static final String MESSAGE = "\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]";

  private static Rig rig;
  private static List<EnvoyBootstrap> doors;

  @BeforeAll
  static void start() throws Exception {
    rig = new Rig(2, "");
    rig.morePool = "tokenizer: " + LocalTools.find().tokenizer("qwen3");
    rig.writeConfig(rig.workers);
    rig.startKvoy();
    doors =
        List.of(
            rig.envoy(options -> options),
            rig.envoy(options -> options.requestBody(RequestBodyMode.FULL_DUPLEX_STREAMED)));
  }

  @AfterAll
  static void stop() throws Exception {
    rig.close();
  }

  @BeforeEach
  void forget() {
    rig.workers.forEach(InstantWorker::forget);
  }

  /** The smallest body of each API around some text. */
  private static Map<String, String> bodies(String text) {
    String messages = MESSAGE.formatted(text);
    Map<String, String> bodies = new LinkedHashMap<>();
    bodies.put("/v1/chat/completions", "{\"model\":\"m\"," + messages + "}");
    bodies.put("/v1/completions", "{\"model\":\"m\",\"prompt\":\"" + text + "\"}");
    bodies.put("/v1/responses", "{\"model\":\"m\",\"input\":\"" + text + "\"}");
    bodies.put("/v1/messages", "{\"model\":\"m\",\"max_tokens\":4," + messages + "}");
    bodies.put("/v1/messages/count_tokens", "{\"model\":\"m\"," + messages + "}");
    return bodies;
  }

  private static Wire.Answer post(EnvoyBootstrap door, String path, String body) throws Exception {
    try (Wire wire = Wire.open(Wire.Version.HTTP_1_1, door.listen())) {
      return wire.send(
          Wire.Request.post(
              path,
              body.getBytes(StandardCharsets.UTF_8),
              "content-type",
              "application/json",
              InstantWorker.DO,
              "echo"));
    }
  }

  private static Seen onlyRequest() {
    List<Seen> all = rig.workers.stream().flatMap(worker -> worker.seen().stream()).toList();
    assertThat(all).hasSize(1);
    return all.getFirst();
  }

  @Test
  void PARSE_03_aMissingModelIsNamedInTheCallersShapeAndOtherPathsPassUntouched() throws Exception {
    for (EnvoyBootstrap door : doors) {
      forget();
      double before = rig.metric("kvoy_requests_total", "bad_request");
      int refused = 0;
      for (Map.Entry<String, String> request : bodies("hello").entrySet()) {
        for (String model : List.of("", "\"model\":null,", "\"model\":\"\",", "\"model\":7,")) {
          String body = request.getValue().replace("\"model\":\"m\",", model);
          Wire.Answer answer = post(door, request.getKey(), body);
          refused++;
          assertThat(answer.status()).as(request.getKey() + body).isEqualTo(400);
          assertThat(answer.headers().get("content-type")).startsWith("application/json");
          assertThat(answer.text())
              .as(request.getKey())
              .startsWith(
                  request.getKey().startsWith("/v1/messages")
                      ? "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\""
                      : "{\"error\":{\"message\":")
              .contains("field model ");
          assertThat(answer.headers()).doesNotContainKey("retry-after");
        }
      }
      assertThat(rig.requestsAtWorkers()).isZero();
      assertThat(rig.metric("kvoy_requests_total", "bad_request")).isEqualTo(before + refused);
      for (String path : List.of("/v1/embeddings", "/tokenize", "/v1/score", "/any/other")) {
        for (String body : List.of("{\"input\":\"x\"}", "{}", "[1]", "{\"model\":", "no JSON")) {
          forget();
          Wire.Answer answer = post(door, path, body);
          assertThat(answer.status()).as(path + body).isEqualTo(200);
          assertThat(answer.text()).isEqualTo(body);
          assertThat(onlyRequest().sha256())
              .isEqualTo(Wire.sha256(body.getBytes(StandardCharsets.UTF_8)));
        }
      }
      assertThat(rig.metric("kvoy_requests_total", "bad_request")).isEqualTo(before + refused);
    }
  }

  @Test
  void PARSE_05_halfAnEmojiPassesByteExactByLoadAloneAndTheTokenizerGoesOn() throws Exception {
    for (EnvoyBootstrap door : doors) {
      for (String text : List.of("cut emoji \\ud83d end", "\\ude00", "\\ud83d\\ud83d\\ude00")) {
        for (Map.Entry<String, String> request : bodies(text).entrySet()) {
          forget();
          double degraded = rig.metric("kvoy_decisions_degraded_total", "lone_surrogate");
          Wire.Answer answer = post(door, request.getKey(), request.getValue());

          String name = request.getKey() + " " + text;
          assertThat(answer.status()).as(name + answer.text()).isEqualTo(200);
          assertThat(answer.text()).as(name).isEqualTo(request.getValue());
          assertThat(onlyRequest().sha256())
              .as(name)
              .isEqualTo(Wire.sha256(request.getValue().getBytes(StandardCharsets.UTF_8)));
          assertThat(rig.metric("kvoy_decisions_degraded_total", "lone_surrogate"))
              .as(name)
              .isEqualTo(degraded + 1);
          assertThat(rig.admin("/debug/decisions?limit=1"))
              .as(name)
              .contains("\"degraded\":\"lone_surrogate")
              .doesNotContain("\"mode\":\"exact\"");
        }
      }
      // The threads that met them read the next prompts, a whole emoji among them.
      for (int i = 0; i < 20; i++) {
        forget();
        post(
            door,
            "/v1/chat/completions",
            requireNonNull(bodies("\\ud83d\\ude00 " + i).get("/v1/chat/completions")));
        assertThat(rig.admin("/debug/decisions?limit=1"))
            .contains("\"mode\":\"exact\"")
            .doesNotContain("lone_surrogate");
      }
    }
    assertThat(rig.metric("kvoy_requests_total", "internal_error")).isZero();
    await()
        .atMost(Duration.ofSeconds(10))
        .until(() -> rig.metric("kvoy_worker_in_flight_requests", "") == 0);
  }
}
