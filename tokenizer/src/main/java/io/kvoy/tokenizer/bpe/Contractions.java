// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

/** The endings {@code 's 't 're 've 'm 'll 'd} that several expressions treat as words. */
final class Contractions {

  private Contractions() {}

  /**
   * {@code (?i:'s|'t|'re|'ve|'m|'ll|'d)}. Oniguruma folds U+017F (long s, C5 BF in UTF-8) to s.
   *
   * @return the end of the match that starts at {@code at}, or -1
   */
  static int endIgnoringCase(byte[] utf8, int at, int end) {
    if (at + 1 >= end || utf8[at] != '\'') {
      return -1;
    }
    int first = lower(utf8[at + 1]);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
      return at + 2;
    }
    if (at + 2 >= end) {
      return -1;
    }
    if (utf8[at + 1] == (byte) 0xC5 && utf8[at + 2] == (byte) 0xBF) {
      return at + 3;
    }
    return isPair(first, lower(utf8[at + 2])) ? at + 3 : -1;
  }

  /** {@code 's|'t|'re|'ve|'m|'ll|'d}; otherwise the same. */
  static int endOfLowerCase(byte[] utf8, int at, int end) {
    if (at + 1 >= end || utf8[at] != '\'') {
      return -1;
    }
    int first = utf8[at + 1];
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
      return at + 2;
    }
    return at + 2 < end && isPair(first, utf8[at + 2]) ? at + 3 : -1;
  }

  private static boolean isPair(int first, int second) {
    return ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  }

  private static int lower(byte letter) {
    return letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter;
  }
}
