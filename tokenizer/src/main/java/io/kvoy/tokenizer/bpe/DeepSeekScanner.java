// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

/**
 * The three expressions of DeepSeek V3 and R1, one applied to what the one before left:
 *
 * <pre>
 * 1. \p{N}{1,3}
 * 2. [一-龥぀-ゟ゠-ヿ]+
 * 3. [!"#$%&'()*+,\-./:;&lt;=&gt;?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*
 *    |\s*[\r\n]+|\s+(?!\S)|\s+
 * </pre>
 *
 * <p>The first two cut the text into sections: up to three numbers, a run of Han and kana, or
 * anything else. The third one works inside a section and never sees beyond it, so every loop here
 * stops where the section does. Numbers match nothing in it and stay one word. Other characters
 * that match nothing (controls, format characters, unassigned ones) are a word together until
 * something matches.
 */
final class DeepSeekScanner implements WordScanner {

  /** Letter or mark. */
  private static final int LETTER = 1;

  private static final int NUMBER = 2;
  private static final int SPACE = 4;
  private static final int LINE_BREAK = 8;

  /** Punctuation or symbol. */
  private static final int SYMBOL = 16;

  /** In the ranges of the second expression. */
  private static final int HAN_OR_KANA = 32;

  private static final CodePointClasses CLASSES = new CodePointClasses(DeepSeekScanner::classOf);

  private static int classOf(int codePoint) {
    int bits = 0;
    if (CodePointClasses.isLetter(codePoint) || CodePointClasses.isMark(codePoint)) {
      bits |= LETTER;
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
    if (CodePointClasses.isPunctuationOrSymbol(codePoint)) {
      bits |= SYMBOL;
    }
    if ((codePoint >= 0x4E00 && codePoint <= 0x9FA5)
        || (codePoint >= 0x3040 && codePoint <= 0x30FF)) {
      bits |= HAN_OR_KANA;
    }
    return bits;
  }

  @Override
  public int wordEnd(byte[] utf8, int start, int end) {
    int here = CLASSES.classAndWidth(utf8, start);
    int next = start + (here >> 8);
    if ((here & NUMBER) != 0) {
      return numbersEnd(utf8, next, end);
    }
    int section = here & HAN_OR_KANA;
    int after = classInSection(utf8, next, end, section);
    if (isAsciiPunctuation(utf8[start]) && after != 0 && isAsciiLetter(utf8[next])) {
      return asciiLettersEnd(utf8, next + 1, end);
    }
    if ((here & LETTER) != 0) {
      return runEnd(utf8, next, end, section, LETTER);
    }
    if ((here & (LINE_BREAK | SYMBOL)) == 0 && (after & LETTER) != 0) {
      return runEnd(utf8, next, end, section, LETTER);
    }
    if ((here & SYMBOL) != 0 || (utf8[start] == ' ' && (after & SYMBOL) != 0)) {
      return lineBreaksEnd(utf8, runEnd(utf8, next, end, section, SYMBOL), end, section);
    }
    if ((here & SPACE) != 0) {
      return spacesEnd(utf8, start, end);
    }
    return unmatchedEnd(utf8, next, end, section);
  }

  /** Class and width of the character there, or 0 when the section ends before it. */
  private static int classInSection(byte[] utf8, int at, int end, int section) {
    if (at >= end) {
      return 0;
    }
    int here = CLASSES.classAndWidth(utf8, at);
    return (here & (HAN_OR_KANA | NUMBER)) == section ? here : 0;
  }

  private static boolean isAsciiPunctuation(byte b) {
    return b > ' ' && b < 0x7F && !isAsciiLetter(b) && (b < '0' || b > '9');
  }

  private static boolean isAsciiLetter(byte b) {
    return (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z');
  }

  private static int numbersEnd(byte[] utf8, int from, int end) {
    int at = from;
    for (int digits = 1; digits < 3 && at < end; digits++) {
      int here = CLASSES.classAndWidth(utf8, at);
      if ((here & NUMBER) == 0) {
        break;
      }
      at += here >> 8;
    }
    return at;
  }

  private static int asciiLettersEnd(byte[] utf8, int from, int end) {
    int at = from;
    while (at < end && isAsciiLetter(utf8[at])) {
      at++;
    }
    return at;
  }

  private static int runEnd(byte[] utf8, int from, int end, int section, int wanted) {
    int at = from;
    while (true) {
      int here = classInSection(utf8, at, end, section);
      if ((here & wanted) == 0) {
        return at;
      }
      at += here >> 8;
    }
  }

  private static int lineBreaksEnd(byte[] utf8, int from, int end, int section) {
    int at = from;
    while (section == 0 && at < end && (utf8[at] == '\n' || utf8[at] == '\r')) {
      at++;
    }
    return at;
  }

  private static int spacesEnd(byte[] utf8, int start, int end) {
    int at = start;
    int lastStart = start;
    int lineBreakEnd = 0;
    while (true) {
      int here = classInSection(utf8, at, end, 0);
      if ((here & SPACE) == 0) {
        // 0 is the end of the section, which is the end of the text for the lookahead.
        return WhiteSpaceRuns.wordEnd(start, at, lastStart, lineBreakEnd, here == 0);
      }
      lastStart = at;
      at += here >> 8;
      if ((here & LINE_BREAK) != 0) {
        lineBreakEnd = at;
      }
    }
  }

  private static int unmatchedEnd(byte[] utf8, int from, int end, int section) {
    int at = from;
    while (true) {
      int here = classInSection(utf8, at, end, section);
      if (here == 0 || (here & (LETTER | SYMBOL | SPACE)) != 0) {
        return at;
      }
      int next = at + (here >> 8);
      if ((classInSection(utf8, next, end, section) & LETTER) != 0) {
        return at;
      }
      at = next;
    }
  }
}
