// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

/**
 * What every word that has to be merged begins with: the ids of its bytes, and how early two bytes
 * side by side merge. The merge table knows that too, but its entries lie anywhere in megabytes;
 * the pairs of bytes that text is made of lie here in few cache lines. 256 KiB. Immutable.
 */
final class SingleBytes {
  private static final int VALUES = 1 << Byte.SIZE;

  private final int[] ids;

  /** Rank of each pair, {@link MergeTable#NO_MERGE} where there is none. */
  private final int[] ranks = new int[VALUES * VALUES];

  /**
   * @param ids id of each single byte
   */
  SingleBytes(int[] ids, MergeTable merges) {
    this.ids = ids.clone();
    for (int left = 0; left < VALUES; left++) {
      for (int right = 0; right < VALUES; right++) {
        ranks[left * VALUES + right] = merges.rank(ids[left], ids[right]);
      }
    }
  }

  int id(byte value) {
    return ids[value & 0xFF];
  }

  int rank(byte left, byte right) {
    return ranks[(left & 0xFF) * VALUES + (right & 0xFF)];
  }

  /** Heap taken, by the lengths of the arrays. */
  long memoryBytes() {
    return (long) Integer.BYTES * (ids.length + ranks.length);
  }
}
