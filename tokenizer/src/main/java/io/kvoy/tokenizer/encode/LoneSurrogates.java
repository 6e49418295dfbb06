// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

/**
 * Finds UTF-16 surrogates without a partner. They cannot be written as UTF-8, so no worker can have
 * read them, and one of them makes the JNI string conversion of DJL garble every other character
 * outside the BMP.
 */
public final class LoneSurrogates {

  private LoneSurrogates() {}

  /**
   * Index of the first lone surrogate in {@code [from, to)}, or -1; what is outside does not count
   * as a partner.
   */
  public static int indexOf(String text, int from, int to) {
    for (int i = from; i < to; i++) {
      char c = text.charAt(i);
      if (!Character.isSurrogate(c)) {
        continue;
      }
      if (Character.isHighSurrogate(c)
          && i + 1 < to
          && Character.isLowSurrogate(text.charAt(i + 1))) {
        i++;
      } else {
        return i;
      }
    }
    return -1;
  }
}
