// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.server.metrics.RequestOutcome;
import io.kvoy.tokenizer.Tokenization;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Requests that would wait longer than the pool's target of two seconds. */
class TtftLimitTest {
  private static RoutingDecision ask(PipelineRig rig, ApiKind api, String path, int tokens) {
    return ask(rig, api, path, tokens, Wishes.NONE);
  }

  private static RoutingDecision ask(
      PipelineRig rig, ApiKind api, String path, int tokens, Wishes wishes) {
    rig.tokenizer = _ -> new Tokenization.Exact(List.of(new int[tokens]));
    RequestHead head = new RequestHead("POST", path, api, "id", "", null, wishes, false);
    byte[] body =
        """
        {"model":"m","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"hi"}]}\
        """
            .getBytes(StandardCharsets.UTF_8);
    List<RoutingDecision> decisions = new ArrayList<>();
    rig.pipeline.understand(
        head, body, _ -> {}, understood -> decisions.add(rig.pipeline.decide(understood)));
    return decisions.getFirst();
  }

  @Test
  void aRequestThatNobodyCanServeInTimeIs429WithTheTimeToComeBackInTheCallersDialect() {
    try (PipelineRig rig = new PipelineRig(TestPools.refusing("pool", List.of("m")))) {
      rig.teach(1000);

      assertThat(ask(rig, ApiKind.CHAT_COMPLETIONS, "/v1/chat/completions", 1000))
          .isInstanceOf(RoutingDecision.Route.class);
      assertThat(ask(rig, ApiKind.CHAT_COMPLETIONS, "/v1/chat/completions", 6000))
          .isInstanceOfSatisfying(
              RoutingDecision.Reject.class,
              reject -> {
                assertThat(reject.status()).isEqualTo(429);
                assertThat(reject.outcome()).isEqualTo(RequestOutcome.SATURATED);
                // One second is owed at one of them; 6 s predicted, 2 s allowed.
                assertThat(reject.retryAfterSeconds()).isBetween(4, 9);
                assertThat(text(reject)).contains("\"error\"").doesNotContain("overloaded_error");
              });
      assertThat(ask(rig, ApiKind.MESSAGES, "/v1/messages", 6000))
          .isInstanceOfSatisfying(
              RoutingDecision.Reject.class,
              reject -> assertThat(text(reject)).contains("\"type\":\"error\""));
      assertThat(rig.inFlight()).as("nothing is booked for a refusal").isEqualTo(1);
    }
  }

  @Test
  void callersOwnTargetTakesThePlaceOfThePools() {
    try (PipelineRig rig = new PipelineRig(TestPools.refusing("pool", List.of("m")))) {
      rig.teach(1000);
      ApiKind chat = ApiKind.CHAT_COMPLETIONS;
      String path = "/v1/chat/completions";

      assertThat(ask(rig, chat, path, 6000, new Wishes(60_000, List.of(), "")))
          .as("6 s predicted, 60 s wished, 2 s by the pool")
          .isInstanceOf(RoutingDecision.Route.class);
      assertThat(ask(rig, chat, path, 1000, new Wishes(100, List.of(), "")))
          .as("1 s predicted, 0.1 s wished")
          .isInstanceOf(RoutingDecision.Reject.class);
    }
  }

  @Test
  void targetInAHeaderIsBounded() {
    assertThat(Wishes.millis(" 250 ")).isEqualTo(250);
    assertThat(Wishes.millis("600000")).isEqualTo(600_000);
    for (String wrong : List.of("", "0", "-5", "1e3", "600001", "9999999999999", "٣", "12 34")) {
      assertThat(Wishes.millis(wrong)).as(wrong).isZero();
    }
  }

  @Test
  void withoutTheSettingNobodyIsRefused() {
    try (PipelineRig rig = new PipelineRig()) {
      rig.teach(1000);

      assertThat(ask(rig, ApiKind.CHAT_COMPLETIONS, "/v1/chat/completions", 60_000))
          .isInstanceOf(RoutingDecision.Route.class);
    }
  }

  @Test
  void beforeAnythingHasBeenLearnedNobodyIsRefused() {
    try (PipelineRig rig = new PipelineRig(TestPools.refusing("pool", List.of("m")))) {
      assertThat(ask(rig, ApiKind.CHAT_COMPLETIONS, "/v1/chat/completions", 600_000))
          .isInstanceOf(RoutingDecision.Route.class);
    }
  }

  private static String text(RoutingDecision.Reject reject) {
    return new String(reject.body(), StandardCharsets.UTF_8);
  }
}
