// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.e2e.env.ScriptedPicker.Report;
import io.kvoy.e2e.env.ScriptedPicker.Way;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.scoring.fleet.Endpoint;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The bootstrap at work in a real Envoy with a picker: where a pick leads, and what Envoy reports
 * back.
 */
class EnvoyPickIT {
  private static final String PROMPT = "x".repeat(200_000);

  private final HttpClient client =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  private final ScriptedPicker picker;
  private final EchoWorker a;
  private final EchoWorker b;
  private final Endpoint dead = new Endpoint("127.0.0.1", Ports.free());

  EnvoyPickIT() throws Exception {
    picker = new ScriptedPicker();
    a = new EchoWorker("a", 200);
    b = new EchoWorker("b", 500);
  }

  @BeforeEach
  void pickNobody() {
    picker.pick("", Way.METADATA);
  }

  @AfterEach
  void close() {
    client.close();
    picker.close();
    a.close();
    b.close();
  }

  @ParameterizedTest
  @EnumSource(names = {"FULL_DUPLEX_STREAMED", "STREAMED", "NONE"})
  void pickIsFollowedAndReportedInEachBodyMode(ResponseBodyMode responseBody) throws Exception {
    for (RequestBodyMode requestBody :
        List.of(RequestBodyMode.BUFFERED, RequestBodyMode.FULL_DUPLEX_STREAMED)) {
      EnvoyBootstrap bootstrap =
          builder(List.of()).requestBody(requestBody).responseBody(responseBody).build();
      try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
        for (Way way : Way.values()) {
          for (EchoWorker worker : List.of(a, b, a)) {
            picker.pick(worker.endpoint().toString(), way);

            HttpResponse<String> answer = post(bootstrap);

            String mode = requestBody + "/" + responseBody + " by " + way + "\n" + envoy.logTail();
            assertThat(answer.statusCode()).as(mode).isEqualTo(200);
            assertThat(answer.body())
                .as(mode)
                .isEqualTo((worker == a ? "a:" : "b:") + PROMPT.length());
            String served = worker.endpoint().toString();
            assertThat(report()).as(mode).isEqualTo(new Report(served, served, "via_upstream"));
          }
        }
      }
    }
  }

  @Test
  void pickThatRefusesTheConnectionIsReplacedAndTheReplacementReported() throws Exception {
    EnvoyBootstrap bootstrap = builder(List.of(dead)).build();
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      picker.pick(dead.toString(), Way.METADATA);

      HttpResponse<String> answer = post(bootstrap);

      assertThat(answer.statusCode()).as(envoy.logTail()).isEqualTo(200);
      Report report = report();
      assertThat(report.servedMetadata())
          .isIn(a.endpoint().toString(), b.endpoint().toString())
          .isEqualTo(report.upstreamAddress());
    }
  }

  @Test
  void secondOfAListIsUsedWhenTheFirstRefuses() throws Exception {
    EnvoyBootstrap bootstrap = builder(List.of(dead)).build();
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      for (int i = 0; i < 6; i++) {
        picker.pick(dead + "," + b.endpoint(), Way.METADATA);

        assertThat(post(bootstrap).body()).as(envoy.logTail()).isEqualTo("b:" + PROMPT.length());
        assertThat(report().servedMetadata()).isEqualTo(b.endpoint().toString());
      }
    }
  }

  /** Whoever books outcomes has to tell this 503 from a worker's own. */
  @Test
  void whenEveryWorkerRefusesEnvoysOwnAnswerNamesTheOneTriedLastAndSaysWhy() throws Exception {
    List<Endpoint> all = List.of(dead, new Endpoint("127.0.0.1", Ports.free()));
    EnvoyBootstrap bootstrap = builder(List.of()).workers(all).build();
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      picker.pick(dead.toString(), Way.METADATA);

      assertThat(post(bootstrap).statusCode()).as(envoy.logTail()).isEqualTo(503);
      Report report = report();
      assertThat(report.servedMetadata()).isIn(all.stream().map(Endpoint::toString).toList());
      assertThat(report.codeDetails())
          .startsWith("upstream_reset_before_response_started")
          .contains("connection_failure");
    }
  }

  @Test
  void pickThatTheClusterDoesNotKnowFallsBackAndIsReported() throws Exception {
    EnvoyBootstrap bootstrap = builder(List.of()).build();
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      picker.pick("127.0.0.1:1", Way.METADATA);

      assertThat(post(bootstrap).statusCode()).as(envoy.logTail()).isEqualTo(200);
      assertThat(report().servedMetadata()).isIn(a.endpoint().toString(), b.endpoint().toString());
    }
  }

  @Test
  void healthChecksSteerTheFallbackButNotThePick() throws Exception {
    EnvoyBootstrap bootstrap = builder(List.of()).checkWorkerHealth(true).build();
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      for (int i = 0; i < 6; i++) {
        picker.pick("", Way.METADATA);
        assertThat(post(bootstrap).body()).as("without a pick the healthy worker").startsWith("a:");
        report();

        picker.pick(b.endpoint().toString(), Way.METADATA);
        assertThat(post(bootstrap).body()).as("the pick, although unhealthy").startsWith("b:");
        report();
      }
      assertThat(envoy.isAlive()).isTrue();
    }
  }

  private EnvoyBootstrap.Builder builder(List<Endpoint> more) {
    List<Endpoint> workers =
        java.util.stream.Stream.concat(
                java.util.stream.Stream.of(a.endpoint(), b.endpoint()), more.stream())
            .toList();
    return EnvoyBootstrap.builder()
        .listen(new Endpoint("127.0.0.1", Ports.free()))
        .admin(new Endpoint("127.0.0.1", Ports.free()))
        .extProc(picker.endpoint())
        .failOpen(false)
        .workers(workers);
  }

  private Report report() throws InterruptedException {
    @Nullable Report report = picker.reports.poll(10, TimeUnit.SECONDS);
    assertThat(report).as("response headers reach the picker").isNotNull();
    return report;
  }

  private HttpResponse<String> post(EnvoyBootstrap bootstrap) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://" + bootstrap.listen() + "/v1/completions"))
            .timeout(Duration.ofSeconds(30))
            .POST(BodyPublishers.ofString(PROMPT))
            .build();
    return client.send(request, BodyHandlers.ofString());
  }
}
