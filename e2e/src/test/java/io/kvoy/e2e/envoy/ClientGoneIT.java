// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Clients that close their connection at each stage of a request: what is left of them. */
final class ClientGoneIT {
  private static final String CHAT = "/v1/chat/completions";
  private static final int CLIENTS = 10;

  private static Rig rig;

  private final List<Http1Wire> clients = new ArrayList<>();

  @BeforeAll
  static void start() throws Exception {
    rig = new Rig(2, "timeouts: {decision: 20s, bodyWait: 20s}");
    // The ids come from the workers, so that a request can be made to wait before its pick. A
    // question goes on when its client has left, so there must be room for many.
    rig.morePool = "tokenizerWorker: {timeout: 15s, concurrency: 200}";
    rig.writeConfig(rig.workers);
    rig.startKvoy();
  }

  @AfterAll
  static void stop() throws Exception {
    rig.close();
  }

  @AfterEach
  void nobodyIsLeft() throws Exception {
    closeAll();
    answerQuestions();
  }

  private static void answerQuestions() {
    rig.workers.forEach(worker -> worker.holdPaths("no path"));
  }

  static List<Arguments> ways() {
    List<Arguments> ways = new ArrayList<>();
    for (RequestBodyMode request :
        List.of(RequestBodyMode.BUFFERED, RequestBodyMode.FULL_DUPLEX_STREAMED)) {
      for (ResponseBodyMode answers :
          List.of(
              ResponseBodyMode.STREAMED,
              ResponseBodyMode.FULL_DUPLEX_STREAMED,
              ResponseBodyMode.COPIED,
              ResponseBodyMode.REPORTED)) {
        ways.add(Arguments.of(request, answers));
      }
    }
    return ways;
  }

  private record Counters(
      double gone, double aborts, double errors, double routed, double lessons) {
    static Counters read() throws Exception {
      return new Counters(
          rig.metric("kvoy_requests_total", "client_gone"),
          rig.metric("kvoy_responses_total", "end=\"abort\""),
          rig.metric("kvoy_responses_total", "end=\"reset\"")
              + rig.metric("kvoy_responses_total", "end=\"error_status\"")
              + rig.metric("kvoy_responses_total", "end=\"expired\"")
              + rig.metric("kvoy_requests_total", "internal_error"),
          rig.metric("kvoy_requests_total", "routed"),
          rig.metric("kvoy_ttft_actual_seconds_count", ""));
    }

    /** After all clients have left before a worker had them. */
    Counters allGone() {
      return new Counters(gone + CLIENTS, aborts, errors, routed, lessons);
    }

    /**
     * After all clients have left a worker.
     *
     * @param firstTokens how many had their first token
     */
    Counters allAborted(int firstTokens) {
      return new Counters(gone, aborts + CLIENTS, errors, routed + CLIENTS, lessons + firstTokens);
    }
  }

  @ParameterizedTest
  @MethodSource("ways")
  void STREAM_02_clientsThatLeaveAreReleasedOnceAndNobodysFault(
      RequestBodyMode request, ResponseBodyMode answers) throws Exception {
    EnvoyBootstrap door = rig.envoy(options -> options.requestBody(request).responseBody(answers));
    String way = request + " " + answers;

    whileTheBodyIsRead(door, way);
    whileQueuedBeforeThePick(door, way);
    whileQueuedAtTheWorker(door, way);
    afterTheFirstToken(door, way);

    // Nobody was blamed: every worker may be picked, and the next request is served.
    assertThat(rig.metric("kvoy_worker_health", "state=\"ready\"")).as(way).isEqualTo(2);
    assertThat(rig.chat(door, false, "").statusCode()).as(way).isEqualTo(200);
    awaitNothingLeft(way);
    assertThat(rig.lastEnvoy().stat("http.inference.downstream_rq_5xx")).as(way).isZero();
  }

  /** A request up to and with some of its body; the rest is never sent. */
  private static Http1Wire begun(EnvoyBootstrap door) throws Exception {
    Http1Wire wire = new Http1Wire(door.listen(), false);
    wire.raw("POST " + CHAT + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"model\"");
    return wire;
  }

