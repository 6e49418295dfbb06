// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.IntUnaryOperator;
import java.util.zip.CRC32;

/**
 * A class byte for each code point, read straight from UTF-8. Built once per scanner family;
 * immutable.
 *
 * <p>The categories come from the JDK. Oniguruma in {@code tokenizers} 0.21 (as DJL 0.38.0 ships
 * it) uses Unicode 16, and so does JDK 25: both agree on the general category and on white space of
 * every code point. On a JDK with another Unicode version {@link #jdkHasReferenceUnicode} is false
 * and the fast encoder is not used.
 */
final class CodePointClasses {

  /** CRC-32 over {@code Character.getType} of code points 0 to 10FFFF in JDK 25 (Unicode 16). */
  private static final long UNICODE_16_CRC = 0x2ec8e93cL;

  private static final int PAGE_BITS = 8;
  private static final int PAGE_SIZE = 1 << PAGE_BITS;
  private static final int BMP_SIZE = 0x10000;

  private final byte[] bmp = new byte[BMP_SIZE];

  /** Pages of the code points from 10000 on; equal pages are one array. */
  private final byte[][] pages = new byte[(Character.MAX_CODE_POINT + 1 - BMP_SIZE) >> PAGE_BITS][];

  /**
   * @param classOf class of a code point, 0 to 255
   */
  CodePointClasses(IntUnaryOperator classOf) {
    for (int codePoint = 0; codePoint < BMP_SIZE; codePoint++) {
      bmp[codePoint] = (byte) classOf.applyAsInt(codePoint);
    }
    Map<Integer, byte[]> pagesByHash = new HashMap<>();
    for (int page = 0; page < pages.length; page++) {
      var fresh = new byte[PAGE_SIZE];
      for (int i = 0; i < PAGE_SIZE; i++) {
        fresh[i] = (byte) classOf.applyAsInt(BMP_SIZE + (page << PAGE_BITS) + i);
      }
      byte[] known = pagesByHash.putIfAbsent(Arrays.hashCode(fresh), fresh);
      pages[page] = known != null && Arrays.equals(known, fresh) ? known : fresh;
    }
  }

  /**
   * Whether this JDK's character data are those that the reference library uses. Takes some
   * milliseconds.
   */
  static boolean jdkHasReferenceUnicode() {
    return characterDataCrc() == UNICODE_16_CRC;
  }

  static long characterDataCrc() {
    var crc = new CRC32();
    var block = new byte[PAGE_SIZE];
    for (int start = 0; start <= Character.MAX_CODE_POINT; start += PAGE_SIZE) {
      for (int i = 0; i < PAGE_SIZE; i++) {
        block[i] = (byte) Character.getType(start + i);
      }
      crc.update(block);
    }
    return crc.getValue();
  }

  /**
   * Class of the code point that starts at {@code at}, plus its length in bytes times 256. The text
   * must be valid UTF-8.
   */
  int classAndWidth(byte[] utf8, int at) {
    int lead = utf8[at];
    if (lead >= 0) {
      return (bmp[lead] & 0xFF) | 0x100;
    }
    if (lead < (byte) 0xE0) {
      return (bmp[(lead & 0x1F) << 6 | (utf8[at + 1] & 0x3F)] & 0xFF) | 0x200;
    }
    if (lead < (byte) 0xF0) {
      int codePoint = (lead & 0x0F) << 12 | (utf8[at + 1] & 0x3F) << 6 | (utf8[at + 2] & 0x3F);
      return (bmp[codePoint] & 0xFF) | 0x300;
    }
    int offset =
        ((lead & 0x07) << 18
                | (utf8[at + 1] & 0x3F) << 12
                | (utf8[at + 2] & 0x3F) << 6
                | (utf8[at + 3] & 0x3F))
            - BMP_SIZE;
    return (pages[offset >> PAGE_BITS][offset & (PAGE_SIZE - 1)] & 0xFF) | 0x400;
  }

  /** {@code \s} of Oniguruma: the Unicode property White_Space. */
  static boolean isWhiteSpace(int codePoint) {
    return (codePoint >= 0x09 && codePoint <= 0x0D)
        || codePoint == 0x85
        || Character.isSpaceChar(codePoint);
  }

  static boolean isLetter(int codePoint) {
    return Character.isLetter(codePoint);
  }

  /** {@code \p{N}}: decimal digits, letter numbers and other numbers. */
  static boolean isNumber(int codePoint) {
    int type = Character.getType(codePoint);
    return type == Character.DECIMAL_DIGIT_NUMBER
        || type == Character.LETTER_NUMBER
        || type == Character.OTHER_NUMBER;
  }

  /** {@code \p{M}}. */
  static boolean isMark(int codePoint) {
    int type = Character.getType(codePoint);
    return type == Character.NON_SPACING_MARK
        || type == Character.COMBINING_SPACING_MARK
        || type == Character.ENCLOSING_MARK;
  }

  /** {@code [\p{P}\p{S}]}. */
  static boolean isPunctuationOrSymbol(int codePoint) {
    return switch (Character.getType(codePoint)) {
      case Character.CONNECTOR_PUNCTUATION,
          Character.DASH_PUNCTUATION,
          Character.START_PUNCTUATION,
          Character.END_PUNCTUATION,
          Character.INITIAL_QUOTE_PUNCTUATION,
          Character.FINAL_QUOTE_PUNCTUATION,
          Character.OTHER_PUNCTUATION,
          Character.MATH_SYMBOL,
          Character.CURRENCY_SYMBOL,
          Character.MODIFIER_SYMBOL,
          Character.OTHER_SYMBOL ->
          true;
      default -> false;
    };
  }
}
