// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.envoyproxy.envoy.service.ext_proc.v3.ImmediateResponse;
import io.kvoy.inference.ApiKind;
import io.kvoy.server.RoutingDecision.Reject;
import io.kvoy.server.metrics.RequestOutcome;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every refusal as the client gets it. */
final class EnvoyMessagesTest {
  static Stream<RequestOutcome> refusals() {
    return Arrays.stream(RequestOutcome.values()).filter(RequestOutcome::isRefusal);
  }

  @ParameterizedTest
  @MethodSource("refusals")
  void everyRefusalHasStatusHeadersAndTheCallersDialect(RequestOutcome outcome) {
    ImmediateResponse openAi = answer(Reject.of(ApiKind.CHAT_COMPLETIONS, outcome, "why"));
    ImmediateResponse anthropic = answer(Reject.of(ApiKind.MESSAGES, outcome, "why"));

    assertThat(openAi.getStatus().getCodeValue()).isEqualTo(outcome.status());
    assertThat(openAi.getDetails()).isEqualTo("kvoy_" + outcome.name().toLowerCase(Locale.ROOT));
    assertThat(openAi.getBody().toStringUtf8())
        .startsWith("{\"error\":{\"message\":\"why\",")
        .endsWith("\"code\":" + outcome.status() + "}}");
    assertThat(anthropic.getBody().toStringUtf8())
        .startsWith("{\"type\":\"error\",\"error\":{\"type\":\"")
        .endsWith("\"message\":\"why\"}}");
    Map<String, String> headers = headers(openAi);
    assertThat(headers).containsEntry("content-type", "application/json");
    assertThat(headers.get("retry-after"))
        .isEqualTo(
            outcome.retryAfterSeconds() == 0
                ? null
                : Integer.toString(outcome.retryAfterSeconds()));
    assertThat(headers.get("x-llm-d-request-dropped-reason")).isEqualTo(outcome.dropReason());
    assertThat(headers(anthropic)).isEqualTo(headers);
  }

  @Test
  void waitIsRoundedUpAndNeverShorterThanTheTables() {
    Reject busy = Reject.of(ApiKind.CHAT_COMPLETIONS, RequestOutcome.SATURATED);

    assertThat(headers(answer(busy.retryAfter(Duration.ofMillis(2_001)))))
        .containsEntry("retry-after", "3");
    assertThat(headers(answer(busy.retryAfter(Duration.ZERO)))).containsEntry("retry-after", "1");
  }

  @Test
  void whatIsNoRefusalCannotBeAnswered() {
    assertThatThrownBy(() -> Reject.of(ApiKind.CHAT_COMPLETIONS, RequestOutcome.ROUTED))
        .isInstanceOf(IllegalArgumentException.class);
  }

  private static ImmediateResponse answer(Reject reject) {
    return EnvoyMessages.immediate(reject).getImmediateResponse();
  }

  private static Map<String, String> headers(ImmediateResponse response) {
    Map<String, String> headers = new TreeMap<>();
    response
        .getHeaders()
        .getSetHeadersList()
        .forEach(
            h -> headers.put(h.getHeader().getKey(), h.getHeader().getRawValue().toStringUtf8()));
    return headers;
  }
}