  private static Http1Wire sent(EnvoyBootstrap door, String how) throws Exception {
    Http1Wire wire = new Http1Wire(door.listen(), false);
    String body = Rig.CHAT.formatted(true, "hello");
    wire.raw(
        "POST %s HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s"
            .formatted(CHAT, InstantWorker.DO, how, body.length(), body));
    return wire;
  }

  private void whileTheBodyIsRead(EnvoyBootstrap door, String way) throws Exception {
    Counters before = Counters.read();
    for (int i = 0; i < CLIENTS; i++) {
      clients.add(begun(door));
    }
    awaitMetric("kvoy_ext_proc_streams", CLIENTS);
    closeAll();

    await()
        .atMost(Duration.ofSeconds(5))
        .untilAsserted(
            () ->
                assertThat(rig.metric("kvoy_requests_total", "client_gone"))
                    .as(way)
                    .isEqualTo(before.gone() + CLIENTS));
    awaitNothingLeft(way);
    Counters after = Counters.read();
    assertThat(after).as(way + " in the body").isEqualTo(before.allGone());
  }

  private void whileQueuedBeforeThePick(EnvoyBootstrap door, String way) throws Exception {
    Counters before = Counters.read();
    int asked = rig.workers.stream().mapToInt(InstantWorker::held).sum();
    rig.workers.forEach(InstantWorker::forget);
    rig.workers.forEach(worker -> worker.holdPaths("/render"));
    for (int i = 0; i < CLIENTS; i++) {
      clients.add(sent(door, "stream"));
    }
    await()
        .atMost(Duration.ofSeconds(5))
        .until(() -> rig.workers.stream().mapToInt(InstantWorker::held).sum() == asked + CLIENTS);
    closeAll();

    awaitNothingLeft(way);
    answerQuestions();
    assertThat(Counters.read()).as(way + " before the pick").isEqualTo(before.allGone());
    assertThat(chatsAtWorkers()).as(way).isZero();
  }

  private void whileQueuedAtTheWorker(EnvoyBootstrap door, String way) throws Exception {
    rig.workers.forEach(InstantWorker::forget);
    Counters before = Counters.read();
    for (int i = 0; i < CLIENTS; i++) {
      clients.add(sent(door, "hold"));
    }
    awaitMetric("kvoy_worker_in_flight_requests", CLIENTS);
    await().atMost(Duration.ofSeconds(5)).until(() -> chatsAtWorkers() == CLIENTS);
    closeAll();

    awaitNothingLeft(way);
    Counters after = Counters.read();
    assertThat(after).as(way + " at the worker").isEqualTo(before.allAborted(0));
  }

  private void afterTheFirstToken(EnvoyBootstrap door, String way) throws Exception {
    Counters before = Counters.read();
    for (int i = 0; i < CLIENTS; i++) {
      Http1Wire wire = sent(door, "stream first=10 chunks=2 gap=30000");
      wire.head();
      wire.exactly(50);
      clients.add(wire);
    }
    awaitMetric("kvoy_worker_in_flight_requests", CLIENTS);
    closeAll();

    awaitNothingLeft(way);
    Counters after = Counters.read();
    assertThat(after).as(way + " after the first token").isEqualTo(before.allAborted(CLIENTS));
  }

  private void closeAll() throws Exception {
    for (Http1Wire client : clients) {
      client.close();
    }
    clients.clear();
  }

  /** Without those that Kvoy asks for token ids. */
  private static long chatsAtWorkers() {
    return rig.workers.stream()
        .flatMap(worker -> worker.seen().stream())
        .filter(seen -> seen.path().equals(CHAT))
        .count();
  }

  private static void awaitMetric(String name, double value) {
    await().atMost(Duration.ofSeconds(5)).until(() -> rig.metric(name, "") == value);
  }

  private static void awaitNothingLeft(String way) {
    await()
        .atMost(Duration.ofSeconds(10))
        .untilAsserted(
            () -> {
              assertThat(rig.metric("kvoy_worker_in_flight_requests", "")).as(way).isZero();
              assertThat(rig.metric("kvoy_ext_proc_streams", "")).as(way).isZero();
              assertThat(rig.metric("kvoy_reports_awaited", "")).as(way).isZero();
              assertThat(rig.admin("/debug/fleet"))
                  .as(way)
                  .doesNotContainPattern("\"queued_prefill_tokens\":[1-9]");
            });
  }
}
