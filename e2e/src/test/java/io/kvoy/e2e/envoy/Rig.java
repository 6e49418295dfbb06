// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import io.kvoy.e2e.env.EnvoyProcess;
import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.Ports;
import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.XdsBootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.KvoyServer;
import io.kvoy.server.admin.Readiness;
import io.kvoy.server.config.ConfigLoader;
import io.kvoy.server.config.ConfigResult;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Workers, a Kvoy server in this JVM and any number of Envoys in front of it, all on loopback.
 * {@link #close} stops everything, also after a failed start.
 */
final class Rig implements AutoCloseable {
  static final String CHAT =
      "{\"model\":\"m\",\"stream\":%s,\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}";

  final List<InstantWorker> workers = new ArrayList<>();
  final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  final Path folder;
  final Path configFile;
  private final int extProcPort = Ports.free();
  private final int reportsPort = Ports.free();
  private final int adminPort = Ports.free();
  private final int healthPort = Ports.free();
  private final List<EnvoyProcess> envoys = new ArrayList<>();
  private final int xdsPort = Ports.free();
  private final String moreConfig;

  /** Between two health checks of a worker; counts when the configuration is written. */
  String healthInterval = "100ms";

  /** More fields below {@code spec} of the pool; counts when the configuration is written. */
  String morePool = "";

  /** Whether Kvoy configures Envoys; set before the start. */
  boolean servesXds;

  private @Nullable KvoyServer kvoy;

  /** Workers alone, and the configuration file. */
  Rig(int workerCount, String moreConfig) throws IOException {
    this.moreConfig = moreConfig;
    folder = Files.createTempDirectory("kvoy-rig-");
    for (int i = 0; i < workerCount; i++) {
      workers.add(InstantWorker.start());
    }
    configFile = folder.resolve("kvoy.yaml");
    writeConfig(workers);
  }

  /** Workers and a ready Kvoy. */
  static Rig start(int workerCount) throws IOException, InterruptedException {
    return start(workerCount, "");
  }

  /** The same with more fields below {@code spec} of the KvoyConfig document. */
  static Rig start(int workerCount, String moreConfig) throws IOException, InterruptedException {
    Rig rig = new Rig(workerCount, moreConfig);
    try {
      rig.startKvoy();
      return rig;
    } catch (IOException | InterruptedException | RuntimeException e) {
      rig.close();
      throw e;
    }
  }

  /** Writes the file that Kvoy watches, with these workers as its fleet. */
  void writeConfig(List<InstantWorker> fleet) throws IOException {
    StringBuilder yaml =
        new StringBuilder(
            """
            apiVersion: inference.kvoy.io/v1alpha1
            kind: KvoyConfig
            metadata: {name: rig}
            spec:
              listen: {extProc: %d, health: %d, admin: %d, reports: %d, xds: %s, inferenceHandler: "off"}
              feedback: {responseHeaders: true}
            %s
            ---
            apiVersion: inference.kvoy.io/v1alpha1
            kind: ModelPool
            metadata: {name: pool}
            spec:
              models: [m]
              healthInterval: %s
            %s
              workers:
            """
                .formatted(
                    extProcPort,
                    healthPort,
                    adminPort,
                    reportsPort,
                    servesXds ? Integer.toString(xdsPort) : "\"off\"",
                    moreConfig.indent(2),
                    healthInterval,
                    morePool.indent(2)));
    for (InstantWorker worker : fleet) {
      yaml.append(
          "  - {name: \"w%d\", address: \"%s\"}\n"
              .formatted(workers.indexOf(worker), worker.endpoint()));
    }
    Path fresh = Files.writeString(folder.resolve("fresh.yaml"), yaml);
    Files.move(
        fresh,
        configFile,
        java.nio.file.StandardCopyOption.REPLACE_EXISTING,
        java.nio.file.StandardCopyOption.ATOMIC_MOVE);
  }

  void startKvoy() throws IOException, InterruptedException {
    kvoy =
        switch (ConfigLoader.load(configFile, ConfigLoader.FileCheck.IGNORE)) {
          case ConfigResult.Rejected rejected -> throw new IllegalStateException(rejected.text());
          case ConfigResult.Loaded loaded -> KvoyServer.start(loaded.file());
        };
    awaitReady();
  }

  private void awaitReady() throws InterruptedException {
    long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
    while (!(kvoy().readiness() instanceof Readiness.Ready)) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("not ready: " + kvoy().readiness());
      }
      Thread.sleep(20);
    }
  }

  /** A small Kvoy process of its own would be killed; here it is closed at once. */
  void stopKvoy() {
    if (kvoy != null) {
      kvoy.close();
      kvoy = null;
    }
  }

  KvoyServer kvoy() {
    if (kvoy == null) {
      throw new IllegalStateException("Kvoy is not started");
    }
    return kvoy;
  }

  /** Options of a bootstrap for this rig. */
  EnvoyBootstrap.Builder bootstrap() {
    return EnvoyBootstrap.builder()
        .listen(new Endpoint("127.0.0.1", Ports.free()))
        .admin(new Endpoint("127.0.0.1", Ports.free()))
        .extProc(new Endpoint("127.0.0.1", extProcPort))
        .reports(new Endpoint("127.0.0.1", reportsPort))
        .failOpen(false)
        .workers(workers.stream().map(InstantWorker::endpoint).toList());
  }

  /** Starts an Envoy and waits until it has seen Kvoy healthy. */
  EnvoyBootstrap envoy(UnaryOperator<EnvoyBootstrap.Builder> options)
      throws IOException, InterruptedException {
    EnvoyBootstrap bootstrap = options.apply(bootstrap()).build();
    return envoy(bootstrap, bootstrap.toJson());
  }

  /**
   * The same with a configuration that was changed afterwards.
   *
   * @param json what Envoy gets
   */
  EnvoyBootstrap envoy(EnvoyBootstrap bootstrap, String json)
      throws IOException, InterruptedException {
    EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), json, bootstrap.admin());
    envoys.add(envoy);
    long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
    while (kvoy != null && envoy.stat("cluster.kvoy.membership_healthy") == 0) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("Envoy does not see Kvoy: " + envoy.logTail());
      }
      Thread.sleep(20);
    }
    return bootstrap;
  }

  /** Starts an Envoy that gets everything from Kvoy. */
  EnvoyProcess envoyOverXds(XdsBootstrap.Protocol protocol)
      throws IOException, InterruptedException {
    EnvoyProcess envoy =
        EnvoyProcess.start(
            LocalTools.find(),
            new XdsBootstrap(
                new Endpoint("127.0.0.1", Ports.free()),
                new Endpoint("127.0.0.1", xdsPort),
                "rig",
                protocol,
                Optional.empty()));
    envoys.add(envoy);
    return envoy;
  }

  /** The newest Envoy. */
  EnvoyProcess lastEnvoy() {
    return envoys.getLast();
  }

  int adminPort() {
    return adminPort;
  }

  int extProcPort() {
    return extProcPort;
  }

  HttpResponse<String> chat(EnvoyBootstrap door, boolean stream, String how) throws Exception {
    return http.send(chatRequest(door, stream, how), HttpResponse.BodyHandlers.ofString());
  }

  static HttpRequest chatRequest(EnvoyBootstrap door, boolean stream, String how) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create("http://" + door.listen() + "/v1/chat/completions"))
            .timeout(Duration.ofSeconds(30))
            .header("content-type", "application/json");
    if (!how.isEmpty()) {
      request.header(InstantWorker.DO, how);
    }
    return request
        .POST(HttpRequest.BodyPublishers.ofString(CHAT.formatted(stream, "hello")))
        .build();
  }

  /** All text of an admin page of Kvoy. */
  String admin(String path) throws IOException, InterruptedException {
    return http.send(
            HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + adminPort + path))
                .timeout(Duration.ofSeconds(10))
                .build(),
            HttpResponse.BodyHandlers.ofString())
        .body();
  }

  /** A sample of Kvoy's metrics, summed over all series whose labels contain the text. */
  double metric(String name, String labelText) throws IOException, InterruptedException {
    double sum = 0;
    try (Stream<String> lines = admin("/metrics").lines()) {
      for (String line : (Iterable<String>) lines::iterator) {
        if ((line.startsWith(name + "{") || line.startsWith(name + " "))
            && line.contains(labelText)) {
          sum += Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1));
        }
      }
    }
    return sum;
  }

  int requestsAtWorkers() {
    return workers.stream().mapToInt(InstantWorker::requests).sum();
  }

  @Override
  public void close() throws IOException {
    for (EnvoyProcess envoy : envoys) {
      envoy.close();
    }
    stopKvoy();
    workers.forEach(InstantWorker::close);
    http.shutdownNow();
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(file);
      }
    }
  }
}
