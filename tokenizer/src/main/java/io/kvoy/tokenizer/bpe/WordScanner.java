// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

/**
 * Cuts text into words exactly where the pre-tokenizer's regular expression does, one pass, no
 * backtracking beyond a character. Words are the units that BPE may merge inside. Stateless and
 * thread-safe.
 *
 * <p>The expressions match every character somewhere, so words follow each other without gaps; what
 * an expression leaves unmatched is a word of its own (behaviour "Isolated").
 */
interface WordScanner {

  /**
   * End of the word that starts at {@code start}.
   *
   * @param utf8 valid UTF-8
   * @param start first byte of the word, less than {@code end}
   * @param end end of the text that the expression sees; its lookahead counts it as the end of
   *     everything
   * @return greater than {@code start}
   */
  int wordEnd(byte[] utf8, int start, int end);
}
