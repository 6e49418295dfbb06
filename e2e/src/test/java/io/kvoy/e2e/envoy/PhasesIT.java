// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.e2e.load.InstantWorker.Seen;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.RequestBodyMode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Requests of which Kvoy is not sent everything, or that do not end: on a real Envoy. */
final class PhasesIT {
  private static final String CHAT = "/v1/chat/completions";

  private static Rig rig;

  @BeforeAll
  static void start() throws Exception {
    rig = Rig.start(2, "timeouts: {bodyWait: 6s}");
  }

  @AfterAll
  static void stop() throws Exception {
    rig.close();
  }

  @BeforeEach
  void forget() {
    rig.workers.forEach(InstantWorker::forget);
  }

  // ---- phases that the proxy's configuration leaves out ----

  /**
   * What Envoy is told to send of one request and its answer.
   *
   * @param requestBody Envoy's word, NONE when it is left out
   * @param responseBody the same of the answer
   */
  record Phases(
      boolean requestHeaders,
      String requestBody,
      boolean requestTrailers,
      boolean responseHeaders,
      String responseBody) {

    String name() {
      return "%b-%s-%b-%b-%s"
          .formatted(requestHeaders, requestBody, requestTrailers, responseHeaders, responseBody)
          .toLowerCase(java.util.Locale.ROOT);
    }

    private static String mode(boolean sent) {
      return sent ? "SEND" : "SKIP";
    }

    /** A route of its own, taken by requests that name it. */
    String route() {
      return """
      {"match": {"prefix": "/",
                 "headers": [{"name": "x-phases", "string_match": {"exact": "%s"}}]},
       "route": {"cluster": "model_servers", "timeout": "0s"},
       "typed_per_filter_config": {"envoy.filters.http.ext_proc": {
         "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute",
         "overrides": {"processing_mode": {
           "request_header_mode": "%s", "request_body_mode": "%s", "request_trailer_mode": "%s",
           "response_header_mode": "%s", "response_body_mode": "%s",
           "response_trailer_mode": "SEND"}}}}},
      """
          .formatted(
              name(),
              mode(requestHeaders),
              requestBody,
              mode(requestTrailers),
              mode(responseHeaders),
              responseBody);
    }
  }

  /** Every way of request bodies, with those of answers that differ most. */
  static List<Arguments> bodies() {
    List<Arguments> all = new ArrayList<>();
    for (String request :
        List.of("BUFFERED", "BUFFERED_PARTIAL", "STREAMED", "FULL_DUPLEX_STREAMED")) {
      all.add(Arguments.of(request, "STREAMED"));
      all.add(Arguments.of(request, "FULL_DUPLEX_STREAMED"));
    }
    all.add(Arguments.of("BUFFERED", "BUFFERED"));
    return all;
  }

  /** All 32 subsets of the five phases; where a body is full duplex Envoy insists on trailers. */
  private static List<Phases> subsets(String requestBody, String responseBody) {
    List<Phases> all = new ArrayList<>();
    for (int bits = 0; bits < 32; bits++) {
      boolean body = (bits & 2) != 0;
      all.add(
          new Phases(
              (bits & 1) != 0,
              body ? requestBody : "NONE",
              (bits & 4) != 0 || (body && requestBody.equals("FULL_DUPLEX_STREAMED")),
              (bits & 8) != 0,
              (bits & 16) != 0 ? responseBody : "NONE"));
    }
    return all;
  }

  @ParameterizedTest
  @MethodSource("bodies")
  void BODY_07_everyPhaseWorksWhateverOtherPhasesAreLeftOut(String requestBody, String responseBody)
      throws Exception {
    List<Phases> subsets = subsets(requestBody, responseBody);
    double unseen = rig.metric("kvoy_requests_total", "unseen");
    EnvoyBootstrap plain =
        rig.bootstrap()
            .messageTimeout(Duration.ofSeconds(3))
            .idleTimeout(Duration.ofSeconds(4))
            .build();
    StringBuilder routes = new StringBuilder();
    subsets.stream().distinct().map(Phases::route).forEach(routes::append);
    EnvoyBootstrap door =
        rig.envoy(plain, plain.toJson().replace("\"routes\": [", "\"routes\": [" + routes));
    byte[] chat = Rig.CHAT.formatted(false, "x".repeat(40_000)).getBytes(StandardCharsets.UTF_8);
    for (Phases phases : subsets) {
      try (Wire wire = Wire.open(Wire.Version.HTTP_2, door.listen())) {
        Wire.Request post =
            Wire.Request.post(CHAT, chat, InstantWorker.DO, "echo", "x-phases", phases.name());
        Wire.Request get =
            new Wire.Request("GET", "/v1/models", List.of("x-phases", phases.name()), null, false);
        for (Wire.Request request : List.of(post, post.withTrailers(), get)) {
          cell(wire, request, phases);
        }
      }
    }
    await()
        .atMost(Duration.ofSeconds(10))
        .untilAsserted(
            () -> {
              assertThat(rig.metric("kvoy_worker_in_flight_requests", "")).isZero();
              assertThat(rig.metric("kvoy_ext_proc_streams", "")).isZero();
            });
    assertThat(rig.metric("kvoy_requests_total", "unseen")).isGreaterThan(unseen);
    assertThat(rig.metric("kvoy_requests_total", "internal_error")).isZero();
    assertThat(rig.metric("kvoy_ext_proc_streams_ended_total", "error")).isZero();
  }

