// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.load.ChatAnswer;
import io.kvoy.e2e.load.ChatClient;
import io.kvoy.e2e.load.Conversation;
import io.kvoy.e2e.load.LoadRun;
import io.kvoy.e2e.load.LoadRun.Turn;
import io.kvoy.e2e.load.Workloads;
import io.kvoy.e2e.sim.EngineOptions;
import io.kvoy.e2e.sim.FolderSimTokenizer;
import io.kvoy.e2e.sim.SimTokenizer;
import java.io.IOException;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * Shows Kvoy at work on one machine: starts workers, Kvoy and Envoy, sends the same small load by
 * round robin and through Kvoy, prints where each request went and why, and stays up to be tried by
 * hand.
 */
@Command(
    name = "demo",
    mixinStandardHelpOptions = true,
    description = "Workers, Kvoy and Envoy on this machine, and a small load through them.",
    sortOptions = false)
public final class Demo implements Callable<Integer> {
  /** What answers the requests. */
  enum WorkerKind {
    SIM,
    VLLM
  }

  /**
   * Sizes of the load; a CPU worker with a tiny model gets a smaller one.
   *
   * @param concurrency conversations at once
   */
  private record Size(
      int prefixes,
      int usersEach,
      int prefixTokens,
      int chats,
      int turns,
      int unique,
      int shortestUnique,
      int longestUnique,
      int answerTokens,
      int concurrency) {
    static final Size SIM = new Size(8, 5, 2_000, 3, 4, 8, 200, 1_500, 8, 3);
    static final Size VLLM = new Size(4, 5, 1_000, 2, 4, 4, 100, 500, 4, 2);
  }

  /**
   * A GPU of some years ago: prefill is slow enough to be seen beside the cost of this machine
   * itself.
   */
  private static final EngineOptions SIM_MACHINE =
      EngineOptions.DEFAULTS.withSpeed(3_000, 60, 0.02, 4).withCache(1_024, 16, 16_000);

  @Option(
      names = "--workers",
      defaultValue = "sim",
      description = "sim: three simulated workers. vllm: two real vLLM workers on the CPU.")
  private WorkerKind workers = WorkerKind.SIM;

  @Option(
      names = "--port",
      defaultValue = "10000",
      description = "Port of the door through Kvoy, on loopback; 0 for any. Default: 10000.")
  private int port;

  @Option(names = "--seed", defaultValue = "7", description = "Seed of the load. Default: 7.")
  private long seed;

  @Option(names = "--once", description = "End after the summary instead of staying up.")
  private boolean once;

  /** Whether the main thread waits to be told to stop. */
  private final AtomicBoolean waits = new AtomicBoolean();

  private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  public static void main(String[] args) {
    System.exit(
        new CommandLine(new Demo()).setCaseInsensitiveEnumValuesAllowed(true).execute(args));
  }

  @Override
  public Integer call() throws Exception {
    LocalTools tools = LocalTools.find();
    Path folder =
        tools
            .folder()
            .resolve("run")
            .resolve(
                DateTimeFormatter.ofPattern("yyyyMMdd-HHmmss", Locale.ROOT)
                    .format(LocalDateTime.now(java.time.ZoneId.systemDefault())));
    Files.createDirectories(folder);
    CountDownLatch stop = new CountDownLatch(1);
    CountDownLatch stopped = new CountDownLatch(1);
    Thread main = Thread.currentThread();
    Thread onSignal =
        Thread.ofPlatform()
            .unstarted(
                () -> {
                  stop.countDown();
                  // Only what does not wait for the latch is interrupted: the stopping must not be.
                  if (!waits.get()) {
                    main.interrupt();
                  }
                  try {
                    if (!stopped.await(45, java.util.concurrent.TimeUnit.SECONDS)) {
                      out.println("something did not stop in time; see " + folder);
                    }
                  } catch (InterruptedException _) {
                    Thread.currentThread().interrupt();
                  }
                });
    Runtime.getRuntime().addShutdownHook(onSignal);
    try {
      return show(tools, folder, stop);
    } catch (InterruptedException _) {
      out.println("\nstopped");
      return 130;
    } catch (IOException e) {
      out.println("\nThe demo could not go on: " + e.getMessage());
      out.println("Logs: " + folder);
      return 1;
    } finally {
      stopped.countDown();
    }
  }

