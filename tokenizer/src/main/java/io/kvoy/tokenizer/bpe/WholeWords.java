// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.Arrays;

/**
 * Words that are one token: three out of four in ordinary text. Filled once, then read by many
 * threads.
 *
 * <p>A lookup is the hottest memory access of encoding, so a hit touches one cache line: up to 7
 * bytes, key and id stand side by side in 16 bytes; up to 15 bytes, in 32. Longer words are
 * compared byte by byte.
 */
final class WholeWords {

  /** Returned for a word that is not one token. */
  static final int NONE = -1;

  /** Words up to here have their bytes and their length in one long. */
  private static final int SHORT_BYTES = Long.BYTES - 1;

  /** Words up to here have them in two. */
  static final int MIDDLE_BYTES = 2 * Long.BYTES - 1;

  private static final int SHORT_STRIDE = 2;
  private static final int MIDDLE_STRIDE = 4;

  /** Key, then id plus one; 0 there for a free slot. */
  private final long[] shorts;

  private final int shortMask;

  /** Lower key, upper key, then id plus one. */
  private final long[] middles;

  private final int middleMask;
  private final byte[][] longWords;
  private final int[] longIds;
  private final int longMask;

  /**
   * @param lengths lengths of all words that will be put
   */
  WholeWords(int[] lengths) {
    int shortCount = (int) Arrays.stream(lengths).filter(n -> n <= SHORT_BYTES).count();
    int longCount = (int) Arrays.stream(lengths).filter(n -> n > MIDDLE_BYTES).count();
    shortMask = slotsFor(shortCount) - 1;
    shorts = new long[SHORT_STRIDE * (shortMask + 1)];
    middleMask = slotsFor(lengths.length - shortCount - longCount) - 1;
    middles = new long[MIDDLE_STRIDE * (middleMask + 1)];
    longMask = slotsFor(longCount) - 1;
    longWords = new byte[longMask + 1][];
    longIds = new int[longMask + 1];
  }

  /** A power of two that leaves a quarter free at least. */
  private static int slotsFor(int entries) {
    int slots = Integer.highestOneBit(Math.max(8, entries)) << 1;
    return entries > slots - slots / 4 ? slots << 1 : slots;
  }

  /** Heap taken, by the lengths of the arrays. */
  long memoryBytes() {
    long words = 0;
    for (byte[] word : longWords) {
      words += word == null ? 0 : 16 + word.length;
    }
    return (long) Long.BYTES * (shorts.length + middles.length)
        + 8L * longWords.length
        + 4L * longIds.length
        + words;
  }

  void put(byte[] word, int id) {
    int length = word.length;
    if (length <= SHORT_BYTES) {
      long key = WordBytes.lastWord(word, 0, length);
      int slot = (int) WordBytes.mix(key) & shortMask;
      while (shorts[SHORT_STRIDE * slot + 1] != 0) {
        slot = (slot + 1) & shortMask;
      }
      shorts[SHORT_STRIDE * slot] = key;
      shorts[SHORT_STRIDE * slot + 1] = id + 1L;
    } else if (length <= MIDDLE_BYTES) {
      long low = WordBytes.word(word, 0);
      long high = WordBytes.lastWord(word, Long.BYTES, length - Long.BYTES);
      int slot = (int) WordBytes.mix(low, high) & middleMask;
      while (middles[MIDDLE_STRIDE * slot + 2] != 0) {
        slot = (slot + 1) & middleMask;
      }
      middles[MIDDLE_STRIDE * slot] = low;
      middles[MIDDLE_STRIDE * slot + 1] = high;
      middles[MIDDLE_STRIDE * slot + 2] = id + 1L;
    } else {
      int slot = (int) WordBytes.hash(word, 0, length) & longMask;
      while (longIds[slot] != 0) {
        slot = (slot + 1) & longMask;
      }
      longWords[slot] = word;
      longIds[slot] = id + 1;
    }
  }

  /** The id of the word, or {@link #NONE}. */
  int find(byte[] utf8, int start, int length) {
    if (length <= SHORT_BYTES) {
      return findShort(WordBytes.lastWord(utf8, start, length));
    }
    if (length <= MIDDLE_BYTES) {
      return findMiddle(
          WordBytes.word(utf8, start),
          WordBytes.lastWord(utf8, start + Long.BYTES, length - Long.BYTES));
    }
    return findLong(utf8, start, start + length);
  }

  private int findShort(long key) {
    int slot = (int) WordBytes.mix(key) & shortMask;
    while (true) {
      int at = SHORT_STRIDE * slot;
      if (shorts[at] == key || shorts[at + 1] == 0) {
        // The id is 0 in a free slot, which makes NONE; no key is 0, it has the length in it.
        return (int) shorts[at + 1] - 1;
      }
      slot = (slot + 1) & shortMask;
    }
  }

  private int findMiddle(long low, long high) {
    int slot = (int) WordBytes.mix(low, high) & middleMask;
    while (true) {
      int at = MIDDLE_STRIDE * slot;
      if ((middles[at] == low && middles[at + 1] == high) || middles[at + 2] == 0) {
        return (int) middles[at + 2] - 1;
      }
      slot = (slot + 1) & middleMask;
    }
  }

  private int findLong(byte[] utf8, int start, int end) {
    int slot = (int) WordBytes.hash(utf8, start, end) & longMask;
    while (longIds[slot] != 0) {
      byte[] word = longWords[slot];
      if (Arrays.equals(word, 0, word.length, utf8, start, end)) {
        return longIds[slot] - 1;
      }
      slot = (slot + 1) & longMask;
    }
    return NONE;
  }
}
