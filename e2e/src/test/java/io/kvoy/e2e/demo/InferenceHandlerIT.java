// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.load.ChatAnswer;
import io.kvoy.e2e.load.ChatClient;
import io.kvoy.e2e.load.ChatMessage;
import io.kvoy.e2e.load.LoadRun;
import io.kvoy.e2e.load.LoadRun.Turn;
import io.kvoy.e2e.load.Workloads;
import io.kvoy.e2e.sim.EngineOptions;
import java.io.IOException;
import java.io.InputStream;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Real requests through a gateway that is no Envoy, to three simulated workers. */
final class InferenceHandlerIT {
  private static final EngineOptions ENGINE =
      EngineOptions.DEFAULTS.withSpeed(3_000, 100, 0.02, 2).withCache(1_500, 16, 16_000);

  private static SimRig rig;
  private static HandlerGateway gateway;

  @BeforeAll
  static void start() throws IOException, InterruptedException {
    rig = SimRig.start(ENGINE);
    gateway = new HandlerGateway(rig.stage.handler());
  }

  @AfterAll
  static void stop() throws IOException {
    gateway.close();
    rig.close();
  }

  private static double inFlight() throws IOException, InterruptedException {
    return rig.stage.kvoy().metric("kvoy_worker_in_flight_requests", "");
  }

  private static double firstTokens() throws IOException, InterruptedException {
    return rig.stage.kvoy().metric("kvoy_ttft_actual_seconds_count", "");
  }

  @Test
  void conversationsStayWhereTheirPrefixIsAndCachedTokensArePredictedToTheBlock() throws Exception {
    rig.stage.resetCaches();
    double before = firstTokens();
    List<Turn> turns;
    try (ChatClient client = new ChatClient(gateway.url(), SimRig.MODEL)) {
      turns = LoadRun.run(client, new Workloads(5).multiTurn(4, 3, 300, 100, 12), 1, _ -> {});
    }

    for (Turn turn : turns) {
      ChatAnswer answer = turn.answer();
      assertThat(answer.ok()).as(answer.error()).isTrue();
      assertThat(answer.header("x-kvoy-predicted-cached-tokens"))
          .as("conversation %d turn %d", turn.conversation(), turn.turn())
          .isEqualTo(Long.toString(answer.cachedTokens()));
      if (turn.turn() > 1) {
        assertThat(answer.cachedTokens()).isPositive();
      }
    }
    await().atMost(Duration.ofSeconds(5)).until(() -> inFlight() == 0);
    assertThat(firstTokens() - before).isEqualTo(turns.size());
  }

  @Test
  void aClientThatLeavesIsAnAbort() throws Exception {
    try (HttpClient http = HttpClient.newHttpClient();
        ChatClient client = new ChatClient(gateway.url(), SimRig.MODEL)) {
      HttpResponse<InputStream> answer =
          http.send(
              HttpRequest.newBuilder(gateway.url().resolve("/v1/chat/completions"))
                  .POST(
                      HttpRequest.BodyPublishers.ofString(
                          client.body(List.of(ChatMessage.user("tell me a long story")), 400)))
                  .build(),
              HttpResponse.BodyHandlers.ofInputStream());
      assertThat(answer.body().read()).isPositive();
      await().atMost(Duration.ofSeconds(5)).until(() -> inFlight() == 1);
      answer.body().close();
    }

    await().atMost(Duration.ofSeconds(20)).until(() -> inFlight() == 0);
    assertThat(rig.stage.kvoy().metric("kvoy_responses_total", "abort")).isPositive();
  }

  @Test
  void modelsAreAskedWithoutAPrompt() throws Exception {
    try (HttpClient http = HttpClient.newHttpClient()) {
      HttpResponse<String> models =
          http.send(
              HttpRequest.newBuilder(gateway.url().resolve("/v1/models")).build(),
              HttpResponse.BodyHandlers.ofString());

      assertThat(models.statusCode()).isEqualTo(200);
      assertThat(models.body()).contains(SimRig.MODEL);
    }
    await().atMost(Duration.ofSeconds(5)).until(() -> inFlight() == 0);
  }

  @Test
  void aBrokenBodyIsRefusedInTheCallersDialect() throws Exception {
    try (HttpClient http = HttpClient.newHttpClient()) {
      HttpResponse<String> refused =
          http.send(
              HttpRequest.newBuilder(gateway.url().resolve("/v1/messages"))
                  .POST(HttpRequest.BodyPublishers.ofString("{\"model\":"))
                  .build(),
              HttpResponse.BodyHandlers.ofString());

      assertThat(refused.statusCode()).isEqualTo(400);
      assertThat(refused.body()).startsWith("{\"type\":\"error\"");
    }
  }
}