  private int show(LocalTools tools, Path folder, CountDownLatch stop)
      throws IOException, InterruptedException {
    Size size = workers == WorkerKind.SIM ? Size.SIM : Size.VLLM;
    long begun = System.nanoTime();
    try (Stage stage = start(tools, folder)) {
      out.printf(
          Locale.ROOT,
          "  up after %.1f s; configuration and logs: %s%n",
          (System.nanoTime() - begun) / 1e9,
          folder);
      List<Conversation> load = load(size);
      List<Turn> plain = run("round robin", stage.plainUrl(), load, size.concurrency());
      stage.resetCaches();
      List<Turn> routed = run("Kvoy", stage.url(), load, size.concurrency());
      out.println();
      out.print(table(routed));
      out.println();
      out.print(summary(plain, routed));
      long failed = routed.stream().filter(turn -> !turn.answer().ok()).count();
      if (failed > 0) {
        out.println();
        out.println(failed + " requests failed; the first: " + firstError(routed));
      }
      if (once) {
        return failed == 0 ? 0 : 1;
      }
      invite(stage);
      waits.set(true);
      stop.await();
      out.println("\nstopping");
    }
    return 0;
  }

  private Stage start(LocalTools tools, Path folder) throws IOException, InterruptedException {
    List<StageWorker> started = new ArrayList<>();
    try {
      switch (workers) {
        case SIM -> {
          out.println("• starting 3 simulated vLLM workers");
          SimTokenizer tokenizer = FolderSimTokenizer.load(tools.tokenizer("qwen3"), "<|im_end|>");
          for (int i = 0; i < 3; i++) {
            started.add(
                SimStageWorker.start(
                    "worker-" + (char) ('a' + i), model(), tokenizer, SIM_MACHINE, seed + i));
          }
        }
        case VLLM -> {
          out.println(
              "• starting 2 real vLLM workers; on two cores this takes one to five minutes");
          for (int i = 0; i < 2; i++) {
            started.add(VllmStageWorker.launch(tools, "vllm-" + (char) ('a' + i)));
          }
          for (StageWorker worker : started) {
            ((VllmStageWorker) worker).awaitHealthy(line -> out.println("  " + line));
            out.println("  " + worker.name() + " answers");
          }
        }
        default -> throw new IllegalStateException("unknown kind of worker: " + workers);
      }
    } catch (IOException | InterruptedException | RuntimeException e) {
      for (StageWorker worker : started.reversed()) {
        worker.close();
      }
      throw e;
    }
    out.println("• starting Kvoy and Envoy");
    // Takes the workers over: it closes them too when it cannot start.
    return Stage.start(tools, folder, model(), tools.tokenizer("qwen3"), started, port);
  }

  private String model() {
    return workers == WorkerKind.SIM ? "demo-qwen3" : "tiny-qwen3";
  }

  private List<Conversation> load(Size size) {
    Workloads workloads = new Workloads(seed);
    List<Conversation> all = new ArrayList<>();
    all.addAll(
        workloads.sharedPrefix(
            size.prefixes(), size.usersEach(), size.prefixTokens(), 40, size.answerTokens()));
    all.addAll(workloads.multiTurn(size.chats(), size.turns(), 300, 120, size.answerTokens()));
    all.addAll(
        workloads.unique(
            size.unique(), size.shortestUnique(), size.longestUnique(), size.answerTokens()));
    return workloads.shuffled(all);
  }

  private List<Turn> run(String name, URI door, List<Conversation> load, int concurrency)
      throws InterruptedException {
    int total = load.stream().mapToInt(c -> c.userTurns().size()).sum();
    out.printf(Locale.ROOT, "• %d requests by %s, %d at once ", total, name, concurrency);
    AtomicInteger done = new AtomicInteger();
    try (ChatClient client = new ChatClient(door, model())) {
      List<Turn> turns =
          LoadRun.run(
              client,
              load,
              concurrency,
              _ -> {
                if (done.incrementAndGet() % 5 == 0) {
                  out.print('.');
                }
              });
      out.println(" done");
      return turns;
    }
  }

