// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class EngineTableTest {

  /** A hash of the {@code i}-th greatest tag. */
  private static long lastTag(int i) {
    return CraftedNames.of((0xFFFF_FFFFL - i) << 32);
  }

  @Test
  void hashesThatAllFallOnTheLastHomeTakeNoMoreThanTheirShareOfMemory() {
    EngineTable table = new EngineTable(CraftedNames.KNOWN);
    for (int i = 0; i < 20_000; i++) {
      table.put(lastTag(i), 2 + i);
    }

    assertThat(table.size()).isEqualTo(20_000);
    assertThat(table.bytes()).isLessThan(20_000 * 100L);
    for (int i = 0; i < 20_000; i++) {
      assertThat(table.key(lastTag(i))).isEqualTo(2 + i);
    }
    for (int i = 0; i < 20_000; i++) {
      assertThat(table.remove(lastTag(i))).isEqualTo(2 + i);
    }
    assertThat(table.size()).isZero();
  }

  @Test
  void twoHashesWithOneTagAreToldApart() {
    EngineTable table = new EngineTable(CraftedNames.KNOWN);
    table.put(CraftedNames.of(7L << 32), 100);
    table.put(CraftedNames.of(7L << 32 | 5), 200);

    assertThat(table.key(CraftedNames.of(7L << 32))).isEqualTo(100);
    assertThat(table.key(CraftedNames.of(7L << 32 | 5))).isEqualTo(200);
    assertThat(table.remove(CraftedNames.of(7L << 32))).isEqualTo(100);
    assertThat(table.key(CraftedNames.of(7L << 32 | 5))).isEqualTo(200);
  }

  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3})
  void anyOrderOfPutsAndRemovesIsThatOfAMap(long seed) {
    Random random = new Random(seed);
    EngineTable table = new EngineTable(CraftedNames.KNOWN);
    Map<Long, Long> model = new HashMap<>();
    for (int step = 0; step < 60_000; step++) {
      // Half of the hashes lie together at the end, so that the array gets longer there.
      int number = random.nextInt(2_000);
      long hash = number % 2 == 0 ? number * 977L : lastTag(number);
      boolean grows = step / 15_000 % 2 == 0;
      if (random.nextInt(4) == 0 == grows) {
        Long known = model.remove(hash);
        assertThat(table.remove(hash)).isEqualTo(known == null ? EngineTable.ABSENT : known);
      } else if (!model.containsKey(hash)) {
        model.put(hash, 2L + step);
        table.put(hash, 2L + step);
      }
      assertThat(table.size()).isEqualTo(model.size());
    }
    model.forEach((hash, key) -> assertThat(table.key(hash)).isEqualTo(key));
  }
}
