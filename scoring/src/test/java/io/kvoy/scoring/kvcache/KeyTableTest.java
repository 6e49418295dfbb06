// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class KeyTableTest {

  /** A key of the {@code i}-th place from the end of the last segment. */
  private static long lastPlace(int i) {
    return CraftedNames.of(-1L - ((long) i << 17));
  }

  @Test
  void keysThatAllFallOnTheLastHomeTakeNoMoreThanTheirShareOfMemory() {
    WorkerSets sets = new WorkerSets();
    KeyTable table = new KeyTable(sets, CraftedNames.KNOWN);
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
  void batchesFindWhatSingleReadsFindHoweverTheKeysLie() {
    WorkerSets sets = new WorkerSets();
    KeyTable table = new KeyTable(sets, CraftedNames.KNOWN);
    Random random = new Random(1);
    long[] names = new long[4_000];
    boolean[] isHeld = new boolean[names.length];
    for (int i = 0; i < names.length; i++) {
      names[i] =
          switch (i % 4) {
            // A run over many lines before, in and behind the last home, and one at the first.
            case 0 -> lastPlace(random.nextInt(1_000));
            case 1 -> CraftedNames.of((long) random.nextInt(1_000) << 17);
            case 2 ->
                CraftedNames.of(0x5555_0000_0000_0000L + ((long) random.nextInt(1_000) << 17));
            default -> random.nextLong();
          };
    }
    KeyTable.Batch batch = new KeyTable.Batch();
    for (int round = 0; round < 60; round++) {
      for (int i = 0; i < 200; i++) {
        int at = random.nextInt(names.length);
        if (random.nextInt(3) > 0) {
          table.add(0, names[at], random.nextInt(200));
        } else {
          int holders = table.read(0, names[at]);
          for (int member = 0; member < 200; member++) {
            if (sets.contains(holders, member)) {
              table.remove(0, names[at], member);
            }
          }
        }
      }
      int step = random.nextInt(1, 4);
      int from = random.nextInt(100);
      int count = random.nextInt(KeyTable.Batch.KEYS + 1);
      table.read(names, from, count, step, batch);
      for (int i = 0; i < count; i++) {
        assertThat(batch.ids[i]).isEqualTo(table.read(0, names[from + i * step]));
        isHeld[from + i * step] |= batch.ids[i] != WorkerSets.EMPTY;
      }
    }
    assertThat(isHeld).contains(true);
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
