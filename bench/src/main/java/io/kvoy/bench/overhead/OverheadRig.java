// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.overhead;

import io.kvoy.e2e.env.EnvoyProcess;
import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.Ports;
import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * Workers in this process, Kvoy and Envoys in their own, all on loopback. {@link #close} stops
 * everything.
 */
final class OverheadRig implements AutoCloseable {
  private static final int WORKERS = 2;

  private final OverheadOptions options;
  private final Path folder;
  private final List<InstantWorker> workers = new ArrayList<>();
  private final int extProc = Ports.free();
  private final int reports = Ports.free();
  private final int admin = Ports.free();
  private final KvoyProcess kvoy;

  /**
   * An Envoy with both doors.
   *
   * @param plain to the workers past Kvoy
   * @param picked through Kvoy
   */
  record Doors(EnvoyProcess envoy, InetSocketAddress plain, InetSocketAddress picked) {}

  OverheadRig(OverheadOptions options, List<String> jvm) throws IOException, InterruptedException {
    this.options = options;
    folder = Files.createTempDirectory("kvoy-overhead-");
    for (int i = 0; i < WORKERS; i++) {
      workers.add(InstantWorker.forLoad(0));
    }
    Path config = Files.writeString(folder.resolve("kvoy.yaml"), config());
    KvoyProcess started = KvoyProcess.start(config, admin, folder.resolve("kvoy.log"), jvm);
    try {
      started.awaitReady(Duration.ofSeconds(90));
    } catch (IOException | InterruptedException e) {
      started.close();
      throw e;
    }
    kvoy = started;
  }

  KvoyProcess kvoy() {
    return kvoy;
  }

  private String config() {
    StringBuilder yaml =
        new StringBuilder(
            """
            apiVersion: inference.kvoy.io/v1alpha1
            kind: KvoyConfig
            spec:
              listen: {extProc: %d, health: "off", admin: %d, reports: %d, xds: "off", inferenceHandler: "off"}
              parity: {samplesPerMinute: 0}
              %s
            ---
            apiVersion: inference.kvoy.io/v1alpha1
            kind: ModelPool
            metadata: {name: pool}
            spec:
              models: [m]
              tokenizer: %s
              workers:
            """
                .formatted(
                    extProc,
                    admin,
                    reports,
                    options.kvoyMore(),
                    LocalTools.find().tokenizer(options.tokenizer())));
    for (InstantWorker worker : workers) {
      yaml.append("  - {address: \"%s\"}\n".formatted(worker.endpoint()));
    }
    return yaml.toString();
  }

  /** Starts an Envoy and waits until it has seen Kvoy healthy; the caller closes it. */
  Doors envoy(ResponseBodyMode answers) throws IOException, InterruptedException {
    Endpoint plain = new Endpoint("127.0.0.1", Ports.free());
    EnvoyBootstrap bootstrap =
        EnvoyBootstrap.builder()
            .listen(new Endpoint("127.0.0.1", Ports.free()))
            .plainListen(plain)
            .admin(new Endpoint("127.0.0.1", Ports.free()))
            .extProc(new Endpoint("127.0.0.1", extProc))
            .reports(new Endpoint("127.0.0.1", reports))
            .requestBody(options.requestBody())
            .responseBody(answers)
            .failOpen(false)
            .workers(workers.stream().map(InstantWorker::endpoint).toList())
            .build();
    EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap);
    long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
    while (envoy.stat("cluster.kvoy.membership_healthy") == 0) {
      if (System.nanoTime() > deadline) {
        String words = envoy.logTail();
        envoy.close();
        throw new IOException("Envoy does not see Kvoy; its last words:\n" + words);
      }
      Thread.sleep(50);
    }
    return new Doors(envoy, socket(plain), socket(bootstrap.listen()));
  }

  private static InetSocketAddress socket(Endpoint endpoint) {
    return new InetSocketAddress(endpoint.host(), endpoint.port());
  }

  @Override
  public void close() throws IOException {
    kvoy.close();
    workers.forEach(InstantWorker::close);
    Files.deleteIfExists(folder.resolve("kvoy.yaml"));
    Files.deleteIfExists(folder.resolve("kvoy.log"));
    Files.deleteIfExists(folder);
  }
}
