// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.startup;

import io.kvoy.bench.overhead.TrainingLoad;
import io.kvoy.e2e.env.EnvoyProcess;
import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.Ports;
import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;

/**
 * {@code bin/kvoy-server} from its start to ready, with a tokenizer and two workers, with and
 * without the ahead-of-time cache (JEP 483, 514, 515); and the training run that makes the cache.
 *
 * <pre>
 * make aot         # trains: the cache lies beside the server's jar and bin/kvoy-server takes it
 * make start-up    # measures
 * </pre>
 */
public final class StartUp {
  private static final String HELP =
      """
      How long bin/kvoy-server takes to be ready, and in how much memory.

        make start-up [ARGS="OPTION VALUE ..."]

        --runs N             starts of each kind (5)
        --jvm "OPTION ..."   added to the options of bin/kvoy-server; a cache serves the garbage collector
                             that it was trained with
        --train              make the AOT cache instead; what make aot does
        --help
      """;

  private static final Duration READY = Duration.ofMinutes(2);

  private final Path root;
  private final Path cache;
  private final String jvm;
  private final List<InstantWorker> workers = new ArrayList<>();
  private final Path folder;

  private StartUp(Path root, String jvm) throws IOException {
    this.root = root;
    this.jvm = jvm;
    cache = root.resolve("ext-proc-server/target/kvoy-ext-proc-server.aot");
    folder = Files.createTempDirectory("kvoy-start-up-");
    workers.add(InstantWorker.forLoad(0));
    workers.add(InstantWorker.forLoad(0));
  }

  /**
   * One start.
   *
   * @param aliveMillis until the admin page answers
   * @param readyMillis until the server says that it is ready
   * @param cpuMillis used until then
   * @param residentMiB then
   */
  private record Start(
      double aliveMillis, double readyMillis, double cpuMillis, double residentMiB) {}

  private record DoorPorts(int extProc, int reports, int admin) {
    static DoorPorts free() {
      return new DoorPorts(Ports.free(), Ports.free(), Ports.free());
    }
  }

  public static void main(String[] args) throws IOException, InterruptedException {
    int runs = 5;
    boolean trains = false;
    String jvm = "";
    for (int i = 0; i < args.length; i++) {
      switch (args[i]) {
        case "--runs" -> runs = Integer.parseInt(args[++i]);
        case "--jvm" -> jvm = args[++i];
        case "--train" -> trains = true;
        case "--help" -> {
          System.out.print(HELP);
          return;
        }
        default -> {
          System.err.println("start-up: no option " + args[i] + "; see --help");
          System.exit(2);
        }
      }
    }
    Path root = Path.of("").toAbsolutePath();
    StartUp startUp = new StartUp(root, jvm);
    try {
      if (trains) {
        startUp.train();
      } else {
        startUp.measure(Math.clamp(runs, 1, 100));
      }
    } finally {
      startUp.close();
    }
    // Event loops of the workers would keep this JVM for a moment.
    System.exit(0);
  }

  private void measure(int runs) throws IOException, InterruptedException {
    System.out.println("| start | alive ms | ready ms | CPU ms until ready | resident MiB |");
    System.out.println("| --- | --- | --- | --- | --- |");
    row("without AOT cache", "-XX:AOTMode=off", runs);
    if (Files.exists(cache)) {
      row("with AOT cache (" + (Files.size(cache) >> 20) + " MiB)", "", runs);
    } else {
      System.err.println("start-up: no AOT cache, see make aot");
    }
  }

  private void row(String name, String more, int runs) throws IOException, InterruptedException {
    List<Start> starts = new ArrayList<>();
    for (int i = 0; i <= runs; i++) {
      System.err.printf("start-up: %s, %d of %d%n", name, i, runs);
      Start start = start(more);
      if (i > 0) {
        // The first one brings the files into memory.
        starts.add(start);
      }
    }
    System.out.printf(
        Locale.ROOT,
        "| %s | %.0f | %.0f | %.0f | %.0f |%n",
        name,
        median(starts.stream().mapToDouble(Start::aliveMillis).toArray()),
        median(starts.stream().mapToDouble(Start::readyMillis).toArray()),
        median(starts.stream().mapToDouble(Start::cpuMillis).toArray()),
        median(starts.stream().mapToDouble(Start::residentMiB).toArray()));
  }

