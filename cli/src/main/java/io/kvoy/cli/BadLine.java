// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

/**
 * A line of input that cannot be used. Its message is the answer to that line: it names the field
 * and what was expected, and holds nothing of the line's content.
 */
final class BadLine extends Exception {
  private static final long serialVersionUID = 1L;

  BadLine(String message) {
    super(message, null, false, false);
  }

  /** What is wrong, for the answer. */
  String text() {
    return String.valueOf(getMessage());
  }
}
