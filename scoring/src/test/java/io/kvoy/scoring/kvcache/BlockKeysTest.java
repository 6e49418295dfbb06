// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class BlockKeysTest {
  @Test
  void keysTakenOverFromAnEarlierPromptAreThoseComputedAnew() {
    var random = new SplittableRandom(9);
    int[] ids = {};
    BlockKeys before = null;
    for (int i = 0; i < 500; i++) {
      int shared = random.nextInt(ids.length + 1);
      int[] next = Arrays.copyOf(ids, shared + random.nextInt(100));
      for (int at = shared; at < next.length; at++) {
        next[at] = random.nextInt(50);
      }
      CacheIdentity identity =
          CacheIdentity.of(null, random.nextInt(20) == 0 ? "salt" + random.nextInt(2) : null);
      int blockSize = random.nextInt(20) == 0 ? 8 : 16;
      BlockKeys anew = BlockKeys.of(identity, next, blockSize);

      BlockKeys now = BlockKeys.of(identity, next, blockSize, before, shared);

      assertThat(now.raw()).isEqualTo(anew.raw());
      assertThat(now.promptTokens()).isEqualTo(next.length);
      assertThat(now.identity()).isEqualTo(identity);
      before = now;
      ids = next.length > 2000 ? new int[0] : next;
    }
  }
}
