// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** Readers ask without pause while the writer changes everything around them. */
class IndexRaceTest {

  private static final int READERS = 3;
  private static final int ROUNDS = 400;
  private static final int BLOCKS = 200;

  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT);

  /** A life that is over: from the moment it stands here nobody may find it any more. */
  private final AtomicReference<@Nullable Worker> ended = new AtomicReference<>();

  private final AtomicInteger running = new AtomicInteger(1);
  private final int[] stableIds = Fleet.ids(1, 16 * BLOCKS + 1);

  private static KvBatch store(int[] ids, long base) {
    long[] hashes = new long[ids.length / 16];
    Arrays.setAll(hashes, i -> base + i);
    return Fleet.batch(Fleet.stored(hashes, 0, Arrays.copyOf(ids, hashes.length * 16), 16));
  }

  @Test
  void IDX_02_readersSeeTheTruthWhileTheWriterMovesEverything() throws Exception {
    Worker stable = Fleet.worker(0, 1);
    Worker changing = Fleet.worker(1, 1);
    Worker absent = Fleet.worker(2, 1);
    WorkerBlocks stableBlocks = index.open(stable, KvViewState.LIVE, KvCacheListener.NONE);
    stableBlocks.apply(store(stableIds, 1));
    WorkerBlocks changingBlocks = index.open(changing, KvViewState.LIVE, KvCacheListener.NONE);
    WorkerBlocks absentBlocks = index.open(absent, KvViewState.LIVE, KvCacheListener.NONE);
    absentBlocks.apply(store(Fleet.ids(900_000, 160), 1));

    ExecutorService readers = Executors.newFixedThreadPool(READERS);
    List<Future<Long>> lookups = new ArrayList<>();
    for (int i = 0; i < READERS; i++) {
      lookups.add(readers.submit(reader(stable, changing, absent)));
    }
    try {
      write(changingBlocks);
    } finally {
      running.set(0);
    }
    readers.shutdown();
    long total = 0;
    for (Future<Long> reader : lookups) {
      total += reader.get(30, TimeUnit.SECONDS);
    }
    assertThat(total).isGreaterThan(1_000);
  }

  private void write(WorkerBlocks changing) {
    Random random = new Random(11);
    WorkerBlocks mortal = null;
    for (int round = 0; round < ROUNDS; round++) {
      // The same chain as the stable worker's: its sets change under the readers.
      changing.apply(store(stableIds, 1_000_000));
      // Other keys between and around those of the stable chain: its slots move.
      changing.apply(store(Fleet.ids(10_000 + round * 7_000, 16 * 300), 5_000_000));
      for (int i = BLOCKS - 1; i >= 0; i--) {
        changing.apply(Fleet.batch(Fleet.removed(1_000_000 + i)));
      }
      if (random.nextInt(4) == 0) {
        changing.clear();
      } else {
        long[] all = new long[300];
        Arrays.setAll(all, i -> 5_000_000 + i);
        changing.apply(Fleet.batch(Fleet.removed(all)));
      }
      if (mortal != null) {
        mortal.close();
        ended.set(mortal.worker());
        mortal.apply(store(stableIds, 9_000_000)); // still queued
      }
      mortal = index.open(Fleet.worker(3, round + 1), KvViewState.LIVE, KvCacheListener.NONE);
      mortal.apply(store(stableIds, 9_000_000));
      index.sweep(random.nextInt(2_000));
    }
  }

  private Callable<Long> reader(Worker stable, Worker changing, Worker absent) {
    return () -> {
      PrefixMatch match = new PrefixMatch();
      BlockKeys keys = BlockKeys.of(CacheIdentity.PLAIN, stableIds, 16);
      long lookups = 0;
      while (running.get() > 0) {
        Worker gone = ended.get();
        index.lookup(keys, match);
        lookups++;
        if (!match.wasContended()) {
          assertThat(match.cachedTokens(stable)).isEqualTo(16 * BLOCKS);
        }
        assertThat(match.cachedTokens(changing)).isBetween(0, 16 * BLOCKS);
        assertThat(match.cachedTokens(absent)).isZero();
        if (gone != null) {
          assertThat(match.cachedTokens(gone)).isZero();
          assertThat(match.view(gone)).isEqualTo(KvViewState.DEAD);
        }
      }
      return lookups;
    };
  }
}
