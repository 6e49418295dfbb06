// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher;
import java.util.List;

/**
 * Sizes of a {@link PrefixIndex}.
 *
 * @param blockSize canonical block size in tokens; must divide the block size of every worker
 *     (vLLM: 16 on GPUs, 128 on CPUs by default), workers for which it does not are reported and
 *     get no matches
 * @param maxBlocks bound of (block, worker) entries over all workers and tiers; further blocks are
 *     counted and left out
 */
public record PrefixIndexConfig(int blockSize, long maxBlocks, List<String> hashSeeds) {

  /**
   * vLLM's own default seed, and the one that most set-ups before 0.29 used to make hashes
   * reproducible.
   */
  private static final List<String> USUAL_SEEDS = List.of(VllmBlockHasher.DEFAULT_SEED, "0");

  /** Canonical block of 16 tokens; 64 million entries, 1.3 to 1.7 GB when full. */
  public static final PrefixIndexConfig DEFAULT = new PrefixIndexConfig(16, 64L << 20);

  public PrefixIndexConfig(int blockSize, long maxBlocks) {
    this(blockSize, maxBlocks, USUAL_SEEDS);
  }

  public PrefixIndexConfig {
    if (blockSize < 1 || maxBlocks < 1) {
      throw new IllegalArgumentException(
          "blockSize and maxBlocks must be positive, were " + blockSize + " and " + maxBlocks);
    }
    hashSeeds = List.copyOf(hashSeeds);
  }
}
