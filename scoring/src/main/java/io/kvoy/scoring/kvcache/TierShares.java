// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

/**
 * How much of a block's prefill is saved when it lies in a slower tier than the GPU: 1 less the
 * time to fetch it ÷ the time to compute it.
 *
 * <p>A token of an 8B model with grouped attention takes 128 KB of KV cache (32 layers × 2 × 8
 * heads × 128 × 2 bytes). Over PCIe 4.0 x16 (about 25 GB/s) that is 5 µs, from an NVMe disk (about
 * 5 GB/s) 26 µs; computing it takes about 50 µs at 20,000 tokens/s. So nine tenths and one half are
 * saved. What waits in the copy queue takes a little more of the first one.
 *
 * @param cpu for blocks in host memory, 0..1
 * @param storage for blocks on a disk, in an object store or on another machine, 0..1
 */
public record TierShares(double cpu, double storage) {

  public static final TierShares DEFAULT = new TierShares(0.8, 0.5);

  public TierShares {
    if (!(cpu >= 0 && cpu <= 1 && storage >= 0 && storage <= 1)) {
      throw new IllegalArgumentException("shares must be 0..1, were " + cpu + " and " + storage);
    }
  }
}
