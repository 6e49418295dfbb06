// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench;

import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.CacheIdentity;
import io.kvoy.scoring.kvcache.GroupKind;
import io.kvoy.scoring.kvcache.KvBatch;
import io.kvoy.scoring.kvcache.KvCacheListener;
import io.kvoy.scoring.kvcache.KvEvent;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.PrefixIndex;
import io.kvoy.scoring.kvcache.PrefixIndexConfig;
import io.kvoy.scoring.kvcache.PrefixMatch;
import io.kvoy.scoring.kvcache.Tier;
import io.kvoy.scoring.kvcache.WorkerBlocks;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * The prefix index of a large fleet: look-ups of prompts of 2,000 blocks (32,000 tokens), block
 * events, block keys, and the memory that it takes, printed once when it is full.
 *
 * <p>Every worker holds chains of 2,000 blocks: one that all workers hold, half of the rest shared
 * by 16 workers each, the others its own. Nothing is in the CPU's caches when it is asked for,
 * since prompts change with every call. Run:
 *
 * <pre>
 * java -cp CLASSPATH org.openjdk.jmh.Main IndexBenchmark -prof io.kvoy.bench.ThreadCpuProfiler
 * </pre>
 */
@BenchmarkMode({Mode.AverageTime, Mode.SampleTime})
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(
    value = 1,
    jvmArgsAppend = {"-Xms3g", "-Xmx3g", "-XX:+UseTransparentHugePages"})
public class IndexBenchmark {

  private static final int BLOCK = 16;
  private static final int CHAIN = 2_000;
  private static final int SHARERS = 16;
  private static final int PROMPTS = 64;
  static final int EVENT_BLOCKS = 512;

  /** Which chain a prompt continues. */
  public enum Held {
    /** The one that every worker holds. */
    BY_ALL(0),
    /** One of those that sixteen hold. */
    BY_SIXTEEN(1),
    /** One that a single worker holds. */
    BY_ONE(1_000_000),
    /** None. */
    BY_NONE(900_000_000);

    final int firstChain;

    Held(int firstChain) {
      this.firstChain = firstChain;
    }
  }

  /** The full index. */
  @State(Scope.Benchmark)
  public static class Fleet {

    @Param("256")
    public int workers;

    @Param("100000")
    public int blocksPerWorker;

    final PrefixIndex index = new PrefixIndex(new PrefixIndexConfig(BLOCK, Long.MAX_VALUE));
    WorkerBlocks[] views = {};
    Worker[] fleet = {};

    @Setup
    public void fill() {
      views = new WorkerBlocks[workers];
      fleet = new Worker[workers];
      for (int w = 0; w < workers; w++) {
        fleet[w] = new Worker(w, 1, "w" + w, "p", new Endpoint("w" + w, 8000), KvPublishers.NONE);
        views[w] = index.open(fleet[w], KvViewState.LIVE, KvCacheListener.NONE);
      }
      int chains = blocksPerWorker / CHAIN;
      int shared = Math.max(0, chains / 2 - 1);
      Random random = new Random(1);
      for (int w = 0; w < workers; w++) {
        store(views[w], Held.BY_ALL.firstChain);
      }
      for (int c = 0; c < shared * workers / SHARERS; c++) {
        int chain = Held.BY_SIXTEEN.firstChain + c;
        random.ints(0, workers).distinct().limit(SHARERS).forEach(w -> store(views[w], chain));
      }
      for (int w = 0; w < workers; w++) {
        for (int c = 0; c < chains - shared - 1; c++) {
          store(views[w], Held.BY_ONE.firstChain + w * 1_000 + c);
        }
      }
      long own = 0;
      for (WorkerBlocks view : views) {
        own += view.bytes();
      }
      long entries = index.blocks();
      System.out.printf(
          "%n%,d entries, %,d keys: %.1f bytes per entry (%.1f own tables, %.1f shared table)%n",
          entries,
          index.keys(),
          (double) (own + index.sharedBytes()) / entries,
          (double) own / entries,
          (double) index.sharedBytes() / entries);
    }
  }

  /** Prompts to look up. */
  @State(Scope.Benchmark)
  public static class Prompts {

    @Param public Held held = Held.BY_ALL;

    BlockKeys[] keys = {};
    final PrefixMatch match = new PrefixMatch();
    int next;

    @Setup
    public void make() {
      keys = prompts(held, PROMPTS);
    }
  }

