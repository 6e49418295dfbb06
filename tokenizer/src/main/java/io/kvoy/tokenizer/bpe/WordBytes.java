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

  /** Up to eight bytes, the first one lowest, zeros behind the last one. */
  static long word(byte[] utf8, int start, int length) {
    if (length >= Long.BYTES) {
      return (long) LONG.get(utf8, start);
    }
    if (start + Long.BYTES <= utf8.length) {
      return (long) LONG.get(utf8, start) & ((1L << (length * Byte.SIZE)) - 1);
    }
    long word = 0;
    for (int i = 0; i < length; i++) {
      word |= (utf8[start + i] & 0xFFL) << (i * Byte.SIZE);
    }
    return word;
  }

  static long hash(long low, long high, int length) {
    long mixed = (low ^ Long.rotateLeft(high * SPREAD, 29) ^ length) * SPREAD;
    return (mixed ^ mixed >>> 32) * SPREAD;
  }

  /** For words of any length. */
  static long hash(byte[] utf8, int start, int end) {
    long mixed = (long) end - start;
    int at = start;
    for (; at + Long.BYTES <= end; at += Long.BYTES) {
      mixed = Long.rotateLeft(mixed ^ (long) LONG.get(utf8, at), 27) * SPREAD;
    }
    mixed ^= word(utf8, at, end - at);
    mixed *= SPREAD;
    return (mixed ^ mixed >>> 32) * SPREAD;
  }
}
