// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.overhead;

import io.kvoy.bench.overhead.HttpLoad.Result;
import io.kvoy.bench.overhead.OverheadRig.Doors;
import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.e2e.env.LocalTools;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.tokenizer.bpe.BpeFileRead;
import io.kvoy.tokenizer.bpe.BpeFileReader;
import io.kvoy.tokenizer.files.FolderRead;
import io.kvoy.tokenizer.files.TokenizerFolderReader;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;

/**
 * What Kvoy adds to a request: one real Envoy with two doors, one past Kvoy and one through it, in
 * front of workers that answer at once.
 *
 * <p>Prints two Markdown tables: requests by size and kind of prompt and by number of clients, and
 * streams by length and by the way of the answer. CPU per request is that of Envoy's and Kvoy's
 * processes, the harness's own (clients and workers) is shown beside. Progress goes to standard
 * error. {@code --help} lists the options:
 *
 * <pre>
 * make overhead ARGS="--tokens 200 --seconds 10"
 * </pre>
 */
public final class Overhead {
  private final OverheadOptions options;
  private final OverheadRig rig;
  private final Prompts prompts;
  private final Map<String, Cell> alone = new LinkedHashMap<>();
  private boolean profiled;

  /** One measurement. */
  private record Cell(
      Result result, ProcessCpu envoy, ProcessCpu kvoy, ProcessCpu harness, double exactShare) {
    double millisPer(ProcessCpu cpu) {
      return cpu.totalNanos() / 1e6 / Math.max(1, result.done());
    }
  }

  private Overhead(OverheadOptions options, OverheadRig rig, Prompts prompts) {
    this.options = options;
    this.rig = rig;
    this.prompts = prompts;
  }

  /** Runs it; see the class. */
  public static void main(String[] args) throws IOException, InterruptedException {
    OverheadOptions options;
    if (List.of(args).contains("--help")) {
      System.out.print(OverheadOptions.HELP);
      return;
    }
    try {
      options = OverheadOptions.parse(args);
    } catch (IllegalArgumentException wrong) {
      System.err.println("overhead: " + wrong.getMessage());
      System.exit(2);
      return;
    }
    List<String> jvm = options.jvm().isEmpty() ? serverOptions() : options.jvm();
    Prompts prompts = prompts(options);
    try (OverheadRig rig = new OverheadRig(options, jvm)) {
      new Overhead(options, rig, prompts).run(jvm, System.out);
    }
    // Event loops of the workers would keep this JVM for a moment.
    System.exit(0);
  }

  /** What {@code bin/kvoy-server} starts the JVM with. */
  private static List<String> serverOptions() {
    return List.of("@" + repository().resolve("tools/kvoy-server.jvm"));
  }

  private static Path repository() {
    Path folder = Path.of("").toAbsolutePath();
    while (!Files.exists(folder.resolve("Makefile"))) {
      Path parent = folder.getParent();
      if (parent == null) {
        throw new IllegalStateException("to be run inside the repository");
      }
      folder = parent;
    }
    return folder;
  }

  private static Prompts prompts(OverheadOptions options) throws IOException {
    String text = repositoryText();
    Path folder = LocalTools.find().tokenizer(options.tokenizer());
    if (!(TokenizerFolderReader.read(folder) instanceof FolderRead.Complete(var read))
        || !(BpeFileReader.read(read) instanceof BpeFileRead.Supported(var encoder))) {
      throw new IllegalStateException("tokenizer " + options.tokenizer() + " cannot be read");
    }
    int[] ids = encoder.encode(text, false);
    if (ids == null) {
      throw new IllegalStateException("the text cannot be encoded");
    }
    return new Prompts(text, (double) text.length() / ids.length);
  }

  /** The documents and sources of this repository: English and code, as agents send it. */
  private static String repositoryText() throws IOException {
    Path root = repository();
    StringBuilder text = new StringBuilder();
    try (Stream<Path> files = Files.walk(root)) {
      for (Path file :
          files
              .filter(f -> f.toString().endsWith(".md") || f.toString().endsWith(".java"))
              .filter(f -> !root.relativize(f).toString().matches("(.*/)?(target|\\.local)/.*"))
              .sorted()
              .toList()) {
        text.append(Files.readString(file));
      }
    }
    return text.toString();
  }

  private void run(List<String> jvm, PrintStream out) throws IOException, InterruptedException {
    long start = System.nanoTime();
    int cells = cells();
    progress(
        "about %d s: %d cells",
        options.jit().toSeconds() + cells * options.warmUp().plus(options.measured()).toSeconds(),
        cells);
    out.printf(
        Locale.ROOT,
        "%d cores, load average %.1f at the start, JDK %s, Kvoy %s, request bodies %s%n",
        Runtime.getRuntime().availableProcessors(),
        ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage(),
        Runtime.version(),
        words(jvm),
        options.requestBody());
    boolean isWarm = false;
    for (ResponseBodyMode way : options.answers()) {
      Doors doors = rig.envoy(way);
      try (var _ = doors.envoy()) {
        if (!isWarm) {
          warmUp(doors);
          isWarm = true;
        }
        requests(way, doors, out);
      }
    }
    if (!options.chunks().isEmpty()) {
      streams(out);
    }
    out.printf(
        Locale.ROOT,
        "%nKvoy's resident memory at the end: %d MiB. Load average %.1f. %d s in all.%n",
        ProcessCpu.residentMiB(rig.kvoy().pid()),
        ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage(),
        (System.nanoTime() - start) / 1_000_000_000);
  }