  static String table(List<Turn> turns) {
    Table table =
        new Table(
            "prompt",
            "turn",
            "worker",
            "tokens",
            "cached predicted",
            "cached actual",
            "TTFT predicted",
            "TTFT actual",
            "why");
    turns.stream()
        .sorted(
            Comparator.comparing(Turn::label)
                .thenComparingInt(Turn::conversation)
                .thenComparingInt(Turn::turn))
        .forEach(
            turn -> {
              ChatAnswer answer = turn.answer();
              table.row(
                  turn.label(),
                  Integer.toString(turn.turn()),
                  answer.header("x-kvoy-target"),
                  count(answer.promptTokens()),
                  answer.header("x-kvoy-predicted-cached-tokens"),
                  count(answer.cachedTokens()),
                  answer.header("x-kvoy-predicted-ttft-ms").isEmpty()
                      ? "–"
                      : millis(Double.parseDouble(answer.header("x-kvoy-predicted-ttft-ms"))),
                  millis(answer.ttftMillis()),
                  answer.ok() ? answer.header("x-kvoy-why") : answer.error());
            });
    return table.render();
  }

  private static String summary(List<Turn> plain, List<Turn> routed) {
    Table table =
        new Table("the same load", "TTFT median", "TTFT p90", "prompt tokens from cache", "failed");
    for (boolean kvoy : new boolean[] {false, true}) {
      List<Turn> turns = kvoy ? routed : plain;
      table.row(
          kvoy ? "Kvoy" : "round robin",
          millis(LoadRun.ttftQuantile(turns, 0.5)),
          millis(LoadRun.ttftQuantile(turns, 0.9)),
          String.format(Locale.ROOT, "%.0f %%", 100 * LoadRun.hitShare(turns)),
          Long.toString(turns.stream().filter(turn -> !turn.answer().ok()).count()));
    }
    long told =
        routed.stream()
            .filter(turn -> turn.answer().ok() && turn.answer().cachedTokens() >= 0)
            .count();
    long equal =
        routed.stream()
            .filter(
                turn ->
                    turn.answer().ok()
                        && turn.answer().cachedTokens() >= 0
                        && Long.toString(turn.answer().cachedTokens())
                            .equals(turn.answer().header("x-kvoy-predicted-cached-tokens")))
            .count();
    return table.render()
        + String.format(
            Locale.ROOT,
            "median first token: %.2f of round robin's; predicted cached tokens were exactly those"
                + " reported in %d of %d requests%n",
            LoadRun.ttftQuantile(routed, 0.5) / LoadRun.ttftQuantile(plain, 0.5),
            equal,
            told);
  }

  private void invite(Stage stage) {
    out.printf(
        """

        Up until Ctrl-C. Try it:
          curl -si %s/v1/chat/completions -H 'content-type: application/json' \\
            -d '{"model":"%s","max_tokens":16,"messages":[{"role":"user","content":"Hello"}]}'
        Same workers by round robin: %s
        Decisions: %s/debug/decisions   fleet: %s/debug/fleet   metrics: %s/metrics
        """,
        stage.url(),
        model(),
        stage.plainUrl(),
        stage.adminUrl(),
        stage.adminUrl(),
        stage.adminUrl());
  }

  private static String firstError(List<Turn> turns) {
    return turns.stream()
        .map(Turn::answer)
        .filter(answer -> !answer.ok())
        .map(answer -> "status " + answer.status() + " " + answer.error())
        .findFirst()
        .orElse("");
  }

  private static String count(long value) {
    return value < 0 ? "–" : Long.toString(value);
  }

  private static String millis(double value) {
    return Double.isNaN(value) ? "–" : String.format(Locale.ROOT, "%.0f ms", value);
  }
}
