// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.TokenIds;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class BlockKeysTest {
  /** So a table can lay eight blocks of a chain side by side. */
  @Test
  void eightBlocksOfAChainBeginAlikeAndTheNextEightOtherwise() {
    int[] ids = new SplittableRandom(8).ints(64 * 16, 0, 1_000).toArray();
    CacheIdentity media =
        new CacheIdentity(null, null, List.of(new CacheIdentity.MediaItem("image", 9 * 16, 20)));
    for (CacheIdentity identity :
        List.of(CacheIdentity.PLAIN, CacheIdentity.of("adapter", "salt"), media)) {
      BlockKeys keys = BlockKeys.of(identity, ids, 16);

      for (int i = 1; i < keys.blocks(); i++) {
        boolean isAlike = ((keys.key(i) ^ keys.key(i - 1)) & KeyChain.GROUP_BITS) == 0;
        assertThat(isAlike).isEqualTo(i % KeyChain.GROUP != 0);
      }
      assertThat(Arrays.stream(keys.raw()).distinct()).hasSize(64);
    }
  }

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

      BlockKeys now = BlockKeys.of(identity, TokenIds.of(next), blockSize, before, shared);

      assertThat(now.raw()).isEqualTo(anew.raw());
      assertThat(now.promptTokens()).isEqualTo(next.length);
      assertThat(now.identity()).isEqualTo(identity);
      before = now;
      ids = next.length > 2000 ? new int[0] : next;
    }
  }
}
