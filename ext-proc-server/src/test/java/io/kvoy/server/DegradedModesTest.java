// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.server.feedback.AnswerReport.Progress;
import io.kvoy.server.feedback.Dispatch;
import io.kvoy.tokenizer.Tokenization;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** What the pipeline does without one or the other of its sources, and that it says so. */
class DegradedModesTest {
  private final PipelineRig rig = new PipelineRig();

  @AfterEach
  void close() {
    rig.close();
  }

  private Dispatch route(int firstToken) {
    int[] ids = new int[1000];
    Arrays.fill(ids, firstToken);
    rig.tokenizer = _ -> new Tokenization.Exact(List.of(ids));
    return route();
  }

  private Dispatch route() {
    RequestHead head =
        new RequestHead(
            "POST", "/v1/chat/completions", ApiKind.CHAT_COMPLETIONS, "id", "", null, false);
    byte[] body =
        """
        {"model":"m","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"hi"}]}\
        """
            .getBytes(StandardCharsets.UTF_8);
    List<RoutingDecision> decisions = new ArrayList<>();
    rig.pipeline.understand(
        head, body, _ -> {}, understood -> decisions.add(rig.pipeline.decide(understood)));
    if (!(decisions.getFirst() instanceof RoutingDecision.Route route)) {
      throw new AssertionError(decisions.getFirst());
    }
    return route.dispatch();
  }

  private static void answer(Dispatch dispatch) {
    dispatch.responseHeaders(200, "text/event-stream", null, null, Progress.RUNNING);
    dispatch.responseBody(
        ByteBuffer.wrap(
            """
            data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}

            """
                .getBytes(StandardCharsets.UTF_8)));
    dispatch.ended();
  }

  @Test
  void withoutEventsAPromptGoesWhereItWentBefore() throws IOException {
    rig.openWithoutEvents();
    Set<String> homes = new HashSet<>();
    for (int turn = 0; turn < 3; turn++) {
      for (int conversation = 1; conversation <= 4; conversation++) {
        Dispatch dispatch = route(conversation);
        answer(dispatch);
        homes.add(conversation + "@" + dispatch.destination());
        if (turn > 0) {
          assertThat(rig.decision().degraded()).contains("no-cache-events");
          assertThat(rig.decision().candidates())
              .filteredOn(candidate -> candidate.worker().equals(rig.decision().target()))
              .singleElement()
              .satisfies(taken -> assertThat(taken.cachedTokens()).isBetween(900, 999));
        }
      }
    }

    assertThat(homes).as("each conversation at one worker").hasSize(4);
    assertThat(new HashSet<>(homes.stream().map(home -> home.substring(2)).toList()))
        .as("both workers are used")
        .hasSize(2);
    ByteArrayOutputStream page = new ByteArrayOutputStream();
    rig.metrics.writePage(page);
    assertThat(page.toString(StandardCharsets.UTF_8))
        .containsPattern("kvoy_decisions_degraded_total\\{[^}]*no.cache.events[^}]*} \\d");
  }

  @Test
  void withoutTokensTheLoadDecidesAndTheRecordSaysSo() {
    rig.tokenizer = _ -> new Tokenization.Unavailable("no tokenizer");
    Set<String> used = new HashSet<>();
    for (int i = 0; i < 4; i++) {
      used.add(route().destination().toString());
    }

    assertThat(used).hasSize(2);
    assertThat(rig.decision().degraded()).contains("no-cache-knowledge");
    assertThat(rig.decision().mode()).isIn("load_only", "estimated");
  }
}
