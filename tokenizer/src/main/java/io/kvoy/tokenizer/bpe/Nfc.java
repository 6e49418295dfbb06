// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.text.Normalizer;
import java.util.BitSet;

/**
 * Unicode normalization form C as the normalizer crate of {@code tokenizers} 0.21 does it, which
 * knows Unicode up to about version 10, on a JDK that knows Unicode 16.
 *
 * <p>To the crate the 131 characters of {@link #NEWER} are starters that compose with nothing; the
 * JDK reorders or composes them. So the text is cut around each of them and the pieces are
 * normalized alone, which gives the same: a starter that composes with nothing separates what is
 * before it from what is after it. The list comes from comparing both on every code point alone,
 * behind and before a combining mark, and on all canonical decompositions; a test does this again.
 *
 * <p>Nearly all text is in form C already. Whether it certainly is takes one look per character.
 */
final class Nfc {

  /** Ranges, first and last. */
  private static final int[] NEWER = {
    0x07fd, 0x07fd, 0x0897, 0x089f, 0x08ca, 0x08d3, 0x09fe, 0x09fe, 0x0c3c, 0x0c3c, 0x0d3b, 0x0d3c,
    0x0eba, 0x0eba, 0x1715, 0x1715, 0x1abf, 0x1ace, 0x1df6, 0x1dfa, 0xa82c, 0xa82c, 0x105d2,
    0x105d2, 0x105da, 0x105da, 0x10d24, 0x10d27, 0x10d69, 0x10d6d, 0x10eab, 0x10eac, 0x10efd,
    0x10eff, 0x10f46, 0x10f50, 0x10f82, 0x10f85, 0x11070, 0x11070, 0x1133b, 0x1133b, 0x113bb,
    0x113bb, 0x113c2, 0x113c2, 0x113c9, 0x113c9, 0x113ce, 0x113d0, 0x1145e, 0x1145e, 0x11839,
    0x1183a, 0x11935, 0x11935, 0x1193d, 0x1193e, 0x11943, 0x11943, 0x119e0, 0x119e0, 0x11a34,
    0x11a34, 0x11a47, 0x11a47, 0x11a99, 0x11a99, 0x11d42, 0x11d42, 0x11d44, 0x11d45, 0x11d97,
    0x11d97, 0x11f41, 0x11f42, 0x1611e, 0x16120, 0x16129, 0x16129, 0x1612f, 0x1612f, 0x16d67,
    0x16d67, 0x16ff0, 0x16ff1, 0x1e08f, 0x1e08f, 0x1e130, 0x1e136, 0x1e2ae, 0x1e2ae, 0x1e2ec,
    0x1e2ef, 0x1e4ec, 0x1e4ef, 0x1e5ee, 0x1e5ef
  };

  /** Below it nothing composes, decomposes or moves. */
  private static final int FIRST_UNCERTAIN = 0x300;

  /**
   * Last code point of planes 0 to 2; planes 3 and 14 to 16 have nothing that normalization
   * touches.
   */
  private static final int LAST_UNCERTAIN = 0x2FFFF;

  private static final BitSet IS_NEWER = newer();

  /** Code points that change, move or may compose with what is before them. */
  private static final BitSet UNCERTAIN = uncertain();

  private Nfc() {}

  private static BitSet newer() {
    var set = new BitSet();
    for (int i = 0; i < NEWER.length; i += 2) {
      set.set(NEWER[i], NEWER[i + 1] + 1);
    }
    return set;
  }

  private static BitSet uncertain() {
    var set = new BitSet();
    for (int codePoint = FIRST_UNCERTAIN; codePoint <= LAST_UNCERTAIN; codePoint++) {
      int type = Character.getType(codePoint);
      if (type == Character.UNASSIGNED
          || type == Character.SURROGATE
          || type == Character.PRIVATE_USE
          || isStableByRange(codePoint)) {
        continue;
      }
      if (CodePointClasses.isMark(codePoint)
          || isJamoThatComposes(codePoint)
          || !Normalizer.isNormalized(Character.toString(codePoint), Normalizer.Form.NFC)) {
        set.set(codePoint);
      }
    }
    set.or(IS_NEWER);
    return set;
  }

  /** Unified ideographs and Hangul syllables: many, and all of them stay as they are. */
  private static boolean isStableByRange(int codePoint) {
    return (codePoint >= 0x3400 && codePoint <= 0x9FFF)
        || (codePoint >= 0xAC00 && codePoint <= 0xD7A3)
        || (codePoint >= 0x20000 && codePoint <= 0x2F7FF);
  }

  /**
   * Hangul vowels and final consonants, the only characters besides marks that compose with what is
   * before them.
   */
  private static boolean isJamoThatComposes(int codePoint) {
    return (codePoint >= 0x1161 && codePoint <= 0x1175)
        || (codePoint >= 0x11A8 && codePoint <= 0x11C2);
  }

  /**
   * Index of the first character that normalization may touch or that may be a surrogate, or {@code
   * to} when there is none. One cheap pass that lets nearly all English and code skip both
   * questions.
   */
  static int firstUncertain(String text, int from, int to) {
    int at = from;
    while (at < to && text.charAt(at) < FIRST_UNCERTAIN) {
      at++;
    }
    return at;
  }

  /**
   * The text in form C; the same object when it certainly is. The text must have no lone surrogate.
   */
  static String normalize(String text) {
    int at = firstUncertain(text, 0, text.length());
    while (at < text.length()) {
      int codePoint = text.codePointAt(at);
      if (UNCERTAIN.get(codePoint)) {
        return normalizePieces(text);
      }
      at += Character.charCount(codePoint);
    }
    return text;
  }

  private static String normalizePieces(String text) {
    var out = new StringBuilder(text.length());
    int start = 0;
    int at = 0;
    while (at < text.length()) {
      int codePoint = text.codePointAt(at);
      int next = at + Character.charCount(codePoint);
      if (IS_NEWER.get(codePoint)) {
        out.append(normalizePiece(text, start, at)).appendCodePoint(codePoint);
        start = next;
      }
      at = next;
    }
    return out.append(normalizePiece(text, start, at)).toString();
  }

  private static String normalizePiece(String text, int start, int end) {
    return Normalizer.normalize(text.substring(start, end), Normalizer.Form.NFC);
  }
}