  private void cell(Wire wire, Wire.Request request, Phases phases) throws Exception {
    forget();
    String name = phases + " " + request.method() + " trailers=" + request.trailers();
    double picks = rig.metric("kvoy_picks_total", "");

    Wire.Answer answer = wire.send(request);

    assertThat(answer.status()).as(name + answer.text()).isEqualTo(200);
    assertThat(answer.whole()).as(name).isTrue();
    Seen seen = onlyRequest();
    if (request.body() != null) {
      assertThat(Wire.sha256(answer.body())).as(name).isEqualTo(Wire.sha256(request.body()));
      assertThat(seen.sha256()).as(name).isEqualTo(Wire.sha256(request.body()));
    }
    // Without its headers a request has a worker before Kvoy hears of it.
    assertThat(rig.metric("kvoy_picks_total", "") - picks)
        .as(name)
        .isEqualTo(phases.requestHeaders() ? 1 : 0);
  }

  private static Seen onlyRequest() {
    List<Seen> all = rig.workers.stream().flatMap(worker -> worker.seen().stream()).toList();
    assertThat(all).hasSize(1);
    return all.getFirst();
  }

  /** Of the parts of a body before a trailer field none carries the end of the stream. */
  @ParameterizedTest
  @EnumSource
  void BODY_05_trailersEndTheRequestAndTheDecisionIsTakenAtOnce(RequestBodyMode mode)
      throws Exception {
    EnvoyBootstrap door = rig.envoy(options -> options.requestBody(mode));
    for (Wire.Version version : List.of(Wire.Version.HTTP_2, Wire.Version.HTTP_1_1_CHUNKED)) {
      for (int padding : new int[] {10, 200_000}) {
        forget();
        String name = mode + " " + version + " " + padding;
        byte[] chat =
            Rig.CHAT.formatted(false, "x".repeat(padding)).getBytes(StandardCharsets.UTF_8);
        double picks = rig.metric("kvoy_picks_total", "");
        try (Wire wire = Wire.open(version, door.listen())) {
          long start = System.nanoTime();
          Wire.Answer answer =
              wire.send(
                  Wire.Request.post(CHAT, chat, "content-type", "application/json").withTrailers());

          assertThat(answer.status()).as(name + answer.text()).isEqualTo(200);
          assertThat(Duration.ofNanos(System.nanoTime() - start))
              .as(name + ": not by the limit on the wait for a body, which is 6 s")
              .isLessThan(Duration.ofSeconds(3));
        }
        assertThat(rig.metric("kvoy_picks_total", "") - picks).as(name).isEqualTo(1);
        assertThat(onlyRequest().sha256()).as(name).isEqualTo(Wire.sha256(chat));
        boolean isWhole =
            switch (mode) {
              case FULL_DUPLEX_STREAMED, BUFFERED -> true;
              // Envoy drops the trailers of HTTP/1.1, so that the end of the body is its end there.
              case BUFFERED_PARTIAL -> version != Wire.Version.HTTP_2;
              case STREAMED, NONE -> false;
            };
        assertThat(rig.admin("/debug/decisions?limit=1").contains("\"model\":\"m\""))
            .as(name + ": prompt was read")
            .isEqualTo(isWhole);
      }
    }
  }

  // ---- requests that do not end ----

  private static final String TUNNEL =
      "Upgrade: websocket\r\nConnection: Upgrade\r\n%s: tunnel\r\n\r\n".formatted(InstantWorker.DO);

  private static final List<String> TUNNELS =
      List.of(
          "GET /v1/realtime HTTP/1.1\r\nHost: x\r\n" + TUNNEL,
          "POST " + CHAT + " HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n" + TUNNEL,
          "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n" + InstantWorker.DO + ": tunnel\r\n\r\n");

