// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

/**
 * The expression that a ByteLevel pre-tokenizer with {@code use_regex} has built in:
 *
 * <pre>
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * </pre>
 */
final class Gpt2Scanner implements WordScanner {

  private static final int LETTER = 1;
  private static final int NUMBER = 2;
  private static final int SPACE = 4;
  private static final int KINDS = LETTER | NUMBER | SPACE;

  private static final CodePointClasses CLASSES = new CodePointClasses(Gpt2Scanner::classOf);

  private static int classOf(int codePoint) {
    if (CodePointClasses.isLetter(codePoint)) {
      return LETTER;
    }
    if (CodePointClasses.isNumber(codePoint)) {
      return NUMBER;
    }
    return CodePointClasses.isWhiteSpace(codePoint) ? SPACE : 0;
  }

  @Override
  public int wordEnd(byte[] utf8, int start, int end) {
    int contraction = Contractions.endOfLowerCase(utf8, start, end);
    if (contraction > 0) {
      return contraction;
    }
    int here = CLASSES.classAndWidth(utf8, start);
    int next = start + (here >> 8);
    if (utf8[start] == ' ' && next < end) {
      int after = CLASSES.classAndWidth(utf8, next);
      if ((after & SPACE) == 0) {
        return runEnd(utf8, next + (after >> 8), end, after & KINDS);
      }
    }
    if ((here & SPACE) == 0) {
      return runEnd(utf8, next, end, here & KINDS);
    }
    return spacesEnd(utf8, start, end);
  }

  private static int runEnd(byte[] utf8, int from, int end, int kind) {
    int at = from;
    while (at < end) {
      int here = CLASSES.classAndWidth(utf8, at);
      if ((here & KINDS) != kind) {
        break;
      }
      at += here >> 8;
    }
    return at;
  }

  private static int spacesEnd(byte[] utf8, int start, int end) {
    int at = start;
    int lastStart = start;
    while (at < end) {
      int here = CLASSES.classAndWidth(utf8, at);
      if ((here & SPACE) == 0) {
        break;
      }
      lastStart = at;
      at += here >> 8;
    }
    return WhiteSpaceRuns.wordEnd(start, at, lastStart, 0, at == end);
  }
}
