// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.inference.ApiKind;
import io.kvoy.server.config.ModelPool;
import io.kvoy.server.metrics.RequestOutcome;
import io.kvoy.tokenizer.Tokenization;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Requests that wait until a worker can take them. */
class QueueTest {
  private static final Map<String, Integer> OBJECTIVES = Map.of("interactive", 10, "batch", -1);

  /** Who got a decision, in that order. */
  private final List<String> served = Collections.synchronizedList(new ArrayList<>());

  private final List<RoutingDecision> decisions = Collections.synchronizedList(new ArrayList<>());

  private static ModelPool pool(int maxWaiting, Duration timeout, boolean trustHeaders) {
    return TestPools.queueing(
        "pool",
        List.of("m"),
        true,
        new ModelPool.Queue(maxWaiting, timeout, OBJECTIVES, trustHeaders));
  }

  private RoutingDecision ask(PipelineRig rig, String name, Wishes wishes) {
    return ask(rig, name, wishes, 100);
  }

  private RoutingDecision ask(PipelineRig rig, String name, Wishes wishes, int tokens) {
    rig.tokenizer = _ -> new Tokenization.Exact(List.of(new int[tokens]));
    RequestHead head =
        new RequestHead(
            "POST",
            "/v1/chat/completions",
            ApiKind.CHAT_COMPLETIONS,
            name,
            "",
            null,
            wishes,
            false);
    byte[] body =
        """
        {"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}\
        """
            .getBytes(StandardCharsets.UTF_8);
    List<RoutingDecision> now = new ArrayList<>();
    rig.pipeline.understand(
        head,
        body,
        _ -> {},
        understood ->
            now.add(
                rig.pipeline.decide(
                    understood,
                    later -> {
                      decisions.add(later);
                      return served.add(name);
                    })));
    return now.getFirst();
  }

  private static Wishes objective(String name, String flow) {
    return new Wishes(0, List.of(), "", name, flow);
  }

