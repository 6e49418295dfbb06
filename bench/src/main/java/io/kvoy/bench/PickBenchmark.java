// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench;

import io.kvoy.bench.IndexBenchmark.Held;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.Outcome;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.KvCacheListener;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.PrefixIndex;
import io.kvoy.scoring.kvcache.PrefixIndexConfig;
import io.kvoy.scoring.kvcache.PrefixMatch;
import io.kvoy.scoring.kvcache.SpeculativePrefixes;
import io.kvoy.scoring.kvcache.WorkerBlocks;
import io.kvoy.scoring.latency.LearningSettings;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.load.OwnShare;
import io.kvoy.scoring.load.PrometheusText;
import io.kvoy.scoring.pick.CachedTokens;
import io.kvoy.scoring.pick.Pick;
import io.kvoy.scoring.pick.PickRequest;
import io.kvoy.scoring.pick.PickSettings;
import io.kvoy.scoring.pick.Picker;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * A whole decision: prompts of 2,000 blocks are looked up, every worker is predicted for, one is
 * chosen and booked; and the reports that end the oldest request. All workers hold one chain of
 * blocks, and each of the others is held by sixteen; gauges are fresh, {@value #OPEN_REQUESTS}
 * requests are in flight.
 *
 * <p>{@code make bench ARGS="PickBenchmark -p workers=256"}. On a machine that does other things
 * too, wall time at p99 says more about those; {@code java -cp CLASSPATH
 * io.kvoy.bench.PickBenchmark} prints the CPU time of the deciding thread beside it.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(
    value = 1,
    jvmArgsAppend = {"-XX:+UseZGC", "-XX:+UseCompactObjectHeaders", "-Xms2g", "-Xmx2g"})
// JMH fills the fields before it measures.
@SuppressWarnings("NullAway.Init")
public class PickBenchmark {
  private static final int OPEN_REQUESTS = 1024;
  private static final int BLOCK = 16;
  private static final int PROMPTS = 64;
  private static final int CHAINS_PER_WORKER = 3;
  private static final int SHARERS = 16;

  /** Workers in the pool. */
  @Param({"8", "64", "256"})
  int workers;

  private final SpeculativePrefixes speculative =
      new SpeculativePrefixes(1 << 20, System::nanoTime);
  private final PrefixIndex index =
      new PrefixIndex(new PrefixIndexConfig(BLOCK, Long.MAX_VALUE), speculative);
  private BlockKeys[] prompts;
  private int[] promptTokens;
  private Picker picker;
  private Fleet fleet;
  private List<Worker> pool;
  private List<Pick.Picked> open;
  private int next;
  private int oldest;

  /** A pool in the middle of its day. */
  @Setup
  public void fill() {
    var registry = new FleetRegistry(HealthSettings.DEFAULTS, System::nanoTime);
    var specs = new ArrayList<WorkerSpec>();
    for (int i = 0; i < workers; i++) {
      specs.add(WorkerSpec.ready("pool", "w" + i, new Endpoint("10.0.0.1", 1000 + i)));
    }
    registry.apply("pool", specs);
    fleet = registry.fleet();
    pool = fleet.workers("pool");
    var book = new LoadBook(System::nanoTime, Duration.ofHours(1));
    byte[] page =
        """
        vllm:num_requests_running 4
        vllm:num_requests_waiting 0
        vllm:kv_cache_usage_perc 0.6
        vllm:cache_config_info{block_size="16",num_gpu_blocks="16000"} 1
        """
            .getBytes(StandardCharsets.UTF_8);
    var views = new ArrayList<WorkerBlocks>();
    for (Worker worker : pool) {
      book.put(worker, PrometheusText.parse(page, page.length, System.nanoTime()), OwnShare.NONE);
      WorkerBlocks view = index.open(worker, KvViewState.LIVE, KvCacheListener.NONE);
      IndexBenchmark.store(view, Held.BY_ALL.firstChain);
      views.add(view);
    }
    Random random = new Random(1);
    for (int c = 0; c < Math.max(1, CHAINS_PER_WORKER * workers / SHARERS); c++) {
      int chain = Held.BY_SIXTEEN.firstChain + c;
      random
          .ints(0, workers)
          .distinct()
          .limit(Math.min(SHARERS, workers))
          .forEach(w -> IndexBenchmark.store(views.get(w), chain));
    }
    prompts = IndexBenchmark.prompts(Held.BY_SIXTEEN, PROMPTS);
    System.arraycopy(IndexBenchmark.prompts(Held.BY_ALL, PROMPTS / 4), 0, prompts, 0, PROMPTS / 4);
    promptTokens = Arrays.stream(prompts).mapToInt(keys -> keys.blocks() * BLOCK + 1).toArray();
    var ledger = new InFlightLedger(System::nanoTime);
    picker =
        new Picker(
            registry,
            book,
            ledger,
            new TtftPredictor(LearningSettings.DEFAULTS, System::nanoTime),
            PickSettings.DEFAULTS,
            System::nanoTime);
    open = new ArrayList<>();
    for (int i = 0; i < OPEN_REQUESTS; i++) {
      open.add(take());
    }
  }

  /** What the index says of one prompt, as the server hands it to the pick. */
  private record Known(BlockKeys keys, PrefixMatch match) implements CachedTokens {
    @Override
    public int on(Worker worker) {
      return match.cachedTokens(worker);
    }

    @Override
    public int expectedOn(Worker worker) {
      return match.expectedTokens(worker);
    }

    @Override
    public long prefixKey(int tokens) {
      int blocks = tokens / BLOCK;
      return blocks > 0 && blocks <= keys.blocks() ? keys.key(blocks - 1) : 0;
    }
  }

  private Pick.Picked take() {
    next = (next * 5 + 1) % PROMPTS;
    BlockKeys keys = prompts[next];
    PrefixMatch match = new PrefixMatch();
    index.lookup(keys, pool, match);
    speculative.merge(keys, match);
    var request = PickRequest.of(pool, promptTokens[next], new Known(keys, match));
    return switch (picker.pick(request, fleet)) {
      case Pick.Picked picked -> {
        speculative.routed(picked.worker(), keys, match, 2_000_000_000L);
        yield picked;
      }
      case Pick.NoCandidate none -> throw new IllegalStateException(none.toString());
      case Pick.Saturated late -> throw new IllegalStateException(late.toString());
    };
  }

  /** Look-up, prediction, choice and booking of one request. The oldest one ends before. */
  @Benchmark
  public Pick.Picked decide() {
    endOldest();
    Pick.Picked picked = take();
    open.set(oldest, picked);
    oldest = (oldest + 1) % OPEN_REQUESTS;
    return picked;
  }

  private void endOldest() {
    Pick.Picked gone = open.get(oldest);
    gone.flight().firstToken();
    gone.flight().ended(Outcome.SUCCESS);
  }

  /** Prints wall and CPU time of decisions for each size of the pool. */
  public static void main(String[] args) {
    var threads = ManagementFactory.getThreadMXBean();
    System.out.println("| workers | wall p50 µs | p99 | CPU p50 µs | p99 |");
    System.out.println("| ---: | ---: | ---: | ---: | ---: |");
    for (int workers : new int[] {8, 64, 256}) {
      var benchmark = new PickBenchmark();
      benchmark.workers = workers;
      benchmark.fill();
      int count = 20_000;
      long[] wall = new long[count];
      long[] cpu = new long[count];
      for (int i = -count; i < count; i++) {
        long cpuStart = threads.getCurrentThreadCpuTime();
        long wallStart = System.nanoTime();
        benchmark.decide();
        if (i >= 0) {
          wall[i] = System.nanoTime() - wallStart;
          cpu[i] = threads.getCurrentThreadCpuTime() - cpuStart;
        }
      }
      Arrays.sort(wall);
      Arrays.sort(cpu);
      System.out.printf(
          "| %d | %.0f | %.0f | %.0f | %.0f |%n",
          workers,
          wall[count / 2] / 1e3,
          wall[count * 99 / 100] / 1e3,
          cpu[count / 2] / 1e3,
          cpu[count * 99 / 100] / 1e3);
    }
  }
}
