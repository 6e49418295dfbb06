// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.netty.NettyChannelBuilder;
import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.e2e.env.Ports;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.ExtProcTls;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.InputStream;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.X509Certificate;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Kvoy where another endpoint picker was: a chart's arguments, certificates, an empty pool. */
final class DropInIT {
  @TempDir Path folder;

  @Test
  void HA_03_newCertificateIsUsedForNewConnectionsAndRunningStreamsGoOn() throws Exception {
    Certificates certificates = new Certificates(folder.resolve("certs"));
    Path first = certificates.make();
    Path second = certificates.make();
    certificates.use(first);
    try (Rig rig =
        Rig.start(
            2, "tls: {certificateFolder: " + folder.resolve("certs") + ", checkFiles: 100ms}")) {
      EnvoyBootstrap door =
          rig.envoy(
              options -> options.extProcTls(new ExtProcTls(first.toString(), Certificates.NAME)));
      HttpResponse<InputStream> running =
          rig.http.send(
              Rig.chatRequest(door, true, "stream first=50 chunks=400 gap=40"),
              HttpResponse.BodyHandlers.ofInputStream());
      assertThat(running.body().read()).isNotNegative();

      certificates.use(second);
      await()
          .atMost(Duration.ofSeconds(10))
          .until(() -> rig.metric("kvoy_tls_reloads_total", "result=\"ok\"") == 1);

      // Believes the new one alone: it connects, so that is what it was shown.
      EnvoyBootstrap later =
          rig.envoy(
              options -> options.extProcTls(new ExtProcTls(second.toString(), Certificates.NAME)));
      assertThat(rig.chat(later, false, "").statusCode()).isEqualTo(200);
      assertThat(rig.metric("kvoy_ext_proc_streams", "")).isEqualTo(1);
      String rest = new String(running.body().readAllBytes(), StandardCharsets.UTF_8);
      assertThat(rest).endsWith("[DONE]\n\n");
      assertThat(rig.chat(door, false, "").statusCode())
          .as("an open connection goes on")
          .isEqualTo(200);
      assertThat(rig.metric("kvoy_tls_certificate_seconds_left", "")).isPositive();
    }
  }

  @Test
  void startsWithTheArgumentsOfAChartAndIsWhatGatewaysExpect() throws Exception {
    try (Rig rig = new Rig(2, "")) {
      int extProc = Ports.free();
      int health = Ports.free();
      int metrics = Ports.free();
      List<String> arguments =
          List.of(
              "--pool-name",
              "vllm-qwen3",
              "--pool-namespace",
              "default",
              "--pool-group",
              "inference.networking.k8s.io",
              "--v",
              "1",
              "--zap-encoder",
              "json",
              "--grpc-port",
              Integer.toString(extProc),
              "--grpc-health-port",
              Integer.toString(health),
              "--metrics-port",
              Integer.toString(metrics),
              "--tracing=false",
              "--metrics-endpoint-auth=false",
              "--ha-enable-leader-election");
      Path log = rig.folder.resolve("kvoy.log");
      try (KvoyProcess kvoy =
          KvoyProcess.start(
              arguments, Map.of("KVOY_CONFIG", rig.configFile.toString()), metrics, log)) {
        kvoy.awaitReady(Duration.ofSeconds(60));
        assertThat(Files.readString(log)).contains("flag --zap-encoder has no effect");
        checkHealthServices(health);
        // Self-signed: whoever wants to verify it must have seen it.
        Path seen =
            Files.writeString(
                folder.resolve("seen.pem"),
                Certificates.pem("CERTIFICATE", shown(extProc).getEncoded()));
        EnvoyBootstrap door =
            rig.envoy(
                options ->
                    options
                        .extProc(new Endpoint("127.0.0.1", extProc))
                        .extProcTls(new ExtProcTls(seen.toString(), "localhost"))
                        // As gateways that speak the protocol to the letter.
                        .requestBody(RequestBodyMode.FULL_DUPLEX_STREAMED)
                        .responseBody(ResponseBodyMode.FULL_DUPLEX_STREAMED));
        await()
            .atMost(Duration.ofSeconds(20))
            .until(() -> rig.lastEnvoy().stat("cluster.kvoy.membership_healthy") == 1);
        HttpResponse<String> answer = rig.chat(door, true, "stream first=10 chunks=3 gap=5");
        assertThat(answer.statusCode()).as(rig.lastEnvoy().logTail()).isEqualTo(200);
        assertThat(answer.body()).endsWith("[DONE]\n\n");
        assertThat(kvoy.metric("kvoy_picks_total", "")).isEqualTo(1);
      }
    }
  }