  /** So many prompts that continue chains of this kind. */
  static BlockKeys[] prompts(Held held, int count) {
    BlockKeys[] keys = new BlockKeys[count];
    for (int i = 0; i < count; i++) {
      int chain =
          switch (held) {
            case BY_ALL -> held.firstChain;
            case BY_SIXTEEN, BY_NONE -> held.firstChain + i;
            case BY_ONE -> held.firstChain + i % 256 * 1_000 + i / 256;
          };
      int[] ids = Arrays.copyOf(ids(chain), CHAIN * BLOCK + 1);
      keys[i] = BlockKeys.of(CacheIdentity.PLAIN, ids, BLOCK);
    }
    return keys;
  }

  /** Events of one request: its blocks come, and go again. */
  @State(Scope.Benchmark)
  public static class Events {
    final KvBatch[] stores = new KvBatch[PROMPTS];
    final KvBatch[] removals = new KvBatch[PROMPTS];
    int next;

    @Setup
    public void make() {
      for (int i = 0; i < PROMPTS; i++) {
        int chain = 500_000_000 + i;
        long[] hashes = hashes(chain, EVENT_BLOCKS);
        int[] ids = Arrays.copyOf(ids(chain), EVENT_BLOCKS * BLOCK);
        stores[i] = new KvBatch(0, List.of(stored(hashes, ids)), 0);
        removals[i] = new KvBatch(0, List.of(new KvEvent.BlockRemoved(hashes, Tier.GPU, 0)), 0);
      }
    }
  }

  /** Longest cached prefix of all workers for a prompt of 2,000 blocks. */
  @Benchmark
  public int lookup(Fleet fleet, Prompts prompts) {
    prompts.next = (prompts.next + 1) % PROMPTS;
    fleet.index.lookup(prompts.keys[prompts.next], prompts.match);
    return prompts.match.cachedTokens(fleet.fleet[0]);
  }

  /** One block stored or removed, its key computed from the tokens. */
  @Benchmark
  @BenchmarkMode(Mode.AverageTime)
  @OutputTimeUnit(TimeUnit.NANOSECONDS)
  @OperationsPerInvocation(2 * EVENT_BLOCKS)
  public int event(Fleet fleet, Events events) {
    events.next = (events.next + 1) % PROMPTS;
    WorkerBlocks view = fleet.views[(events.next * 7) % fleet.views.length];
    view.apply(events.stores[events.next]);
    view.apply(events.removals[events.next]);
    return view.blocks();
  }

  /** One block's key, as part of a prompt of 32,000 tokens. */
  @Benchmark
  @BenchmarkMode(Mode.AverageTime)
  @OutputTimeUnit(TimeUnit.NANOSECONDS)
  @OperationsPerInvocation(CHAIN)
  public long key(Ids ids) {
    return BlockKeys.of(CacheIdentity.PLAIN, ids.ids, BLOCK).key(CHAIN - 1);
  }

  /** A prompt's token ids. */
  @State(Scope.Benchmark)
  public static class Ids {
    final int[] ids = ids(7);
  }

  static void store(WorkerBlocks view, int chain) {
    view.apply(new KvBatch(0, List.of(stored(hashes(chain, CHAIN), ids(chain))), 0));
  }

  private static KvEvent stored(long[] hashes, int[] ids) {
    return new KvEvent.BlockStored(
        hashes, false, 0, ids, BLOCK, null, null, null, List.of(), Tier.GPU, 0, GroupKind.FULL, 0);
  }

  private static int[] ids(int chain) {
    int[] ids = new int[CHAIN * BLOCK];
    long state = chain * 0x9E3779B97F4A7C15L + 1;
    for (int i = 0; i < ids.length; i++) {
      state ^= state << 13;
      state ^= state >>> 7;
      state ^= state << 17;
      ids[i] = (int) ((state >>> 33) % 150_000);
    }
    return ids;
  }

  private static long[] hashes(int chain, int count) {
    long[] hashes = new long[count];
    for (int i = 0; i < count; i++) {
      long mixed = (chain * 1_000_003L + i + 1) * 0x9E3779B97F4A7C15L;
      mixed = (mixed ^ mixed >>> 30) * 0xBF58476D1CE4E5B9L;
      hashes[i] = mixed ^ mixed >>> 27;
    }
    return hashes;
  }
}