  private static double median(double[] values) {
    Arrays.sort(values);
    return values[values.length / 2];
  }

  private Start start(String more) throws IOException, InterruptedException {
    DoorPorts ports = DoorPorts.free();
    long begun = System.nanoTime();
    try (KvoyProcess kvoy = process(ports, more)) {
      double alive = millisSince(begun);
      kvoy.awaitReady(READY);
      double ready = millisSince(begun);
      return new Start(
          alive,
          ready,
          TrainingLoad.cpuNanos(kvoy.pid()) / 1e6,
          TrainingLoad.residentMiB(kvoy.pid()));
    }
  }

  private static double millisSince(long nanos) {
    return (System.nanoTime() - nanos) / 1e6;
  }

  private KvoyProcess process(DoorPorts ports, String more)
      throws IOException, InterruptedException {
    Path config = Files.writeString(folder.resolve("kvoy.yaml"), config(ports));
    return KvoyProcess.start(
        List.of(root.resolve("bin/kvoy-server").toString()),
        Map.of("KVOY_JAVA_OPTS", (jvm + " " + more).strip()),
        config,
        ports.admin(),
        folder.resolve("kvoy.log"));
  }

  /** What a server does in its first minute, so that its classes and profiles are in the cache. */
  private void train() throws IOException, InterruptedException {
    Files.deleteIfExists(cache);
    DoorPorts ports = DoorPorts.free();
    Endpoint listen = new Endpoint("127.0.0.1", Ports.free());
    EnvoyBootstrap bootstrap =
        EnvoyBootstrap.builder()
            .listen(listen)
            .admin(new Endpoint("127.0.0.1", Ports.free()))
            .extProc(new Endpoint("127.0.0.1", ports.extProc()))
            .reports(new Endpoint("127.0.0.1", ports.reports()))
            .workers(workers.stream().map(InstantWorker::endpoint).toList())
            .build();
    System.err.println("aot: training run, about 30 s");
    KvoyProcess kvoy = process(ports, "-XX:AOTCacheOutput=" + cache);
    try (EnvoyProcess envoy = EnvoyProcess.start(LocalTools.find(), bootstrap)) {
      kvoy.awaitReady(READY);
      TrainingLoad.run(new InetSocketAddress(listen.host(), listen.port()), Duration.ofSeconds(20));
      System.err.println("aot: picks made: " + (long) kvoy.metric("kvoy_picks_total", ""));
      if (!envoy.isAlive()) {
        throw new IOException("Envoy ended:\n" + envoy.logTail());
      }
    } finally {
      // The cache is put together when the process ends.
      kvoy.terminate();
      if (!kvoy.awaitEnd(Duration.ofMinutes(3))) {
        kvoy.close();
      }
    }
    if (!Files.exists(cache)) {
      throw new IOException("no cache was written; the server's last words:\n" + kvoy.logTail(20));
    }
    System.err.printf("aot: %s, %d MiB%n", root.relativize(cache), Files.size(cache) >> 20);
  }

  private String config(DoorPorts ports) {
    StringBuilder yaml =
        new StringBuilder(
            """
            apiVersion: inference.kvoy.io/v1alpha1
            kind: KvoyConfig
            spec:
              listen: {extProc: %d, health: "off", admin: %d, reports: %d, xds: "off", inferenceHandler: "off"}
              parity: {samplesPerMinute: 0}
            ---
            apiVersion: inference.kvoy.io/v1alpha1
            kind: ModelPool
            metadata: {name: pool}
            spec:
              models: [m]
              tokenizer: %s
              healthInterval: 200ms
              workers:
            """
                .formatted(
                    ports.extProc(),
                    ports.admin(),
                    ports.reports(),
                    LocalTools.find().tokenizer("qwen3")));
    workers.forEach(worker -> yaml.append("  - {address: \"%s\"}\n".formatted(worker.endpoint())));
    return yaml.toString();
  }

  private void close() throws IOException {
    workers.forEach(InstantWorker::close);
    try (Stream<Path> files = Files.list(folder)) {
      for (Path file : files.toList()) {
        Files.delete(file);
      }
    }
    Files.delete(folder);
  }
}