  private static void checkHealthServices(int port) throws InterruptedException {
    ManagedChannel channel =
        NettyChannelBuilder.forAddress("127.0.0.1", port).usePlaintext().build();
    try {
      HealthGrpc.HealthBlockingStub health =
          HealthGrpc.newBlockingStub(channel).withDeadlineAfter(10, TimeUnit.SECONDS);
      for (String service :
          List.of("", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor")) {
        assertThat(
                health
                    .check(HealthCheckRequest.newBuilder().setService(service).build())
                    .getStatus())
            .as(service)
            .isEqualTo(HealthCheckResponse.ServingStatus.SERVING);
      }
      assertThatThrownBy(
              () -> health.check(HealthCheckRequest.newBuilder().setService("other").build()))
          .isInstanceOf(StatusRuntimeException.class)
          .hasMessageContaining("NOT_FOUND");
    } finally {
      channel.shutdownNow().awaitTermination(5, TimeUnit.SECONDS);
    }
  }

  private static X509Certificate shown(int port) throws Exception {
    AtomicReference<X509Certificate> seen = new AtomicReference<>();
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(
        null,
        new TrustManager[] {
          new X509TrustManager() {
            @Override
            public void checkClientTrusted(X509Certificate[] chain, String type) {}

            @Override
            public void checkServerTrusted(X509Certificate[] chain, String type) {
              seen.set(chain[0]);
            }

            @Override
            public X509Certificate[] getAcceptedIssuers() {
              return new X509Certificate[0];
            }
          }
        },
        null);
    try (SSLSocket socket =
        (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", port)) {
      socket.startHandshake();
    }
    return seen.get();
  }

  @Test
  void DISC_01_emptyPoolIsAnswered503AtOnce() throws Exception {
    try (Rig rig = Rig.start(2)) {
      EnvoyBootstrap door = rig.envoy(options -> options);
      assertThat(rig.chat(door, false, "").statusCode()).isEqualTo(200);
      rig.workers.forEach(worker -> worker.health(503));
      await()
          .atMost(Duration.ofSeconds(10))
          .until(() -> rig.metric("kvoy_worker_health", "state=\"ready\"") == 0);

      long quickest = Long.MAX_VALUE;
      for (int i = 0; i < 10; i++) {
        long start = System.nanoTime();
        HttpResponse<String> answer = rig.chat(door, false, "");
        quickest = Math.min(quickest, System.nanoTime() - start);
        assertThat(answer.statusCode()).isEqualTo(503);
        assertThat(answer.headers().firstValue("retry-after")).isPresent();
        assertThat(answer.headers().firstValue("content-type")).contains("application/json");
        assertThat(answer.body()).startsWith("{\"error\":{").contains("\"message\":\"No worker");
      }
      assertThat(Duration.ofNanos(quickest)).isLessThan(Duration.ofMillis(100));
    }
  }

  @ParameterizedTest
  @EnumSource(value = RequestBodyMode.class, mode = EnumSource.Mode.EXCLUDE, names = "STREAMED")
  void DISC_02_requestsWaitForTheFirstReadyWorker(RequestBodyMode mode) throws Exception {
    try (Rig rig = new Rig(1, "")) {
      rig.morePool = "queue: {timeout: 25s, maxWaiting: 6}";
      rig.writeConfig(rig.workers);
      rig.workers.getFirst().health(503);
      rig.startKvoy();
      EnvoyBootstrap door = rig.envoy(options -> options.requestBody(mode));
      List<CompletableFuture<HttpResponse<String>>> answers = new ArrayList<>();
      for (int i = 0; i < 6; i++) {
        answers.add(
            rig.http.sendAsync(
                Rig.chatRequest(door, i % 2 == 0, ""), HttpResponse.BodyHandlers.ofString()));
      }
      awaitWaiting(rig, 6);
      assertThat(rig.chat(door, false, "").statusCode()).as("the queue is full").isEqualTo(429);

      answers.removeFirst().cancel(true);
      awaitWaiting(rig, 5);
      assertThat(rig.metric("kvoy_queue_wait_seconds_count", "result=\"left\"")).isEqualTo(1);
      rig.workers.getFirst().health(200);

      for (CompletableFuture<HttpResponse<String>> answer : answers) {
        assertThat(answer.get(30, TimeUnit.SECONDS).statusCode()).isEqualTo(200);
      }
      assertThat(rig.requestsAtWorkers()).isEqualTo(5);
      assertThat(rig.metric("kvoy_queue_wait_seconds_count", "result=\"placed\"")).isEqualTo(5);
    }
  }

  @Test
  void DISC_02_whoHasWaitedLongEnoughIsAnswered503() throws Exception {
    try (Rig rig = new Rig(1, "")) {
      rig.morePool = "queue: {timeout: 300ms}";
      rig.writeConfig(rig.workers);
      rig.workers.getFirst().health(503);
      rig.startKvoy();
      EnvoyBootstrap door = rig.envoy(options -> options);

      HttpResponse<String> answer = rig.chat(door, false, "");

      assertThat(answer.statusCode()).isEqualTo(503);
      assertThat(answer.headers().firstValue("retry-after")).isPresent();
      assertThat(answer.headers().firstValue("x-llm-d-request-dropped-reason"))
          .contains("rejected-ttl-expired");
      assertThat(answer.body()).startsWith("{\"error\":{").contains("in time");
      assertThat(rig.requestsAtWorkers()).isZero();
    }
  }

  private static void awaitWaiting(Rig rig, int requests) {
    await()
        .atMost(Duration.ofSeconds(10))
        .until(() -> rig.metric("kvoy_queue_length", "") == requests);
  }
}
