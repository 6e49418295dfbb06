// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/** Reads a word's bytes eight at a time, and hashes them. */
final class WordBytes {

  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  /** Odd, with well spread bits (2^64 divided by the golden ratio). */
  private static final long SPREAD = 0x9E3779B97F4A7C15L;

  private WordBytes() {}

  /** Eight bytes, the first one lowest. */
  static long word(byte[] utf8, int start) {
    return (long) LONG.get(utf8, start);
  }

  /**
   * The last bytes of a word, 0 to 7 of them, the first one lowest, and their number in the highest
   * byte.
   */
  static long lastWord(byte[] utf8, int start, int length) {
    long number = (long) length << (Long.SIZE - Byte.SIZE);
    if (start + Long.BYTES <= utf8.length) {
      return ((long) LONG.get(utf8, start) & ((1L << (length * Byte.SIZE)) - 1)) | number;
    }
    long word = number;
    for (int i = 0; i < length; i++) {
      word |= (utf8[start + i] & 0xFFL) << (i * Byte.SIZE);
    }
    return word;
  }

  static long mix(long word) {
    long mixed = word * SPREAD;
    return mixed ^ (mixed >>> 32);
  }

  static long mix(long low, long high) {
    return mix(mix(low) ^ high);
  }

  /** For words of any length. */
  static long hash(byte[] utf8, int start, int end) {
    long mixed = (long) end - start;
    int at = start;
    for (; at + Long.BYTES <= end; at += Long.BYTES) {
      mixed = mix(mixed ^ word(utf8, at));
    }
    return mix(mixed ^ lastWord(utf8, at, end - at));
  }
}
