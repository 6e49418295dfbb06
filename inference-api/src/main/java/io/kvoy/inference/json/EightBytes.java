// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * Looks at eight bytes at a time: nearly all of a request's body is plain text in strings, and a
 * test per byte was two fifths of the CPU of routing a long conversation.
 *
 * <p>Marks are the top bits of bytes. Those above the lowest one may be wrong, since a subtraction
 * borrows from the bytes above it.
 */
final class EightBytes {
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  private static final long ONES = 0x0101_0101_0101_0101L;
  private static final long TOP_BITS = ONES << 7;
  private static final long QUOTES = ONES * '"';
  private static final long BACKSLASHES = ONES * '\\';
  private static final long SPACES = ONES * ' ';

  private EightBytes() {}

  /** The bytes from {@code from} on, the first one lowest. */
  static long at(byte[] bytes, int from) {
    return (long) LONG.get(bytes, from);
  }

  static void put(byte[] bytes, int from, long eight) {
    LONG.set(bytes, from, eight);
  }

  static boolean hasNonAscii(long eight) {
    return (eight & TOP_BITS) != 0;
  }

  /** Marks quotes, backslashes and control characters. */
  static long endsOfText(long eight) {
    long quotes = eight ^ QUOTES;
    long backslashes = eight ^ BACKSLASHES;
    return TOP_BITS
        & (((quotes - ONES) & ~quotes)
            | ((backslashes - ONES) & ~backslashes)
            | ((eight - SPACES) & ~eight));
  }

  /** How many bytes are before the first mark; there is one. */
  static int first(long marks) {
    return Long.numberOfTrailingZeros(marks) >>> 3;
  }

  /** The bytes before the first mark, zero for the others; there is a mark. */
  static long before(long eight, long marks) {
    return eight & ((marks & -marks) >>> 7) - 1;
  }
}