  private static String page(PipelineRig rig) {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try {
      rig.metrics.writePage(out);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return out.toString(StandardCharsets.UTF_8);
  }

  @Test
  void DISC_02_requestsWaitForTheFirstWorkerAndAreServedInOrderOfPriority() {
    try (PipelineRig rig = new PipelineRig(pool(10, Duration.ofMinutes(1), true))) {
      rig.setPresent(false);
      for (String name : List.of("a", "b", "c")) {
        assertThat(ask(rig, name, Wishes.NONE)).isInstanceOf(RoutingDecision.Wait.class);
      }
      for (String name : List.of("first", "second")) {
        assertThat(ask(rig, name, objective("interactive", "")))
            .isInstanceOf(RoutingDecision.Wait.class);
      }
      assertThat(page(rig)).contains("kvoy_queue_length{pool=\"pool\"} 5.0");

      rig.setPresentBeforeTheNextTry();

      await().untilAsserted(() -> assertThat(served).hasSize(5));
      assertThat(served).containsExactly("first", "second", "a", "b", "c");
      assertThat(decisions).allMatch(decision -> decision instanceof RoutingDecision.Route);
      assertThat(rig.inFlight()).isEqualTo(5);
      assertThat(page(rig)).contains("kvoy_queue_length{pool=\"pool\"} 0.0");
    }
  }

  @Test
  void DISC_02_afterItsTimeARequestIs503WithTheTimeToComeBack() {
    try (PipelineRig rig = new PipelineRig(pool(10, Duration.ofMillis(50), false))) {
      rig.setPresent(false);
      assertThat(ask(rig, "late", Wishes.NONE)).isInstanceOf(RoutingDecision.Wait.class);

      await().untilAsserted(() -> assertThat(served).containsExactly("late"));

      assertThat(decisions.getFirst())
          .isInstanceOfSatisfying(
              RoutingDecision.Reject.class,
              reject -> {
                assertThat(reject.status()).isEqualTo(503);
                assertThat(reject.retryAfterSeconds()).isPositive();
                assertThat(reject.outcome()).isEqualTo(RequestOutcome.QUEUE_EXPIRED);
              });
      assertThat(page(rig))
          .contains("outcome=\"queue_expired\"")
          .contains("kvoy_queue_wait_seconds_count{pool=\"pool\",result=\"expired\"} 1");
    }
  }

  @Test
  void DISC_02_whoLeavesFreesItsPlaceAndGetsNothing() throws Exception {
    try (PipelineRig rig = new PipelineRig(pool(1, Duration.ofMinutes(1), false))) {
      rig.setPresent(false);
      RoutingDecision.Wait gone = (RoutingDecision.Wait) ask(rig, "gone", Wishes.NONE);
      assertThat(ask(rig, "refused", Wishes.NONE))
          .as("the queue is full")
          .isInstanceOfSatisfying(
              RoutingDecision.Reject.class, reject -> assertThat(reject.status()).isEqualTo(429));

      gone.place().leave();
      gone.place().leave();
      assertThat(ask(rig, "next", Wishes.NONE)).isInstanceOf(RoutingDecision.Wait.class);
      rig.setPresent(true);

      await().untilAsserted(() -> assertThat(served).containsExactly("next"));
      Thread.sleep(100);
      assertThat(served).containsExactly("next");
      assertThat(rig.inFlight()).isEqualTo(1);
    }
  }

  @Test
  void flowsOfOnePriorityTakeTurns() {
    try (PipelineRig rig = new PipelineRig(pool(10, Duration.ofMinutes(1), true))) {
      rig.setPresent(false);
      for (String name : List.of("a1", "a2", "a3", "b1", "c1")) {
        assertThat(ask(rig, name, objective("", name.substring(0, 1))))
            .isInstanceOf(RoutingDecision.Wait.class);
      }

      rig.setPresentBeforeTheNextTry();

      await().untilAsserted(() -> assertThat(served).hasSize(5));
      assertThat(served).containsExactly("a1", "b1", "c1", "a2", "a3");
    }
  }

  @Test
  void clientsDoNotChooseTheirPriority() {
    try (PipelineRig rig = new PipelineRig(pool(10, Duration.ofMinutes(1), false))) {
      rig.setPresent(false);
      ask(rig, "a", Wishes.NONE);
      ask(rig, "b", objective("interactive", "x"));
      assertThat(ask(rig, "c", objective("batch", "y"))).isInstanceOf(RoutingDecision.Wait.class);

      rig.setPresentBeforeTheNextTry();

      await().untilAsserted(() -> assertThat(served).containsExactly("a", "b", "c"));
    }
  }

  @Test
  void negativePriorityNeverWaitsAndNobodyOvertakes() {
    try (PipelineRig rig = new PipelineRig(pool(10, Duration.ofMinutes(1), true))) {
      rig.setPresent(false);
      assertThat(ask(rig, "shed", objective("batch", "")))
          .isInstanceOfSatisfying(
              RoutingDecision.Reject.class, reject -> assertThat(reject.status()).isEqualTo(503));
      ask(rig, "early", objective("interactive", ""));

      rig.setPresent(true);
      // Somebody waits at this moment, or has just been served.
      RoutingDecision late = ask(rig, "late", Wishes.NONE);

      await()
          .untilAsserted(
              () ->
                  assertThat(served.size())
                      .isEqualTo(late instanceof RoutingDecision.Wait ? 2 : 1));
      assertThat(served.getFirst()).isEqualTo("early");
    }
  }

  @Test
  void saturatedPoolLetsRequestsWaitUntilTheyWouldBeInTime() {
    try (PipelineRig rig = new PipelineRig(pool(10, Duration.ofMinutes(1), false))) {
      rig.teach(1000);
      // Each of both workers has a minute's work, and the target is two seconds.
      Wishes patient = new Wishes(300_000, List.of(), "");
      RoutingDecision.Route first = (RoutingDecision.Route) ask(rig, "1", patient, 60_000);
      assertThat(ask(rig, "2", patient, 60_000)).isInstanceOf(RoutingDecision.Route.class);
      assertThat(ask(rig, "3", Wishes.NONE, 1000)).isInstanceOf(RoutingDecision.Wait.class);
      assertThat(served).isEmpty();

      first.dispatch().aborted();

      await().untilAsserted(() -> assertThat(served).containsExactly("3"));
      assertThat(decisions.getFirst()).isInstanceOf(RoutingDecision.Route.class);
    }
  }

  @Test
  void whatNoIdleWorkerCouldServeInTimeIsRefusedAtOnceAndKeepsNobodyWaiting() {
    try (PipelineRig rig = new PipelineRig(pool(100, Duration.ofMinutes(1), false))) {
      rig.teach(1000);

      assertThat(ask(rig, "long", Wishes.NONE, 60_000))
          .isInstanceOfSatisfying(
              RoutingDecision.Reject.class, reject -> assertThat(reject.status()).isEqualTo(429));
      assertThat(ask(rig, "hasty", new Wishes(1, List.of(), ""), 1000))
          .isInstanceOf(RoutingDecision.Reject.class);
      assertThat(ask(rig, "next", Wishes.NONE, 100)).isInstanceOf(RoutingDecision.Route.class);
    }
  }

  @Test
  void waitEndsWhenAReloadTakesTheQueueAway() {
    try (PipelineRig rig = new PipelineRig(pool(100, Duration.ofMinutes(1), false))) {
      rig.setPresent(false);
      assertThat(ask(rig, "waiting", Wishes.NONE)).isInstanceOf(RoutingDecision.Wait.class);

      rig.reload(TestPools.pool("pool", List.of("m"), false));

      await().untilAsserted(() -> assertThat(served).containsExactly("waiting"));
      assertThat(decisions.getFirst())
          .isInstanceOfSatisfying(
              RoutingDecision.Reject.class,
              reject -> assertThat(reject.outcome()).isEqualTo(RequestOutcome.NO_CANDIDATE));
    }
  }

  @Test
  void bytesThatAreKeptMeanwhileAreTold() {
    try (PipelineRig rig = new PipelineRig(pool(100, Duration.ofMinutes(1), false))) {
      rig.setPresent(false);

      assertThat(((RoutingDecision.Wait) ask(rig, "waiting", Wishes.NONE)).bytes()).isPositive();
    }
  }

  @Test
  void whatIsNoInferenceDoesNotWait() {
    try (PipelineRig rig = new PipelineRig(pool(10, Duration.ofMinutes(1), false))) {
      rig.setPresent(false);
      RequestHead head =
          new RequestHead("GET", "/v1/models", ApiKind.OTHER, "id", "", null, Wishes.NONE, false);

      assertThat(rig.pipeline.decide(rig.pipeline.unread(head, "no_body"), decisions::add))
          .isInstanceOf(RoutingDecision.Reject.class);
    }
  }
}
