// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.e2e.load.InstantWorker.Seen;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.RequestBodyMode;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What reaches a worker when Envoy repeats a request, and when it must not. */
final class RetryIT {
  private static final byte[] BODY =
      Rig.CHAT.formatted(false, "x".repeat(2 << 20)).getBytes(StandardCharsets.UTF_8);
  private static final String PATH = "/v1/chat/completions";

  private Rig rig;

  @BeforeEach
  void start() throws Exception {
    rig = new Rig(2, "");
    // Kvoy shall not notice by itself, before Envoy does, that a worker is gone.
    rig.healthInterval = "5s";
    rig.writeConfig(rig.workers);
    rig.startKvoy();
  }

  @AfterEach
  void stop() throws Exception {
    rig.close();
  }

  @Test
  void EXTP_06_aBufferedBodyOfTwoMebibytesReachesTheSecondWorkerWholeAndOnce() throws Exception {
    EnvoyBootstrap door = rig.envoy(options -> options);
    InstantWorker second = rig.workers.get(1);
    rig.workers.get(0).close();
    int sent = 0;
    try (Wire wire = Wire.open(Wire.Version.HTTP_2, door.listen())) {
      while (rig.lastEnvoy().stat("cluster.model_servers.upstream_rq_retry") == 0 && sent < 20) {
        Wire.Answer answer = wire.send(Wire.Request.post(PATH, BODY));
        assertThat(answer.status()).as(answer.text()).isEqualTo(200);
        sent++;
      }
    }
    assertThat(rig.lastEnvoy().stat("cluster.model_servers.upstream_rq_retry")).isPositive();
    assertThat(second.seen()).hasSize(sent);
    assertThat(second.seen().stream().map(Seen::sha256).distinct())
        .containsExactly(Wire.sha256(BODY));
    assertThat(rig.metric("kvoy_worker_in_flight_requests", "")).isZero();
  }

  @Test
  void EXTP_06_nothingIsRepeatedThatMayHaveBegunAndNoStreamedBodyEver() throws Exception {
    EnvoyBootstrap buffered = rig.envoy(options -> options);
    EnvoyBootstrap duplex =
        rig.envoy(options -> options.requestBody(RequestBodyMode.FULL_DUPLEX_STREAMED));
    assertThat(buffered.toYaml()).contains("retry_policy").doesNotContain("5xx");
    assertThat(duplex.toYaml())
        .as("streamed bodies are not repeated")
        .doesNotContain("retry_policy");
    for (EnvoyBootstrap door : List.of(buffered, duplex)) {
      rig.workers.forEach(InstantWorker::forget);
      try (Wire wire = Wire.open(Wire.Version.HTTP_1_1, door.listen())) {
        Wire.Answer answer =
            wire.send(Wire.Request.post(PATH, BODY, InstantWorker.DO, "status=500"));
        assertThat(answer.status()).isEqualTo(500);
      }
      assertThat(rig.requestsAtWorkers()).as("one attempt").isEqualTo(1);
      assertThat(rig.workers.stream().flatMap(w -> w.seen().stream()).map(Seen::sha256))
          .containsExactly(Wire.sha256(BODY));
    }
  }

  /** Of four workers the one that Kvoy names second takes what the first does not. */
  @Test
  void fallbacksAreTriedInTheirOrder() throws Exception {
    rig.close();
    rig = new Rig(4, "");
    rig.healthInterval = "5s";
    rig.morePool = "fallbacks: 3";
    rig.writeConfig(rig.workers);
    rig.startKvoy();
    EnvoyBootstrap door = rig.envoy(options -> options);
    String gone = rig.workers.getFirst().endpoint().toString();
    rig.workers.getFirst().close();
    int repeated = 0;
    try (Wire wire = Wire.open(Wire.Version.HTTP_2, door.listen())) {
      for (int i = 0; i < 40 && repeated == 0; i++) {
        rig.workers.forEach(InstantWorker::forget);
        byte[] body = Rig.CHAT.formatted(false, "prompt " + i).getBytes(StandardCharsets.UTF_8);
        Wire.Answer answer = wire.send(Wire.Request.post(PATH, body));
        assertThat(answer.status()).as(answer.text()).isEqualTo(200);

        InstantWorker served =
            rig.workers.stream().filter(w -> !w.seen().isEmpty()).findFirst().orElseThrow();
        String named = served.seen().getFirst().header("x-gateway-destination-endpoint").getFirst();
        List<String> order = List.of(named.split(","));
        assertThat(order).hasSize(4).doesNotHaveDuplicates();
        boolean isFirstGone = order.getFirst().equals(gone);
        assertThat(served.endpoint().toString()).isEqualTo(order.get(isFirstGone ? 1 : 0));
        repeated += isFirstGone ? 1 : 0;
      }
    }
    assertThat(repeated).as("the worker that is gone was picked").isPositive();
    assertThat(rig.lastEnvoy().stat("cluster.model_servers.upstream_rq_retry")).isPositive();
  }
}
