// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;

import io.kvoy.envoy.ControlHeaders;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * The bootstrap at work in a real Envoy, without a Kvoy: what holds when the picker is not there.
 */
class EnvoyProcessIT {
  private final List<EchoWorker> workers = new ArrayList<>();
  private final HttpClient client =
      HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

  @AfterEach
  void close() {
    workers.forEach(EchoWorker::close);
    client.close();
  }

  @Test
  void plainDoorTakesWorkersInTurn() throws Exception {
    EnvoyBootstrap bootstrap = bootstrap(List.of(echoWorker("a"), echoWorker("b")));
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      Map<String, Integer> served = new TreeMap<>();
      for (int i = 0; i < 20; i++) {
        served.merge(post(bootstrap.plainListen().orElseThrow(), "x").body(), 1, Integer::sum);
      }

      // Each of Envoy's two workers keeps its own turn, so the halves may differ by one or two.
      assertThat(served).as(envoy.logTail()).containsOnlyKeys("a:1", "b:1");
      assertThat(served.get("a:1")).isBetween(8, 12);
    }
  }

  @Test
  void whileKvoyIsDownRequestsAreServedByTheFallback() throws Exception {
    EnvoyBootstrap bootstrap = bootstrap(List.of(echoWorker("a"), echoWorker("b")));
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      HttpResponse<String> answer = post(bootstrap.listen(), "x".repeat(100_000));

      assertThat(answer.statusCode()).as(envoy.logTail()).isEqualTo(200);
      assertThat(answer.body()).isIn("a:100000", "b:100000");
    }
  }

  @Test
  void longRequestIsRepeatedElsewhereWhenAWorkerRefusesTheConnection() throws Exception {
    Endpoint dead = new Endpoint("127.0.0.1", Ports.free());
    EnvoyBootstrap bootstrap = bootstrap(List.of(dead, echoWorker("b")));
    String prompt = "x".repeat(900_000);
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      for (int i = 0; i < 8; i++) {
        HttpResponse<String> answer = post(bootstrap.plainListen().orElseThrow(), prompt);

        assertThat(answer.statusCode()).as(envoy.logTail()).isEqualTo(200);
        assertThat(answer.body()).isEqualTo("b:900000");
      }
      assertThat(envoy.stat("cluster." + EnvoyBootstrap.MODEL_SERVERS_PLAIN + ".upstream_rq_retry"))
          .as("the dead worker was tried")
          .isPositive();
    }
  }

  @Test
  void requestLargerThanTheRetryBufferPassesEachDoor() throws Exception {
    EnvoyBootstrap bootstrap = bootstrap(List.of(echoWorker("a"), echoWorker("b")));
    String images = "x".repeat(20 << 20);
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      for (Endpoint door : List.of(bootstrap.listen(), bootstrap.plainListen().orElseThrow())) {
        for (int i = 0; i < 4; i++) {
          HttpResponse<String> answer = post(door, images);

          assertThat(answer.statusCode()).as(envoy.logTail()).isEqualTo(200);
          assertThat(answer.body()).endsWith(":" + (20 << 20));
        }
      }
    }
  }

  @Test
  void clientCannotNameTheEndpointEvenWhileKvoyIsDown() throws Exception {
    Endpoint forced = echoWorker("b");
    EnvoyBootstrap bootstrap = bootstrap(List.of(echoWorker("a"), forced));
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      int servedByForced = 0;
      for (int i = 0; i < 24; i++) {
        HttpRequest request =
            HttpRequest.newBuilder(uri(bootstrap.listen()))
                .header(ControlHeaders.DESTINATION_ENDPOINT, forced.toString())
                .POST(BodyPublishers.ofString("x"))
                .build();
        String body = client.send(request, BodyHandlers.ofString()).body();
        servedByForced += body.equals("b:1") ? 1 : 0;
      }

      assertThat(servedByForced)
          .as("requests at the endpoint that the client named")
          .isLessThan(24);
      assertThat(envoy.isAlive()).isTrue();
    }
  }

  @Test
  void refusedConfigurationIsToldInEnvoysWords() {
    // Two listeners on one port.
    Endpoint same = new Endpoint("127.0.0.1", Ports.free());
    EnvoyBootstrap bootstrap =
        EnvoyBootstrap.builder()
            .listen(same)
            .plainListen(same)
            .admin(same)
            .workers(List.of(new Endpoint("127.0.0.1", 1)))
            .build();

    assertThatExceptionOfType(IOException.class)
        .isThrownBy(() -> EnvoyProcess.start(LocalTools.find(), bootstrap))
        .withMessageContaining("before it was ready")
        .withMessageContaining(same.toString());
  }

  private static EnvoyBootstrap bootstrap(List<Endpoint> workers) {
    return EnvoyBootstrap.builder()
        .listen(new Endpoint("127.0.0.1", Ports.free()))
        .plainListen(new Endpoint("127.0.0.1", Ports.free()))
        .admin(new Endpoint("127.0.0.1", Ports.free()))
        .extProc(new Endpoint("127.0.0.1", Ports.free()))
        .workers(workers)
        .build();
  }

  private Endpoint echoWorker(String name) throws IOException {
    EchoWorker worker = new EchoWorker(name, 200);
    workers.add(worker);
    return worker.endpoint();
  }

  private HttpResponse<String> post(Endpoint endpoint, String body)
      throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(uri(endpoint)).POST(BodyPublishers.ofString(body)).build();
    return client.send(request, BodyHandlers.ofString());
  }

  private static URI uri(Endpoint endpoint) {
    return URI.create("http://" + endpoint + "/v1/completions");
  }
}
