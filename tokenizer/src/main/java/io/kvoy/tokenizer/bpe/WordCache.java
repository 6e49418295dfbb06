// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Remembers the ids of words that are more than one token. One slot per hash; a newer word takes
 * the slot. No locks: entries are immutable, so a thread that reads a slot sees a whole entry, an
 * older one, or none.
 *
 * <p>Bounded: {@link #SLOTS} entries of at most {@link #MAX_WORD_BYTES} bytes and as many ids,
 * under 20 MiB when every word has the full length, about 6 MiB with ordinary text.
 */
final class WordCache {

  private static final int SLOTS = 1 << 16;

  /** Longer words are seldom seen twice. */
  static final int MAX_WORD_BYTES = 48;

  /** With ordinary text in every place. */
  private static final long ORDINARY_BYTES = 6L << 20;

  private final @Nullable Entry[] slots = new @Nullable Entry[SLOTS];

  /** A word and its ids; both arrays are never modified. */
  private static final class Entry {
    /** Compared first, so that a wrong word seldom costs a look at its bytes. */
    private final long hash;

    private final byte[] word;
    private final int[] ids;

    Entry(long hash, byte[] word, int[] ids) {
      this.hash = hash;
      this.word = word;
      this.ids = ids;
    }
  }

  /** Heap taken: the table, and ordinary words in all of its places at most. */
  long memoryBytes() {
    return ORDINARY_BYTES;
  }

  /** The word's ids, not to be modified, or null when they are not remembered. */
  int @Nullable [] lookup(long hash, byte[] utf8, int start, int end) {
    Entry entry = slots[(int) hash & (SLOTS - 1)];
    return entry != null
            && entry.hash == hash
            && Arrays.equals(entry.word, 0, entry.word.length, utf8, start, end)
        ? entry.ids
        : null;
  }

  void remember(long hash, byte[] utf8, int start, int end, int[] ids) {
    slots[(int) hash & (SLOTS - 1)] = new Entry(hash, Arrays.copyOfRange(utf8, start, end), ids);
  }
}
