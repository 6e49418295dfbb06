// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.Arrays;

/**
 * Words that are one token: three out of four in ordinary text. Up to 16 bytes a word is its own key, so nothing but the
 * table is touched; longer ones are compared. Filled once, then read by many threads.
 */
final class WholeWords {

  /** Returned for a word that is not one token. */
  static final int NONE = -1;

  private static final int KEY_BYTES = 2 * Long.BYTES;

  private final int mask;
  private final long[] keys;

  /** Id plus one, 0 for a free slot; length in the five highest bits. */
  private final int[] idsAndLengths;

  private static final int LENGTH_SHIFT = 27;
  private static final int ID_MASK = (1 << LENGTH_SHIFT) - 1;

  private final int longMask;
  private final byte[][] longWords;
  private final int[] longIds;

  /**
   * @param words number of words of at most 16 bytes
   * @param longer number of longer words
   */
  WholeWords(int words, int longer) {
    int slots = slotsFor(words);
    mask = slots - 1;
    keys = new long[2 * slots];
    idsAndLengths = new int[slots];
    int longSlots = slotsFor(longer);
    longMask = longSlots - 1;
    longWords = new byte[longSlots][];
    longIds = new int[longSlots];
  }

  private static int slotsFor(int entries) {
    return Integer.highestOneBit(Math.max(8, entries)) << 2;
  }

  static boolean isShort(int length) {
    return length <= KEY_BYTES;
  }

  void put(byte[] word, int id) {
    if (!isShort(word.length)) {
      putLong(word, id);
      return;
    }
    long low = WordBytes.word(word, 0, word.length);
    long high = high(word, 0, word.length);
    int slot = (int) (WordBytes.hash(low, high, word.length) >>> 32) & mask;
    while (idsAndLengths[slot] != 0) {
      slot = slot + 1 & mask;
    }
    keys[2 * slot] = low;
    keys[2 * slot + 1] = high;
    idsAndLengths[slot] = word.length << LENGTH_SHIFT | id + 1;
  }

  private void putLong(byte[] word, int id) {
    int slot = (int) (WordBytes.hash(word, 0, word.length) >>> 32) & longMask;
    while (longIds[slot] != 0) {
      slot = slot + 1 & longMask;
    }
    longWords[slot] = word;
    longIds[slot] = id + 1;
  }

  private static long high(byte[] utf8, int start, int length) {
    return length > Long.BYTES
        ? WordBytes.word(utf8, start + Long.BYTES, length - Long.BYTES)
        : 0;
  }

  /** The id of the word, or {@link #NONE}. */
  int find(byte[] utf8, int start, int length) {
    if (!isShort(length)) {
      return findLong(utf8, start, start + length);
    }
    long low = WordBytes.word(utf8, start, length);
    long high = high(utf8, start, length);
    int slot = (int) (WordBytes.hash(low, high, length) >>> 32) & mask;
    while (true) {
      int found = idsAndLengths[slot];
      if (found == 0) {
        return NONE;
      }
      if (keys[2 * slot] == low
          && keys[2 * slot + 1] == high
          && found >>> LENGTH_SHIFT == length) {
        return (found & ID_MASK) - 1;
      }
      slot = slot + 1 & mask;
    }
  }

  private int findLong(byte[] utf8, int start, int end) {
    int slot = (int) (WordBytes.hash(utf8, start, end) >>> 32) & longMask;
    while (longIds[slot] != 0) {
      byte[] word = longWords[slot];
      if (Arrays.equals(word, 0, word.length, utf8, start, end)) {
        return longIds[slot] - 1;
      }
      slot = slot + 1 & longMask;
    }
    return NONE;
  }
}
