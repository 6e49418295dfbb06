// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench;

import io.kvoy.bench.IndexBenchmark.Held;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.KvBatch;
import io.kvoy.scoring.kvcache.PrefixMatch;
import io.kvoy.scoring.kvcache.WorkerBlocks;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What the index costs in one table: memory, look-ups of prompts of 2,000 blocks warm and cold and
 * while a writer runs at full speed, block events, allocation, pauses.
 *
 * <p>Each look-up is timed twice: by the clock and by the CPU time of its thread. On a machine that
 * does other things too, only the second one says something about the index at p99. Cold means that
 * each prompt is another one of so many that their parts of the table do not fit the CPU's caches.
 * Run it with the server's own flags:
 *
 * <pre>
 * java -XX:+UseZGC -XX:+UseCompactObjectHeaders -Xms3g -Xmx3g -cp CLASSPATH io.kvoy.bench.IndexReport
 * </pre>
 */
public final class IndexReport {

  private static final int WARM_UP = 3_000;
  private static final int LOOKUPS = 6_000;

  /** Prompts that together meet nine tenths of all cache lines of the table, some 190 MB. */
  private static final int COLD = 4_096;

  private static final com.sun.management.ThreadMXBean THREADS =
      (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();

  private IndexReport() {}

  public static void main(String[] args) throws InterruptedException {
    IndexBenchmark.Fleet fleet = new IndexBenchmark.Fleet();
    fleet.workers = args.length > 0 ? Integer.parseInt(args[0]) : 256;
    fleet.blocksPerWorker = args.length > 1 ? Integer.parseInt(args[1]) : 100_000;
    long pausesBefore = pauses();
    fleet.fill();
    System.out.println("| look-up of 2,000 blocks | wall p50 µs | p99 | CPU p50 µs | p99 |");
    System.out.println("| --- | ---: | ---: | ---: | ---: |");
    lookups(fleet, "held by all 256, the same prompt", Held.BY_ALL, 1);
    lookups(fleet, "held by 16, the same prompt", Held.BY_SIXTEEN, 1);
    lookups(fleet, "held by 16, cold", Held.BY_SIXTEEN, 384);
    lookups(fleet, "held by one, cold", Held.BY_ONE, COLD);
    lookups(fleet, "held by none, cold", Held.BY_NONE, 1_024);
    AtomicBoolean isOver = new AtomicBoolean();
    AtomicLong events = new AtomicLong();
    AtomicLong cpu = new AtomicLong();
    Thread writer = Thread.ofPlatform().start(() -> write(fleet, isOver, events, cpu));
    lookups(fleet, "held by one, cold, during full-speed writes", Held.BY_ONE, COLD);
    isOver.set(true);
    writer.join();
    System.out.printf(
        "%nblock events: %.2f µs of CPU each, %.2f M/s of one core%n",
        cpu.get() / 1e3 / events.get(), 1e3 * events.get() / cpu.get());
    System.out.printf("time in GC pauses since the start: %d ms%n", pauses() - pausesBefore);
  }

  private static void write(
      IndexBenchmark.Fleet fleet, AtomicBoolean isOver, AtomicLong events, AtomicLong cpu) {
    IndexBenchmark.Events prepared = new IndexBenchmark.Events();
    prepared.make();
    long start = THREADS.getCurrentThreadCpuTime();
    int next = 0;
    while (!isOver.get()) {
      next = (next + 1) % prepared.stores.length;
      WorkerBlocks view = fleet.views[(next * 7) % fleet.views.length];
      for (KvBatch batch : new KvBatch[] {prepared.stores[next], prepared.removals[next]}) {
        view.apply(batch);
        events.addAndGet(IndexBenchmark.EVENT_BLOCKS);
      }
    }
    cpu.set(THREADS.getCurrentThreadCpuTime() - start);
  }

  private static void lookups(IndexBenchmark.Fleet fleet, String name, Held held, int prompts) {
    BlockKeys[] keys = IndexBenchmark.prompts(held, prompts);
    // A stride that meets every prompt, so that neighbours in time are none in the table.
    int[] order = new Random(1).ints(LOOKUPS, 0, prompts).toArray();
    PrefixMatch match = new PrefixMatch();
    for (int i = 0; i < WARM_UP; i++) {
      fleet.index.lookup(keys[order[i]], match);
    }
    long[] wall = new long[LOOKUPS];
    long[] cpu = new long[LOOKUPS];
    long self = Thread.currentThread().threadId();
    long allocated = 0;
    for (int i = 0; i < LOOKUPS; i++) {
      long bytes = THREADS.getThreadAllocatedBytes(self);
      long cpuStart = THREADS.getCurrentThreadCpuTime();
      long wallStart = System.nanoTime();
      fleet.index.lookup(keys[order[i]], match);
      wall[i] = System.nanoTime() - wallStart;
      cpu[i] = THREADS.getCurrentThreadCpuTime() - cpuStart;
      allocated += THREADS.getThreadAllocatedBytes(self) - bytes;
    }
    System.out.printf(
        "| %s | %.1f | %.1f | %.1f | %.1f |%s%n",
        name,
        at(wall, 0.5),
        at(wall, 0.99),
        at(cpu, 0.5),
        at(cpu, 0.99),
        allocated / LOOKUPS == 0 ? "" : " allocates " + allocated / LOOKUPS + " bytes each");
  }

  private static double at(long[] nanos, double quantile) {
    long[] sorted = nanos.clone();
    Arrays.sort(sorted);
    return sorted[(int) (quantile * (sorted.length - 1))] / 1e3;
  }

  private static long pauses() {
    long millis = 0;
    for (GarbageCollectorMXBean gc : ManagementFactory.getGarbageCollectorMXBeans()) {
      millis += gc.getName().contains("Cycles") ? 0 : gc.getCollectionTime();
    }
    return millis;
  }
}