  private static String words(List<String> jvm) throws IOException {
    StringBuilder all = new StringBuilder();
    for (String option : jvm) {
      if (option.startsWith("@")) {
        for (String line : Files.readAllLines(Path.of(option.substring(1)))) {
          all.append(line.startsWith("#") ? "" : line.strip() + " ");
        }
      } else {
        all.append(option).append(' ');
      }
    }
    return all.toString().strip();
  }

  private int cells() {
    int perWay =
        2 * options.tokens().size() * options.clients().size() + options.saturation().size();
    int plain = options.tokens().size() * options.clients().size() + options.saturation().size();
    return perWay * options.answers().size()
        + plain
        + options.chunks().size() * (options.streamAnswers().size() + 1);
  }

  /** All sizes and kinds, several clients: what a server has compiled after a while of traffic. */
  private void warmUp(Doors doors) throws IOException {
    int clients = 8;
    Duration each = options.jit().dividedBy(2L * options.tokens().size());
    for (int tokens : options.tokens()) {
      progress("warming up, %d tokens", tokens);
      for (Prompts.Source source :
          List.of(prompts.cold(tokens, false, ""), prompts.multiTurn(tokens, clients, false, ""))) {
        var _ = HttpLoad.run(doors.picked(), source, clients, Duration.ZERO, each, new Nothing());
      }
    }
  }

  private static final class Nothing implements HttpLoad.Window {
    @Override
    public void begins() {}

    @Override
    public void ends() {}
  }

  // ---- requests ----

  private void requests(ResponseBodyMode way, Doors doors, PrintStream out)
      throws IOException, InterruptedException {
    out.printf("%nAnswers %s%n%n", way);
    out.println(
        "| prompt | clients | alone: req/s | p50 ms | p99 ms | Envoy ms CPU "
            + "| with Kvoy: req/s | p50 ms | p99 ms | Envoy ms CPU | Kvoy ms CPU (JIT, GC) "
            + "| **CPU ms** | **added p50 ms** | added p99 ms | exact | harness ms CPU |");
    out.println("|" + " --- |".repeat(16));
    for (int tokens : options.tokens()) {
      for (int clients : options.clients()) {
        row(tokens, clients, "cold", prompts.cold(tokens, false, ""), doors, out);
        row(
            tokens,
            clients,
            "multi-turn",
            prompts.multiTurn(tokens, clients, false, ""),
            doors,
            out);
      }
    }
    for (int clients : options.saturation()) {
      int tokens = options.tokens().getFirst();
      row(tokens, clients, "cold", prompts.cold(tokens, false, ""), doors, out);
    }
  }

  private void row(
      int tokens, int clients, String kind, Prompts.Source source, Doors doors, PrintStream out)
      throws IOException, InterruptedException {
    String key = tokens + " " + clients;
    Cell plain = alone.get(key);
    if (plain == null) {
      progress("Envoy alone, %d tokens, %d clients", tokens, clients);
      plain = measure(doors.plain(), prompts.cold(tokens, false, ""), clients, doors);
      alone.put(key, plain);
    }
    progress("with Kvoy, %d tokens %s, %d clients", tokens, kind, clients);
    Cell with = measure(doors.picked(), source, clients, doors);
    Result a = plain.result();
    Result w = with.result();
    out.printf(
        Locale.ROOT,
        "| %,d %s | %d | %,.0f | %.2f | %.2f | %.3f | %,.0f | %.2f | %.2f | %.3f "
            + "| %.3f (%.3f, %.3f) | **%.3f** | **%.2f** | %.2f | %.0f %% | %.3f |%s%n",
        tokens,
        kind,
        clients,
        a.perSecond(),
        a.millis(0.5),
        a.millis(0.99),
        plain.millisPer(plain.envoy()),
        w.perSecond(),
        w.millis(0.5),
        w.millis(0.99),
        with.millisPer(with.envoy()),
        with.millisPer(with.kvoy()),
        with.kvoy().compilerNanos() / 1e6 / Math.max(1, w.done()),
        with.kvoy().collectorNanos() / 1e6 / Math.max(1, w.done()),
        with.millisPer(with.envoy()) + with.millisPer(with.kvoy()),
        w.millis(0.5) - a.millis(0.5),
        w.millis(0.99) - a.millis(0.99),
        100 * with.exactShare(),
        with.millisPer(with.harness()),
        failures(a) + failures(w));
    out.flush();
  }

