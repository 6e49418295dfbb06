// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

/**
 * One entry of {@code added_tokens}: a piece of text that becomes one id before any other
 * splitting.
 *
 * @param id token id; -1 when no file says it: then that of the same text in the vocabulary, or the
 *     next free one
 * @param content the text that it stands for
 * @param singleWord matches only between non-word characters
 * @param lstrip swallows white space before it
 * @param rstrip swallows white space after it
 * @param normalized looked for in the normalized text, after the unflagged ones were cut out of the
 *     raw text
 * @param special may be left out when decoding; does not change encoding
 */
public record AddedToken(
    int id,
    String content,
    boolean singleWord,
    boolean lstrip,
    boolean rstrip,
    boolean normalized,
    boolean special) {

  /** Whether it is found in the raw text wherever it stands and touches nothing beside it. */
  public boolean isPlain() {
    return !singleWord && !lstrip && !rstrip && !normalized;
  }
}
