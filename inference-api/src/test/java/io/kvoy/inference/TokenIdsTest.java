// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class TokenIdsTest {
  private final SplittableRandom random = new SplittableRandom(5);

  private int[] some(int count) {
    return random.ints(count, 0, 1000).toArray();
  }

  @SuppressWarnings("ArrayRecordComponent") // compared nowhere
  private record Pair(TokenIds ids, int[] expected) {}

  /** However they go on from each other, none changes another one. */
  @Test
  void promptsThatShareTheirBeginningAreWhatTheyAreAlone() {
    List<Pair> all = new ArrayList<>();
    int[] first = some(50);
    all.add(new Pair(TokenIds.of(first.clone()), first));
    for (int i = 0; i < 2000; i++) {
      // Mostly from a late one, as conversations go.
      int back = random.nextInt(4) > 0 ? 1 : random.nextInt(Math.min(20, all.size())) + 1;
      Pair before = all.get(all.size() - back);
      int length = before.expected.length;
      int kept =
          random.nextInt(20) == 0
              ? random.nextInt(length + 1)
              : Math.max(0, length - random.nextInt(5));
      int[] others = some(random.nextInt(40));
      int[] expected = Arrays.copyOf(before.expected, kept + others.length);
      System.arraycopy(others, 0, expected, kept, others.length);

      all.add(new Pair(before.ids.then(kept, others), expected));
    }
    for (Pair pair : all) {
      assertThat(pair.ids.length()).isEqualTo(pair.expected.length);
      assertThat(pair.ids.toArray()).isEqualTo(pair.expected);
      int from = random.nextInt(pair.expected.length + 1);
      assertThat(pair.ids.from(from))
          .isEqualTo(Arrays.copyOfRange(pair.expected, from, pair.expected.length));
      assertThat(pair.ids.first(from)).isEqualTo(Arrays.copyOf(pair.expected, from));
      assertThat(pair.ids.first(Integer.MAX_VALUE)).isEqualTo(pair.expected);
      assertThat(pair.ids.bytes()).isGreaterThanOrEqualTo(4L * pair.expected.length);
    }
  }

  @Test
  void whatGoesOnFromOneInManyThreadsIsNotMixedUp() {
    TokenIds start = TokenIds.of(some(100)).then(90, some(1000));
    TokenIds roomy = start.then(start.length(), some(10));
    int[] expected = roomy.toArray();

    List<int[]> turns =
        IntStream.range(0, 2000)
            .parallel()
            .mapToObj(i -> roomy.then(roomy.length(), new int[] {i}).then(1101, new int[] {i, -i}))
            .map(TokenIds::toArray)
            .toList();

    for (int i = 0; i < turns.size(); i++) {
      int[] own = Arrays.copyOf(expected, 1103);
      own[1100] = i;
      own[1101] = i;
      own[1102] = -i;
      assertThat(turns.get(i)).isEqualTo(own);
    }
  }

  /** A conversation that only grows is not copied at each turn. */
  @Test
  void turnsInARowShareTheirMemory() {
    TokenIds ids = TokenIds.of(some(1000));
    long copies = 0;
    long before = 0;
    for (int turn = 0; turn < 100; turn++) {
      ids = ids.then(ids.length() - 3, some(20));
      long memory = ids.bytes();
      copies += memory > before + 200 ? 1 : 0;
      before = memory;
    }
    assertThat(copies).isLessThan(12);
  }
}