  private static String failures(Result result) {
    return result.failed() == 0
        ? ""
        : " FAILED " + result.failed() + ": " + result.firstFailure() + ".";
  }

  private Cell measure(InetSocketAddress door, Prompts.Source source, int clients, Doors doors)
      throws IOException, InterruptedException {
    KvoyProcess kvoy = rig.kvoy();
    double decisions = kvoy.metric("kvoy_decisions_total", "");
    double exact = kvoy.metric("kvoy_decisions_total", "mode=\"exact\"");
    ProcessCpu[] used = new ProcessCpu[3];
    long self = ProcessHandle.current().pid();
    long[] processes = {doors.envoy().pid(), kvoy.pid(), self};
    Result result =
        HttpLoad.run(
            door,
            source,
            clients,
            options.warmUp(),
            options.measured(),
            new HttpLoad.Window() {
              @Override
              public void begins() throws IOException {
                startProfile();
                for (int i = 0; i < used.length; i++) {
                  used[i] = ProcessCpu.of(processes[i]);
                }
              }

              @Override
              public void ends() throws IOException {
                for (int i = 0; i < used.length; i++) {
                  used[i] = ProcessCpu.of(processes[i]).since(used[i]);
                }
              }
            });
    double made = kvoy.metric("kvoy_decisions_total", "") - decisions;
    double wereExact = kvoy.metric("kvoy_decisions_total", "mode=\"exact\"") - exact;
    return new Cell(result, used[0], used[1], used[2], made == 0 ? Double.NaN : wereExact / made);
  }

  /** A recording of everything measured, without the start. */
  private void startProfile() throws IOException {
    if (profiled || options.profile().isEmpty()) {
      return;
    }
    profiled = true;
    String jcmd = Path.of(System.getProperty("java.home"), "bin", "jcmd").toString();
    Process process =
        new ProcessBuilder(
                jcmd,
                Long.toString(rig.kvoy().pid()),
                "JFR.start",
                "settings=profile",
                "filename=" + Path.of(options.profile().get()).toAbsolutePath())
            .inheritIO()
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .start();
    try {
      process.waitFor();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  // ---- streams ----

  private void streams(PrintStream out) throws IOException, InterruptedException {
    out.printf(
        Locale.ROOT,
        "%nStreams, %d at once, one chunk each %d ms, prompts of 200 tokens%n%n",
        options.streamClients(),
        options.gap().toMillis());
    out.println(
        "| answers | chunks | streams/s | first byte p50 ms | p99 ms | end p50 ms "
            + "| Envoy ms CPU | Kvoy ms CPU | Envoy µs per chunk | Kvoy µs per chunk |");
    out.println("|" + " --- |".repeat(10));
    List<ResponseBodyMode> ways = new ArrayList<>(options.streamAnswers());
    Doors first = rig.envoy(ResponseBodyMode.NONE);
    try (var _ = first.envoy()) {
      streams("Envoy alone", first.plain(), first, out);
    }
    for (ResponseBodyMode way : ways) {
      Doors doors = rig.envoy(way);
      try (var _ = doors.envoy()) {
        streams(way.toString(), doors.picked(), doors, out);
      }
    }
  }

  /** Cost per chunk: what the longest streams cost more than the shortest, by chunks between. */
  private void streams(String name, InetSocketAddress door, Doors doors, PrintStream out)
      throws IOException, InterruptedException {
    List<Cell> cells = new ArrayList<>();
    for (int chunks : options.chunks()) {
      progress("streams of %d chunks, %s", chunks, name);
      String how = "stream chunks=" + chunks + " gap=" + options.gap().toMillis();
      Cell cell = measure(door, prompts.cold(200, true, how), options.streamClients(), doors);
      cells.add(cell);
      Result r = cell.result();
      boolean isLast = cells.size() == options.chunks().size() && cells.size() > 1;
      Cell shortest = cells.getFirst();
      int between = chunks - options.chunks().getFirst();
      out.printf(
          Locale.ROOT,
          "| %s | %,d | %.1f | %.2f | %.2f | %.1f | %.3f | %.3f | %s | %s |%s%n",
          name,
          chunks,
          r.perSecond(),
          r.firstByteMillis(0.5),
          r.firstByteMillis(0.99),
          r.millis(0.5),
          cell.millisPer(cell.envoy()),
          cell.millisPer(cell.kvoy()),
          isLast
              ? micros(cell.millisPer(cell.envoy()) - shortest.millisPer(shortest.envoy()), between)
              : "",
          isLast
              ? micros(cell.millisPer(cell.kvoy()) - shortest.millisPer(shortest.kvoy()), between)
              : "",
          failures(r));
      out.flush();
    }
  }

  private static String micros(double millis, int chunks) {
    return String.format(Locale.ROOT, "%.1f", 1_000 * millis / chunks);
  }

  private static void progress(String format, Object... values) {
    System.err.printf(Locale.ROOT, "overhead: " + format + "%n", values);
  }
}
