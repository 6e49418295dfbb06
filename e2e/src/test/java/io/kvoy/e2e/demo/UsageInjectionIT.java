// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.e2e.env.EnvoyProcess;
import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.Ports;
import io.kvoy.e2e.env.Scratch;
import io.kvoy.e2e.sim.EngineOptions;
import io.kvoy.e2e.sim.FolderSimTokenizer;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Usage that Kvoy asks for and hides again, through a real Envoy in each mode that allows it, on a
 * simulated worker that writes streams as vLLM 0.32 does.
 */
final class UsageInjectionIT {
  private static final String MODEL = "rig-qwen3";

  private static LocalTools tools;
  private static Path folder;
  private static SimStageWorker worker;
  private static KvoyProcess kvoy;
  private static int extProcPort;

  @BeforeAll
  static void start() throws IOException, InterruptedException {
    tools = LocalTools.find();
    folder = Files.createTempDirectory("kvoy-usage-");
    worker =
        SimStageWorker.start(
            "sim-0",
            MODEL,
            FolderSimTokenizer.load(tools.tokenizer("qwen3"), "<|im_end|>"),
            EngineOptions.DEFAULTS,
            11);
    extProcPort = Ports.free();
    int adminPort = Ports.free();
    Path config = folder.resolve("kvoy.yaml");
    Files.writeString(
        config,
        StageConfig.yaml(
                MODEL,
                tools.tokenizer("qwen3"),
                List.of(worker),
                extProcPort,
                Ports.free(),
                adminPort,
                Ports.free())
            .replace("  healthInterval:", "  injectUsage: true\n  healthInterval:"));
    kvoy = KvoyProcess.start(config, adminPort, folder.resolve("kvoy.log"));
    kvoy.awaitReady(Duration.ofSeconds(60));
  }

  @AfterAll
  static void stop() throws IOException {
    if (kvoy != null) {
      kvoy.close();
    }
    if (worker != null) {
      worker.close();
    }
    Scratch.delete(folder);
  }

  @ParameterizedTest
  @CsvSource({
    "FULL_DUPLEX_STREAMED, FULL_DUPLEX_STREAMED",
    "FULL_DUPLEX_STREAMED, STREAMED",
    "BUFFERED, FULL_DUPLEX_STREAMED",
    "BUFFERED, STREAMED"
  })
  void HDR_03_BODY_03_theWorkerIsAskedAndTheClientSeesWhatTheWorkerWouldHaveSent(
      RequestBodyMode requests, ResponseBodyMode answers) throws Exception {
    Endpoint door = new Endpoint("127.0.0.1", Ports.free());
    EnvoyBootstrap bootstrap =
        EnvoyBootstrap.builder()
            .listen(door)
            .admin(new Endpoint("127.0.0.1", Ports.free()))
            .extProc(new Endpoint("127.0.0.1", extProcPort))
            .workers(List.of(worker.endpoint()))
            .requestBody(requests)
            .responseBody(answers)
            .build();
    URI through = URI.create("http://" + door);
    URI direct = URI.create("http://" + worker.endpoint());
    try (EnvoyProcess envoy = EnvoyProcess.start(tools, bootstrap)) {
      awaitDoor(through, envoy);
      for (int padding : new int[] {1, 3_000}) {
        String chat =
            """
            {"model":"rig-qwen3","messages":[{"role":"user","content":"%s"}],
             "stream":true,"max_tokens":20,"temperature":0,"ignore_eos":true}"""
                .formatted("word ".repeat(padding));
        String text =
            "{\"model\":\"rig-qwen3\",\"prompt\":\"%s\",\"stream\":true,\"max_tokens\":20}"
                .formatted("word ".repeat(padding));
        assertSame(through, direct, "/v1/chat/completions", chat);
        assertSame(through, direct, "/v1/completions", text);
      }
      assertThat(envoy.isAlive()).isTrue();
    }
  }

  private static void assertSame(URI through, URI direct, String path, String body)
      throws Exception {
    String wanted = post(direct, path, body, false);
    assertThat(wanted).contains("[DONE]").doesNotContain("\"usage\":{");
    double hidden = kvoy.metric("kvoy_usage_injected_total", "hidden");
    for (boolean zipped : new boolean[] {false, true}) {
      String seen = post(through, path, body, zipped);
      assertThat(sha256(seen)).as("%s%n%s", wanted, seen).isEqualTo(sha256(wanted));
    }
    assertThat(kvoy.metric("kvoy_usage_injected_total", "hidden")).isEqualTo(hidden + 2);
  }

  private static String post(URI base, String path, String body, boolean zipped) throws Exception {
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    HttpRequest.Builder request =
        HttpRequest.newBuilder(base.resolve(path))
            .timeout(Duration.ofSeconds(30))
            .header("content-type", "application/json");
    if (zipped) {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      try (GZIPOutputStream gzip = new GZIPOutputStream(out)) {
        gzip.write(bytes);
      }
      bytes = out.toByteArray();
      request.header("content-encoding", "gzip");
    }
    try (HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()) {
      HttpResponse<String> response =
          http.send(
              request.POST(HttpRequest.BodyPublishers.ofByteArray(bytes)).build(),
              HttpResponse.BodyHandlers.ofString());
      assertThat(response.statusCode()).as(response.body()).isEqualTo(200);
      return response
          .body()
          .replaceAll("\"id\":\"[^\"]*\"", "\"id\":\"\"")
          .replaceAll("\"created\":[0-9]+", "\"created\":0");
    }
  }

  /** Envoy is up before it has probed Kvoy. */
  private static void awaitDoor(URI through, EnvoyProcess envoy) throws Exception {
    String body = "{\"model\":\"rig-qwen3\",\"prompt\":\"a\",\"max_tokens\":1}";
    for (int i = 0; i < 200; i++) {
      try (HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build()) {
        HttpResponse<String> response =
            http.send(
                HttpRequest.newBuilder(through.resolve("/v1/completions"))
                    .timeout(Duration.ofSeconds(10))
                    .header("content-type", "application/json")
                    .POST(HttpRequest.BodyPublishers.ofString(body))
                    .build(),
                HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() == 200
            && response.headers().firstValue("x-kvoy-decision-id").isPresent()) {
          return;
        }
      }
      Thread.sleep(100);
    }
    throw new AssertionError("no answer through Envoy and Kvoy: " + envoy.logTail());
  }

  private static String sha256(String text) throws Exception {
    return HexFormat.of()
        .formatHex(
            MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)));
  }
}