  /** What an operator adds to the generated configuration to let them through. */
  private static EnvoyBootstrap withUpgrades(RequestBodyMode mode) throws Exception {
    EnvoyBootstrap plain =
        rig.bootstrap().requestBody(mode).idleTimeout(Duration.ofSeconds(8)).build();
    String json =
        plain
            .toJson()
            .replace(
                "\"http_filters\": [",
                """
                "upgrade_configs": [{"upgrade_type": "websocket"}, {"upgrade_type": "CONNECT"}],
                "http_filters": [""")
            .replace(
                "\"routes\": [",
                """
                "routes": [{"match": {"connect_matcher": {}},
                            "route": {"cluster": "model_servers", "timeout": "0s"}},""");
    return rig.envoy(plain, json);
  }

  @ParameterizedTest
  @EnumSource
  void BODY_06_upgradesAndConnectsAreRoutedAtTheirHeadersAndReserveNothing(RequestBodyMode mode)
      throws Exception {
    EnvoyBootstrap door = withUpgrades(mode);
    for (String head : TUNNELS) {
      forget();
      String name = mode + " " + head.lines().findFirst().orElseThrow();
      double picks = rig.metric("kvoy_picks_total", "");
      double lessons = rig.metric("kvoy_ttft_actual_seconds_count", "");
      long start = System.nanoTime();
      try (Http1Wire wire = new Http1Wire(door.listen(), false)) {
        wire.raw(head);
        assertThat(wire.head().getFirst())
            .as(name)
            .contains(head.startsWith("CONNECT") ? " 200 " : " 101 ");
        assertThat(Duration.ofNanos(System.nanoTime() - start))
            .as(name + ": before any limit on the wait for a body")
            .isLessThan(Duration.ofSeconds(3));
        for (String frame : List.of("hello", "again")) {
          wire.raw(frame);
          assertThat(new String(wire.exactly(5), StandardCharsets.US_ASCII))
              .as(name)
              .isEqualTo(frame);
        }
        assertThat(rig.metric("kvoy_picks_total", "") - picks).as(name).isEqualTo(1);
        assertThat(reservedTokens()).as(name).isZero();
      }
      assertThat(onlyRequest().header(InstantWorker.DO)).as(name).containsExactly("tunnel");
      await()
          .atMost(Duration.ofSeconds(5))
          .untilAsserted(
              () -> {
                assertThat(rig.metric("kvoy_worker_in_flight_requests", "")).as(name).isZero();
                assertThat(rig.metric("kvoy_ext_proc_streams", "")).as(name).isZero();
              });
      assertThat(rig.metric("kvoy_ttft_actual_seconds_count", "")).as(name).isEqualTo(lessons);
    }
  }

  /** Prefill that workers are believed to have before them. */
  private static long reservedTokens() throws Exception {
    return Pattern.compile("\"queued_prefill_tokens\":([0-9]+)")
        .matcher(rig.admin("/debug/fleet"))
        .results()
        .mapToLong(found -> Long.parseLong(found.group(1)))
        .sum();
  }

  @Test
  void BODY_06_theGeneratedConfigurationRefusesUpgradesAtOnce() throws Exception {
    EnvoyBootstrap door = rig.envoy(options -> options);
    double picks = rig.metric("kvoy_picks_total", "");
    for (String head : TUNNELS.subList(0, 2)) {
      try (Http1Wire wire = new Http1Wire(door.listen(), false)) {
        wire.raw(head);
        assertThat(wire.head().getFirst()).contains(" 403 ");
      }
    }
    assertThat(rig.requestsAtWorkers()).isZero();
    assertThat(rig.metric("kvoy_picks_total", "")).isEqualTo(picks);
  }

  /** Java's own client offers HTTP/2 so with every first request; it is no upgrade to Envoy. */
  @ParameterizedTest
  @EnumSource(names = {"BUFFERED", "FULL_DUPLEX_STREAMED"})
  void BODY_06_anOfferOfHttp2IsReadLikeAnyRequest(RequestBodyMode mode) throws Exception {
    EnvoyBootstrap door = withUpgrades(mode);
    byte[] chat = Rig.CHAT.formatted(false, "hi").getBytes(StandardCharsets.UTF_8);
    try (Wire wire = Wire.open(Wire.Version.HTTP_1_1, door.listen())) {
      Wire.Answer answer =
          wire.send(
              Wire.Request.post(
                  CHAT,
                  chat,
                  "Connection",
                  "Upgrade, HTTP2-Settings",
                  "Upgrade",
                  "h2c",
                  "HTTP2-Settings",
                  "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"));
      assertThat(answer.status()).isEqualTo(200);
    }
    assertThat(onlyRequest().sha256()).isEqualTo(Wire.sha256(chat));
    assertThat(rig.admin("/debug/decisions?limit=1")).contains("\"model\":\"m\"");
  }
}
