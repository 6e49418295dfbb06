// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/**
 * Finds a text in a text in time linear in both lengths (Knuth, Morris, Pratt 1977), whoever wrote
 * them. {@link String#indexOf(String)} takes the product of the lengths on texts such as a long run
 * of one letter, and here both may come from a stranger. Stateless.
 */
public final class TextSearch {
  /** Short parts are left to the JDK, whose search is the faster one and then linear enough. */
  private static final int SHORT = 32;

  private TextSearch() {}

  /** As {@link String#contains}. */
  public static boolean contains(String text, String part) {
    return indexOf(text, part, 0) >= 0;
  }

  /** As {@link String#indexOf(String, int)}, {@code from} not negative. */
  static int indexOf(String text, String part, int from) {
    if (part.length() <= SHORT) {
      return text.indexOf(part, from);
    }
    int[] borders = borders(part, false);
    int matched = 0;
    for (int i = from; i < text.length(); i++) {
      char c = text.charAt(i);
      while (matched > 0 && part.charAt(matched) != c) {
        matched = borders[matched - 1];
      }
      matched += part.charAt(matched) == c ? 1 : 0;
      if (matched == part.length()) {
        return i - matched + 1;
      }
    }
    return -1;
  }

  /** As {@link String#lastIndexOf(String, int)}: the last place that is not after {@code from}. */
  static int lastIndexOf(String text, String part, int from) {
    if (part.length() <= SHORT) {
      return text.lastIndexOf(part, from);
    }
    int length = part.length();
    int[] borders = borders(part, true);
    int matched = 0;
    for (int i = Math.min(text.length() - 1, from + length - 1); i >= 0; i--) {
      char c = text.charAt(i);
      while (matched > 0 && part.charAt(length - 1 - matched) != c) {
        matched = borders[matched - 1];
      }
      matched += part.charAt(length - 1 - matched) == c ? 1 : 0;
      if (matched == length) {
        return i;
      }
    }
    return -1;
  }

  /**
   * For each beginning of the part (read backwards where asked) the length of the longest shorter
   * one that it also ends with.
   */
  private static int[] borders(String part, boolean isBackwards) {
    int[] borders = new int[part.length()];
    int last = part.length() - 1;
    int border = 0;
    for (int i = 1; i <= last; i++) {
      char c = part.charAt(isBackwards ? last - i : i);
      while (border > 0 && part.charAt(isBackwards ? last - border : border) != c) {
        border = borders[border - 1];
      }
      border += part.charAt(isBackwards ? last - border : border) == c ? 1 : 0;
      borders[i] = border;
    }
    return borders;
  }
}
