// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

/**
 * The expressions of gpt-oss (o200k) and of Mistral's Tekken, which cut at changes from lower to
 * upper case:
 *
 * <pre>
 * [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
 * |[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
 * |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * </pre>
 *
 * <p>Tekken has no contractions and {@code \p{N}}. Letters without case and marks belong to both
 * sets, called upper and lower here. How backtracking of the first alternative plays out: let U be
 * the longest run of upper. When a character of lower follows (it must be {@code \p{Ll}}), the word
 * ends with the run of lower. Otherwise it ends behind the last character of U that is lower too;
 * when there is none, the first alternative fails and the second takes all of U.
 */
final class CasedRunScanner implements WordScanner {

  private static final int UPPER = 1;
  private static final int LOWER = 2;
  private static final int LETTER = 4;
  private static final int NUMBER = 8;
  private static final int MARK = 16;
  private static final int SPACE = 32;
  private static final int LINE_BREAK = 64;

  private static final CodePointClasses CLASSES = new CodePointClasses(CasedRunScanner::classOf);

  private final boolean contractions;
  private final int maxDigits;

  private CasedRunScanner(boolean contractions, int maxDigits) {
    this.contractions = contractions;
    this.maxDigits = maxDigits;
  }

  static CasedRunScanner o200k() {
    return new CasedRunScanner(true, 3);
  }

  static CasedRunScanner tekken() {
    return new CasedRunScanner(false, 1);
  }

  private static int classOf(int codePoint) {
    int bits =
        switch (Character.getType(codePoint)) {
          case Character.UPPERCASE_LETTER, Character.TITLECASE_LETTER -> LETTER | UPPER;
          case Character.LOWERCASE_LETTER -> LETTER | LOWER;
          case Character.MODIFIER_LETTER, Character.OTHER_LETTER -> LETTER | UPPER | LOWER;
          default -> 0;
        };
    if (CodePointClasses.isMark(codePoint)) {
      bits |= MARK | UPPER | LOWER;
    }
    if (CodePointClasses.isNumber(codePoint)) {
      bits |= NUMBER;
    }
    if (CodePointClasses.isWhiteSpace(codePoint)) {
      bits |= SPACE;
    }
    if (codePoint == '\r' || codePoint == '\n') {
      bits |= LINE_BREAK;
    }
    return bits;
  }

  @Override
  public int wordEnd(byte[] utf8, int start, int end) {
    int here = CLASSES.classAndWidth(utf8, start);
    int next = start + (here >> 8);
    if ((here & LETTER) != 0) {
      int lowerEnd = lowerEnd(utf8, start, end);
      return withContraction(utf8, lowerEnd > 0 ? lowerEnd : upperEnd(utf8, start, end), end);
    }
    if ((here & NUMBER) != 0) {
      return numbersEnd(utf8, next, end);
    }
    if ((here & LINE_BREAK) == 0) {
      int wordEnd = prefixedWordEnd(utf8, start, here, end);
      if (wordEnd > 0) {
        return withContraction(utf8, wordEnd, end);
      }
    }
    if ((here & SPACE) == 0) {
      return othersEnd(utf8, next, end);
    }
    if (utf8[start] == ' ' && next < end) {
      int after = CLASSES.classAndWidth(utf8, next);
      if ((after & (SPACE | LETTER | NUMBER)) == 0) {
        return othersEnd(utf8, next + (after >> 8), end);
      }
    }
    return spacesEnd(utf8, start, end);
  }

  /**
   * The first two alternatives at a character that is no letter, number or line break: first with
   * it as the optional character in front, then, when it is a mark, as part of the word.
   *
   * @return -1 when neither matches
   */
  private static int prefixedWordEnd(byte[] utf8, int start, int here, int end) {
    int next = start + (here >> 8);
    int lowerEnd = lowerEnd(utf8, next, end);
    if (lowerEnd > 0) {
      return lowerEnd;
    }
    if ((here & MARK) != 0) {
      return lowerEnd(utf8, start, end);
    }
    int upperEnd = upperEnd(utf8, next, end);
    return upperEnd > next ? upperEnd : -1;
  }

  /** End of {@code upper*lower+} at {@code from}, or -1. */
  private static int lowerEnd(byte[] utf8, int from, int end) {
    int at = from;
    int lastLowerEnd = -1;
    while (at < end) {
      int here = CLASSES.classAndWidth(utf8, at);
      if ((here & UPPER) == 0) {
        return (here & LOWER) != 0 ? lowerRunEnd(utf8, at, end) : lastLowerEnd;
      }
      at += here >> 8;
      if ((here & LOWER) != 0) {
        lastLowerEnd = at;
      }
    }
    return lastLowerEnd;
  }

  private static int lowerRunEnd(byte[] utf8, int from, int end) {
    int at = from;
    while (at < end) {
      int here = CLASSES.classAndWidth(utf8, at);
      if ((here & LOWER) == 0) {
        break;
      }
      at += here >> 8;
    }
    return at;
  }

  private static int upperEnd(byte[] utf8, int from, int end) {
    int at = from;
    while (at < end) {
      int here = CLASSES.classAndWidth(utf8, at);
      if ((here & UPPER) == 0) {
        break;
      }
      at += here >> 8;
    }
    return at;
  }

  private int withContraction(byte[] utf8, int wordEnd, int end) {
    int contraction = contractions ? Contractions.endIgnoringCase(utf8, wordEnd, end) : -1;
    return contraction > 0 ? contraction : wordEnd;
  }

  private int numbersEnd(byte[] utf8, int from, int end) {
    int at = from;
    for (int digits = 1; digits < maxDigits && at < end; digits++) {
      int here = CLASSES.classAndWidth(utf8, at);
      if ((here & NUMBER) == 0) {
        break;
      }
      at += here >> 8;
    }
    return at;
  }

  private static int othersEnd(byte[] utf8, int from, int end) {
    int at = from;
    while (at < end) {
      int here = CLASSES.classAndWidth(utf8, at);
      if ((here & (SPACE | LETTER | NUMBER)) != 0) {
        break;
      }
      at += here >> 8;
    }
    while (at < end && (utf8[at] == '\n' || utf8[at] == '\r' || utf8[at] == '/')) {
      at++;
    }
    return at;
  }

  private static int spacesEnd(byte[] utf8, int start, int end) {
    int at = start;
    int lastStart = start;
    int lineBreakEnd = 0;
    while (at < end) {
      int here = CLASSES.classAndWidth(utf8, at);
      if ((here & SPACE) == 0) {
        break;
      }
      lastStart = at;
      at += here >> 8;
      if ((here & LINE_BREAK) != 0) {
        lineBreakEnd = at;
      }
    }
    return WhiteSpaceRuns.wordEnd(start, at, lastStart, lineBreakEnd, at == end);
  }
}
