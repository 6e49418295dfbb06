// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.feedback.AnswerReport.Progress;
import io.kvoy.server.feedback.Dispatch;
import io.kvoy.server.feedback.Sessions;
import io.kvoy.tokenizer.Tokenization;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class SessionsAndFallbacksTest {
  /** Routes a prompt shorter than a cache block, and ends it. */
  private static Dispatch route(PipelineRig rig, String session) {
    rig.tokenizer = _ -> new Tokenization.Exact(List.of(new int[10]));
    RequestHead head =
        new RequestHead(
            "POST",
            "/v1/chat/completions",
            ApiKind.CHAT_COMPLETIONS,
            "id",
            "",
            null,
            new Wishes(0, List.of(), session),
            false);
    byte[] body =
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
            .getBytes(StandardCharsets.UTF_8);
    List<RoutingDecision> decisions = new ArrayList<>();
    rig.pipeline.understand(
        head, body, _ -> {}, understood -> decisions.add(rig.pipeline.decide(understood)));
    Dispatch dispatch = ((RoutingDecision.Route) decisions.getFirst()).dispatch();
    dispatch.responseHeaders(200, "application/json", null, null, Progress.RUNNING);
    dispatch.ended();
    return dispatch;
  }

  @Test
  void betweenEqualWorkersASessionStays() {
    try (PipelineRig rig = new PipelineRig()) {
      Set<Endpoint> withSession = new HashSet<>();
      Set<Endpoint> without = new HashSet<>();
      for (int i = 0; i < 30; i++) {
        withSession.add(route(rig, "mine").destination());
        // Twice: the one picked longest ago is taken, and the session's was picked just now.
        without.add(route(rig, "").destination());
        without.add(route(rig, "").destination());
      }
      assertThat(withSession).hasSize(1);
      assertThat(without).hasSize(2);
    }
  }

  @Test
  void aListOfDestinationsIsNamedWhereThePoolAsksForIt() {
    try (PipelineRig one = new PipelineRig();
        PipelineRig two = new PipelineRig(TestPools.withFallback("pool", List.of("m")))) {
      assertThat(route(one, "").destinations()).isIn(one.addresses());

      Dispatch dispatch = route(two, "");
      assertThat(dispatch.destinations().split(","))
          .containsExactlyInAnyOrderElementsOf(two.addresses())
          .startsWith(dispatch.destination().toString());
      assertThat(dispatch.fallbacks()).hasSize(1);
    }
  }

  @Test
  void sessionsAreBoundedAndTheirNamesToo() {
    Sessions sessions = new Sessions(2);
    try (PipelineRig rig = new PipelineRig()) {
      var worker = rig.workers().getFirst();
      for (int i = 0; i < 100; i++) {
        sessions.picked("session " + i, worker);
      }
      long known = 0;
      for (int i = 0; i < 100; i++) {
        known += sessions.last("session " + i) == null ? 0 : 1;
      }
      assertThat(known).isBetween(1L, 2L);
      sessions.picked("", worker);
      assertThat(sessions.last("")).isNull();
      assertThat(new Wishes(0, List.of(), "x".repeat(129)).session()).isEmpty();
    }
  }
}
