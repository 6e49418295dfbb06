// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

/**
 * The expressions of Qwen 2 and 3, Llama 3 and Qwen 3.5:
 *
 * <pre>
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
 * </pre>
 *
 * with {@code \p{N}{1,3}} in Llama 3, and marks counted as letters in Qwen 3.5.
 */
final class LetterRunScanner implements WordScanner {

  private static final int LETTER = 1;
  private static final int NUMBER = 2;
  private static final int SPACE = 4;
  private static final int LINE_BREAK = 8;

  private static final CodePointClasses LETTERS_ONLY = new CodePointClasses(c -> classOf(c, false));
  private static final CodePointClasses LETTERS_AND_MARKS =
      new CodePointClasses(c -> classOf(c, true));

  private final CodePointClasses classes;
  private final int maxDigits;

  private LetterRunScanner(CodePointClasses classes, int maxDigits) {
    this.classes = classes;
    this.maxDigits = maxDigits;
  }

  static LetterRunScanner qwen2() {
    return new LetterRunScanner(LETTERS_ONLY, 1);
  }

  static LetterRunScanner llama3() {
    return new LetterRunScanner(LETTERS_ONLY, 3);
  }

  static LetterRunScanner qwen35() {
    return new LetterRunScanner(LETTERS_AND_MARKS, 1);
  }

  private static int classOf(int codePoint, boolean marksAreLetters) {
    int bits = 0;
    if (CodePointClasses.isLetter(codePoint)
        || (marksAreLetters && CodePointClasses.isMark(codePoint))) {
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
    return bits;
  }

  @Override
  public int wordEnd(byte[] utf8, int start, int end) {
    int here = classes.classAndWidth(utf8, start);
    int next = start + (here >> 8);
    if ((here & LETTER) != 0) {
      return lettersEnd(utf8, next, end);
    }
    int contraction = Contractions.endIgnoringCase(utf8, start, end);
    if (contraction > 0) {
      return contraction;
    }
    if ((here & NUMBER) != 0) {
      return numbersEnd(utf8, next, end);
    }
    int after = next < end ? classes.classAndWidth(utf8, next) : SPACE;
    if ((here & LINE_BREAK) == 0 && (after & LETTER) != 0) {
      return lettersEnd(utf8, next + (after >> 8), end);
    }
    if ((here & SPACE) == 0) {
      return othersEnd(utf8, next, end);
    }
    if (utf8[start] == ' ' && (after & (SPACE | LETTER | NUMBER)) == 0) {
      return othersEnd(utf8, next + (after >> 8), end);
    }
    return spacesEnd(utf8, start, end);
  }

  private int lettersEnd(byte[] utf8, int from, int end) {
    int at = from;
    while (at < end) {
      int here = classes.classAndWidth(utf8, at);
      if ((here & LETTER) == 0) {
        break;
      }
      at += here >> 8;
    }
    return at;
  }

  private int numbersEnd(byte[] utf8, int from, int end) {
    int at = from;
    for (int digits = 1; digits < maxDigits && at < end; digits++) {
      int here = classes.classAndWidth(utf8, at);
      if ((here & NUMBER) == 0) {
        break;
      }
      at += here >> 8;
    }
    return at;
  }

  private int othersEnd(byte[] utf8, int from, int end) {
    int at = from;
    while (at < end) {
      int here = classes.classAndWidth(utf8, at);
      if ((here & (SPACE | LETTER | NUMBER)) != 0) {
        break;
      }
      at += here >> 8;
    }
    while (at < end && (utf8[at] == '\n' || utf8[at] == '\r')) {
      at++;
    }
    return at;
  }

  private int spacesEnd(byte[] utf8, int start, int end) {
    int at = start;
    int lastStart = start;
    int lineBreakEnd = 0;
    while (at < end) {
      int here = classes.classAndWidth(utf8, at);
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
