// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

/**
 * Finds and replaces UTF-16 surrogates without a partner. They cannot be written as UTF-8, so no
 * worker can have seen them, and one of them makes the JNI string conversion of DJL garble every
 * other character outside the BMP.
 */
public final class LoneSurrogates {

  private LoneSurrogates() {}

  /** Index of the first lone surrogate, or -1. */
  public static int indexOf(CharSequence text) {
    int length = text.length();
    for (int i = 0; i < length; i++) {
      char c = text.charAt(i);
      if (!Character.isSurrogate(c)) {
        continue;
      }
      if (Character.isHighSurrogate(c)
          && i + 1 < length
          && Character.isLowSurrogate(text.charAt(i + 1))) {
        i++;
      } else {
        return i;
      }
    }
    return -1;
  }

  /** The text with U+FFFD for each lone surrogate; the same object when there are none. */
  public static String replace(String text) {
    int first = indexOf(text);
    if (first < 0) {
      return text;
    }
    var out = new StringBuilder(text);
    for (int i = first; i < out.length(); i++) {
      char c = out.charAt(i);
      if (!Character.isSurrogate(c)) {
        continue;
      }
      if (Character.isHighSurrogate(c)
          && i + 1 < out.length()
          && Character.isLowSurrogate(out.charAt(i + 1))) {
        i++;
      } else {
        out.setCharAt(i, '\uFFFD');
      }
    }
    return out.toString();
  }
}
