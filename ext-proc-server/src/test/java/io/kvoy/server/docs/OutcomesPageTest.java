// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.docs;

import io.kvoy.envoy.KvoyDeath;
import io.kvoy.envoy.LocalReply;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.inference.ApiKind;
import io.kvoy.inference.dialect.ErrorBody;
import io.kvoy.server.metrics.RequestOutcome;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/** {@code docs/outcomes.md} is written from the tables that the code itself goes by. */
final class OutcomesPageTest {
  private static final String NOTHING = "–";

  @Test
  void pageSaysWhatTheCodeDoes() {
    StringBuilder page = new StringBuilder();
    page.append(
        """
        <!-- SPDX-License-Identifier: Apache-2.0 -->
        # What a client sees when its request is not served

        This page is written from `RequestOutcome`, `LocalReply` and `KvoyDeath` by `OutcomesPageTest`; change those, not this page.

        Every error is JSON in the shape of the API that was called: OpenAI's for `/v1/chat/completions`, `/v1/completions`,
        `/v1/responses` and everything else, Anthropic's for `/v1/messages`.

        ```json
        %s
        %s
        ```

        ## Refused by Kvoy

        `kvoy_requests_total{outcome}` counts them by the first column, without a pool where none was chosen.
        Envoy's access log has them as `response_code_details` `kvoy_` and that word. No worker is contacted and nothing stays reserved.

        | outcome | status | when | OpenAI `type` | Anthropic `type` | `retry-after` | `x-llm-d-request-dropped-reason` |
        | --- | --- | --- | --- | --- | --- | --- |
        """
            .formatted(
                example(ApiKind.CHAT_COMPLETIONS, RequestOutcome.NO_CANDIDATE),
                example(ApiKind.MESSAGES, RequestOutcome.NO_CANDIDATE)));
    for (RequestOutcome outcome : RequestOutcome.values()) {
      if (outcome.isRefusal()) {
        int status = outcome.status();
        page.append(
            "| `%s` | %d | %s | `%s` | `%s` | %s | %s |%n"
                .formatted(
                    outcome.name().toLowerCase(Locale.ROOT),
                    status,
                    outcome.cause(),
                    ErrorBody.defaultType(ApiKind.CHAT_COMPLETIONS, status),
                    ErrorBody.defaultType(ApiKind.MESSAGES, status),
                    seconds(outcome.retryAfterSeconds()),
                    outcome.dropReason() == null ? NOTHING : "`" + outcome.dropReason() + "`"));
      }
    }
    page.append("\nNot refused, and counted beside them: ");
    page.append(
        String.join(
            "; ",
            List.of(RequestOutcome.values()).stream()
                .filter(outcome -> !outcome.isRefusal())
                .map(o -> "`" + o.name().toLowerCase(Locale.ROOT) + "` (" + o.cause() + ")")
                .toList()));
    page.append(
        """
        .

        A request that Kvoy can route only by load, for want of token ids or time, is no error: it is served, with the reason in
        `kvoy_decisions_degraded_total`.

        ## Answered by Envoy

        Where `kvoyctl envoy bootstrap` wrote the configuration.

        | when | status | OpenAI `type` | Anthropic `type` | `retry-after` |
        | --- | --- | --- | --- | --- |
        """);
    for (LocalReply reply : LocalReply.values()) {
      page.append(
          "| %s | %s | `%s` | `%s` | %s |%n"
              .formatted(
                  reply.cause(),
                  reply.status() == 0 ? "408, 504" : Integer.toString(reply.status()),
                  reply.openAiType(),
                  reply.anthropicType(),
                  seconds(reply.retryAfterSeconds())));
    }
    page.append(
        """

        ## When Kvoy dies

        Envoy 1.40, checked by `KvoyDownIT` on a real Envoy by killing Kvoy with SIGKILL. Columns: a request that comes after Kvoy's
        death, one whose body was on its way, one whose answer was.

        | request bodies | answers | Envoy fails | next request | in its body | a running answer |
        | --- | --- | --- | --- | --- | --- |
        """);
    for (RequestBodyMode request :
        List.of(RequestBodyMode.BUFFERED, RequestBodyMode.FULL_DUPLEX_STREAMED)) {
      for (ResponseBodyMode answers :
          List.of(
              ResponseBodyMode.STREAMED,
              ResponseBodyMode.FULL_DUPLEX_STREAMED,
              ResponseBodyMode.COPIED,
              ResponseBodyMode.REPORTED)) {
        for (boolean failOpen : new boolean[] {true, false}) {
          page.append(
              "| `%s` | `%s` | %s |".formatted(request, answers, failOpen ? "open" : "closed"));
          for (KvoyDeath moment : KvoyDeath.values()) {
            page.append(" %s |".formatted(moment.seen(request, answers, failOpen).words()));
          }
          page.append("\n");
        }
      }
    }
    page.append(
        """

        **Fail open, so that it serves** (`kvoyctl envoy bootstrap`, the default) takes all of these; with one missing a request with a
        body gets 500 or 503 although `failure_mode_allow` is true:

        | setting | why |
        | --- | --- |
        | `failure_mode_allow: true` | Envoy goes on without Kvoy |
        | `request_body_mode: BUFFERED` | Envoy still has the whole body when Kvoy fails in the middle; a full-duplex body has left |
        | gRPC health check on the cluster `kvoy`, `healthy_panic_threshold: 0` | with no healthy Kvoy the filter fails at once, before a body is sent; Envoy's default would go on trying |
        | `override_host` with a `fallback_policy` | somebody chooses a worker |
        | control headers removed in front of ext_proc | else a client names its own worker while Kvoy is down |

        **Fail closed, so that it refuses** (`--fail-closed`): `failure_mode_allow: false`, and the local replies of the bootstrap so that
        the client gets 503 in its dialect with `retry-after` instead of Envoy's 500 in plain text.
        """);
    GeneratedPage.assertUpToDate("outcomes.md", page.toString());
  }

  private static String example(ApiKind api, RequestOutcome outcome) {
    return new String(outcome.error(api, outcome.message()), StandardCharsets.UTF_8);
  }

  private static String seconds(int seconds) {
    return seconds == 0 ? NOTHING : seconds + " s";
  }
}
