// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import java.io.InputStream;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.EnumSource.Mode;

/** The same answer watched in each way: what Kvoy learns of it, and when. */
final class AnswerWaysIT {
  private static final Pattern TTFT = Pattern.compile("\"ttft_ms\":([0-9.]+),\"prompt_tokens\"");

  /**
   * Longest wait for the notice of a first token, as configured here, and room for this machine.
   */
  private static final Duration NOTICE = Duration.ofMillis(100);

  private static Rig rig;

  @BeforeAll
  static void start() throws Exception {
    rig = Rig.start(2);
  }

  @AfterAll
  static void stop() throws Exception {
    rig.close();
  }

  private static EnvoyBootstrap envoy(RequestBodyMode request, ResponseBodyMode response)
      throws Exception {
    return rig.envoy(
        options -> options.requestBody(request).responseBody(response).firstTokenNotice(NOTICE));
  }

  /** The newest decision's record. */
  private static String decision() throws Exception {
    return rig.admin("/debug/decisions?limit=1");
  }

  @ParameterizedTest
  @EnumSource(mode = Mode.EXCLUDE, names = "NONE")
  void everyWayTellsTheSameOfAStream(ResponseBodyMode way) throws Exception {
    for (RequestBodyMode request : RequestBodyMode.values()) {
      EnvoyBootstrap door = envoy(request, way);
      for (int i = 0; i < 3; i++) {
        HttpResponse<String> answer = rig.chat(door, true, "stream first=300 chunks=4 gap=50");
        assertThat(answer.statusCode()).as(rig.lastEnvoy().logTail()).isEqualTo(200);
        assertThat(answer.body()).contains("[DONE]");
      }
      await()
          .atMost(Duration.ofSeconds(5))
          .untilAsserted(
              () -> {
                assertThat(rig.metric("kvoy_worker_in_flight_requests", "")).isZero();
                assertThat(rig.metric("kvoy_reports_awaited", "")).isZero();
              });
      String seen = decision();
      assertThat(seen)
          .as(way + " " + request)
          .contains("\"end\":\"end\"")
          .contains("\"status\":200")
          .contains("\"prompt_tokens\":77")
          .contains("\"cached_tokens\":64")
          .contains("\"completion_tokens\":5");
      Matcher ttft = TTFT.matcher(seen);
      assertThat(ttft.find()).as(seen).isTrue();
      assertThat(Double.parseDouble(ttft.group(1))).as(way + ": ms").isBetween(299.0, 1_300.0);
    }
  }

  @ParameterizedTest
  @EnumSource(mode = Mode.EXCLUDE, names = "NONE")
  void firstTokenIsKnownWhileTheStreamRuns(ResponseBodyMode way) throws Exception {
    EnvoyBootstrap door = envoy(RequestBodyMode.BUFFERED, way);
    double before = rig.metric("kvoy_ttft_actual_seconds_count", "");
    HttpResponse<InputStream> answer =
        rig.http.send(
            Rig.chatRequest(door, true, "stream first=200 chunks=2 gap=4000"),
            HttpResponse.BodyHandlers.ofInputStream());
    try (InputStream body = answer.body()) {
      assertThat(rig.metric("kvoy_ttft_actual_seconds_count", "")).isEqualTo(before);
      assertThat(body.read()).isNotNegative();
      long firstByte = System.nanoTime();
      await()
          .pollInterval(Duration.ofMillis(5))
          .atMost(Duration.ofSeconds(3))
          .until(() -> rig.metric("kvoy_ttft_actual_seconds_count", "") == before + 1);
      // One interval, one batch, and a margin for two busy cores; the stream goes on for 4 s.
      assertThat(Duration.ofNanos(System.nanoTime() - firstByte))
          .isLessThan(NOTICE.plusMillis(20).plusMillis(1_500));
      assertThat(rig.metric("kvoy_worker_in_flight_requests", "")).isEqualTo(1);
    }
    // The client leaves in the middle: that is no failure of the worker.
    await()
        .atMost(Duration.ofSeconds(5))
        .until(() -> rig.metric("kvoy_worker_in_flight_requests", "") == 0);
    assertThat(decision()).contains("\"end\":\"abort\"");
  }

  @Test
  void failuresOfWorkersAreToldByReports() throws Exception {
    EnvoyBootstrap door = envoy(RequestBodyMode.BUFFERED, ResponseBodyMode.REPORTED);
    assertThat(rig.chat(door, false, "status=500").statusCode()).isEqualTo(500);
    await()
        .atMost(Duration.ofSeconds(5))
        .untilAsserted(() -> assertThat(decision()).contains("\"end\":\"error_status\""));
    rig.chat(door, false, "reset");
    await()
        .atMost(Duration.ofSeconds(5))
        .untilAsserted(() -> assertThat(decision()).contains("\"end\":\"reset\""));
    assertThat(rig.metric("kvoy_worker_in_flight_requests", "")).isZero();
  }

  @Test
  void reportsOfForgedIdsChangeNothing() throws Exception {
    EnvoyBootstrap door = envoy(RequestBodyMode.BUFFERED, ResponseBodyMode.REPORTED);
    double unknown = rig.metric("kvoy_reports_total", "unknown_id");
    HttpResponse<String> answer =
        rig.http.send(
            java.net.http.HttpRequest.newBuilder(
                    java.net.URI.create("http://" + door.listen() + "/v1/chat/completions"))
                .header("x-kvoy-answer", "copy")
                .header("flight", "0000000000000000")
                .header("x-request-id", "0000000000000000")
                .POST(
                    java.net.http.HttpRequest.BodyPublishers.ofString(
                        Rig.CHAT.formatted(false, "x")))
                .build(),
            HttpResponse.BodyHandlers.ofString());
    assertThat(answer.statusCode()).isEqualTo(200);
    await()
        .atMost(Duration.ofSeconds(5))
        .until(() -> rig.metric("kvoy_worker_in_flight_requests", "") == 0);
    assertThat(rig.metric("kvoy_reports_total", "unknown_id")).isEqualTo(unknown);
  }
}
