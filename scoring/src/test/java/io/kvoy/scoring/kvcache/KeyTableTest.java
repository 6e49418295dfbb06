// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashSet;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class KeyTableTest {

  /** Lays groups out in the order of their numbers. */
  private static final Scatter TELLING = new Scatter(0, 1, 1);

  private static final int GROUP_SHIFT = 41;

  /** A name of the {@code i}-th group from the last, which is in the last segment. */
  private static long lastPlace(int i) {
    return (-1L - i) << GROUP_SHIFT;
  }

  private record Held(long name, int member) {}

  @Test
  void keysThatAllFallOnTheLastHomeTakeNoMoreThanTheirShareOfMemory() {
    WorkerSets sets = new WorkerSets();
    KeyTable table = new KeyTable(sets, TELLING);
    long empty = table.bytes();
    for (int i = 0; i < 5_000; i++) {
      assertThat(table.add(0, lastPlace(i), 3)).isTrue();
      assertThat(table.add(1, lastPlace(i), 4)).isTrue();
    }

    assertThat(table.size()).isEqualTo(5_000);
    assertThat(table.bytes() - empty).isLessThan(5_000 * 12L * 4);
    for (int i = 0; i < 5_000; i++) {
      assertThat(sets.contains(table.read(0, lastPlace(i)), 3)).isTrue();
      assertThat(sets.contains(table.read(1, lastPlace(i)), 4)).isTrue();
      assertThat(sets.contains(table.read(1, lastPlace(i)), 3)).isFalse();
    }
    for (int i = 0; i < 5_000; i++) {
      assertThat(table.remove(0, lastPlace(i), 3)).isTrue();
      assertThat(table.remove(1, lastPlace(i), 4)).isTrue();
    }
    assertThat(table.size()).isZero();
  }

  @Test
  void whereAKeyLiesIsAnotherPlaceInEachProcess() {
    // Two tables of one process agree; the key alone does not tell the place.
    assertThat(Scatter.SECRET.of(1)).isNotEqualTo(CraftedNames.KNOWN.of(1)).isNotEqualTo(1);
    assertThat(CraftedNames.of(CraftedNames.KNOWN.of(42))).isEqualTo(42);
  }

  /** Whatever lies together, keys read by batches are found as each by itself, and no others. */
  @Test
  void batchesFindWhatSingleReadsFindHoweverTheGroupsLie() {
    Random random = new Random(1);
    long[] names = new long[4_000];
    for (int i = 0; i < names.length; i++) {
      names[i] =
          switch (i % 4) {
            // A run over many lines before, in and behind the last home, and one at the first.
            case 0 -> lastPlace(random.nextInt(1_000));
            case 1 -> random.nextLong(1, 1_000) << GROUP_SHIFT;
            case 2 -> (0x555555L + random.nextInt(1_000)) << GROUP_SHIFT;
            default -> random.nextLong();
          };
    }
    batchesFindWhatSingleReadsFind(TELLING, names, random);
  }

  /** The same where more names share a group than may lie together. */
  @Test
  void batchesFindWhatSingleReadsFindHoweverManyShareAGroup() {
    Random random = new Random(2);
    long[] names = new long[4_000];
    for (int i = 0; i < names.length; i++) {
      long group = random.nextInt(1, i % 4 == 0 ? 2 : 60);
      long own = random.nextLong() >>> (64 - GROUP_SHIFT);
      names[i] = i % 5 == 0 ? random.nextLong() : (group << GROUP_SHIFT) | own;
    }
    batchesFindWhatSingleReadsFind(CraftedNames.KNOWN, names, random);
  }

  private static void batchesFindWhatSingleReadsFind(Scatter scatter, long[] names, Random random) {
    WorkerSets sets = new WorkerSets();
    KeyTable table = new KeyTable(sets, scatter);
    boolean[] isHeld = new boolean[names.length];
    Set<Held> model = new HashSet<>();
    KeyTable.Batch batch = new KeyTable.Batch();
    for (int round = 0; round < 60; round++) {
      for (int i = 0; i < 200; i++) {
        long name = names[random.nextInt(names.length)];
        if (random.nextInt(3) > 0) {
          int member = random.nextInt(200);
          assertThat(table.add(0, name, member)).isEqualTo(model.add(new Held(name, member)));
        } else {
          for (int member = 0; member < 200; member++) {
            assertThat(table.remove(0, name, member))
                .isEqualTo(model.remove(new Held(name, member)));
          }
        }
      }
      int step = random.nextInt(1, 4);
      int from = random.nextInt(100);
      int count = random.nextInt(KeyTable.Batch.KEYS + 1);
      table.read(names, from, count, step, batch);
      for (int i = 0; i < count; i++) {
        long name = names[from + i * step];
        int holders = table.read(0, name);
        assertThat(batch.ids[i]).isEqualTo(holders);
        for (int member = 0; member < 200; member++) {
          assertThat(sets.contains(holders, member))
              .isEqualTo(model.contains(new Held(name, member)));
        }
        isHeld[from + i * step] |= batch.ids[i] != WorkerSets.EMPTY;
      }
    }
    model.forEach(held -> assertThat(table.remove(0, held.name(), held.member())).isTrue());
    assertThat(table.size()).isZero();
    assertThat(isHeld).contains(true);
  }

  /**
   * Many prompts that part in one group are found whole, each key apart from the first few; and
   * where a prompt goes on alone its groups lie together again.
   */
  @Test
  void promptsThatPartInOneGroupAreAllFound() {
    WorkerSets sets = new WorkerSets();
    KeyTable table = new KeyTable(sets);
    int[] ids = new Random(4).ints(32 * 16, 0, 1_000).toArray();
    BlockKeys[] prompts = new BlockKeys[1_000];
    for (int i = 0; i < prompts.length; i++) {
      ids[3 * 16] = i;
      prompts[i] = BlockKeys.of(CacheIdentity.PLAIN, ids, 16);
      for (int block = 0; block < prompts[i].blocks(); block++) {
        table.add(0, prompts[i].key(block), i % 50);
      }
    }
    KeyTable.Batch batch = new KeyTable.Batch();
    for (int i = 0; i < prompts.length; i++) {
      table.read(prompts[i].raw(), 0, prompts[i].blocks(), 1, batch);
      for (int block = 0; block < prompts[i].blocks(); block++) {
        assertThat(sets.contains(batch.ids[block], i % 50)).isTrue();
      }
    }
    assertThat(table.size()).isEqualTo(3 + 1_000 * 29);
    for (int i = 0; i < prompts.length; i++) {
      for (int block = 0; block < prompts[i].blocks(); block++) {
        table.remove(0, prompts[i].key(block), i % 50);
      }
    }
    assertThat(table.size()).isZero();
  }

  /** With names that nobody chose, nearly every key lies in its home line. */
  @Test
  void memoryPerKeyStaysWithinItsShare() {
    KeyTable table = new KeyTable(new WorkerSets());
    Random random = new Random(2);
    for (int i = 0; i < 1_000_000; i++) {
      table.add(0, random.nextLong(), i % 100);
    }
    assertThat((double) table.bytes() / table.size()).isBetween(8 / 0.57, 8 / 0.51);
  }

  @Test
  void readersThatReadByBatchesNeverSeeAKeyUnderAnotherOnesSet() throws Exception {
    WorkerSets sets = new WorkerSets();
    KeyTable table = new KeyTable(sets);
    Random random = new Random(3);
    long[] steady = random.longs(512).toArray();
    for (int i = 0; i < steady.length; i++) {
      table.add(0, steady[i], i % 7);
    }
    int[] expected = new int[steady.length];
    for (int i = 0; i < steady.length; i++) {
      expected[i] = table.read(0, steady[i]);
    }
    AtomicBoolean isOver = new AtomicBoolean();
    try (ExecutorService reader = Executors.newSingleThreadExecutor()) {
      Future<Long> reads =
          reader.submit(
              () -> {
                KeyTable.Batch batch = new KeyTable.Batch();
                long count = 0;
                while (!isOver.get()) {
                  for (int from = 0; from < steady.length; from += KeyTable.Batch.KEYS) {
                    table.read(steady, from, KeyTable.Batch.KEYS, 1, batch);
                    for (int i = 0; i < KeyTable.Batch.KEYS; i++) {
                      assertThat(batch.ids[i]).isIn(expected[from + i], KeyTable.CONTENDED);
                      count++;
                    }
                  }
                }
                return count;
              });
      // Grows and shrinks every segment again and again around the steady keys.
      long[] others = random.longs(60_000).toArray();
      for (int round = 0; round < 4; round++) {
        for (long name : others) {
          table.add(0, name, 8);
        }
        for (long name : others) {
          table.remove(0, name, 8);
        }
      }
      isOver.set(true);
      assertThat(reads.get(20, TimeUnit.SECONDS)).isPositive();
    }
  }
}
