// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

/**
 * Half of a surrogate pair standing alone: legal in a Python string, not in UTF-8 and so not for a
 * tokenizer.
 */
public final class LoneSurrogates {
  private LoneSurrogates() {}

  /**
   * Whether the text holds a high surrogate without a low one behind it, or a low one without a
   * high one before.
   */
  public static boolean in(String text) {
    boolean afterHigh = false;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (afterHigh != Character.isLowSurrogate(c)) {
        return true;
      }
      afterHigh = Character.isHighSurrogate(c);
    }
    return afterHigh;
  }
}
