// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

/** The white-space alternatives that the expressions share. */
final class WhiteSpaceRuns {

  private WhiteSpaceRuns() {}

  /**
   * {@code \s*[\r\n]+|\s+(?!\S)|\s+} for a run of white space that is known: up to its last line
   * break; else all of it at the end of the text; else all but its last character, which goes with
   * the next word; else that one character.
   *
   * @param runEnd end of the run
   * @param lastStart start of the run's last character
   * @param lineBreakEnd end of the run's last line break, or 0 when it has none
   */
  static int wordEnd(int start, int runEnd, int lastStart, int lineBreakEnd, boolean atTextEnd) {
    if (lineBreakEnd > 0) {
      return lineBreakEnd;
    }
    return atTextEnd || lastStart == start ? runEnd : lastStart;
  }
}
