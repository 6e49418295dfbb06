// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Remembers the ids of words that are more than one token. One slot per hash; a newer word takes the slot. No locks:
 * entries are immutable records, so a thread that reads a slot sees a whole entry, an older one, or none.
 *
 * <p>Bounded: {@link #SLOTS} entries of at most {@link #MAX_WORD_BYTES} bytes and as many ids, under 10 MiB when every
 * word has the full length, about 3 MiB with ordinary text.
 */
final class WordCache {

  private static final int SLOTS = 1 << 15;

  /** Longer words are seldom seen twice. */
  static final int MAX_WORD_BYTES = 48;

  private final @Nullable Entry[] slots = new @Nullable Entry[SLOTS];

  /**
   * @param word its bytes, never modified
   * @param ids its ids, never modified
   */
  @SuppressWarnings("ArrayRecordComponent") // never leaves this package, compared nowhere
  private record Entry(byte[] word, int[] ids) {}

  /** The word's ids, not to be modified, or null when they are not remembered. */
  int @Nullable [] lookup(long hash, byte[] utf8, int start, int end) {
    Entry entry = slots[slot(hash)];
    return entry != null
            && Arrays.equals(entry.word, 0, entry.word.length, utf8, start, end)
        ? entry.ids
        : null;
  }

  void remember(long hash, byte[] utf8, int start, int end, int[] ids) {
    slots[slot(hash)] = new Entry(Arrays.copyOfRange(utf8, start, end), ids);
  }

  private static int slot(long hash) {
    return (int) (hash >>> (Long.SIZE - 15));
  }
}
