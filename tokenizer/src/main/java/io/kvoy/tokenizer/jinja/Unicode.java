// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/**
 * Character classes and code-point arithmetic as Python's {@code str} has them. Java strings count
 * UTF-16 units, Python counts code points; almost every text has no character beyond the basic
 * plane, so each operation looks for surrogates first and takes the short way when there are none.
 */
final class Unicode {
  private Unicode() {}

  /** Python's {@code str.isspace} for one character; all such characters lie in the basic plane. */
  static boolean isSpace(char c) {
    if (c <= ' ') {
      return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
    }
    if (c < 0x85) {
      return false;
    }
    return c == 0x85
        || c == 0xa0
        || c == 0x1680
        || (c >= 0x2000 && c <= 0x200a)
        || c == 0x2028
        || c == 0x2029
        || c == 0x202f
        || c == 0x205f
        || c == 0x3000;
  }

  static boolean isBlank(String text, int from, int to) {
    for (int i = from; i < to; i++) {
      if (!isSpace(text.charAt(i))) {
        return false;
      }
    }
    return true;
  }

  static String stripStart(String text) {
    int start = 0;
    while (start < text.length() && isSpace(text.charAt(start))) {
      start++;
    }
    return text.substring(start);
  }

  static String stripEnd(String text) {
    int end = text.length();
    while (end > 0 && isSpace(text.charAt(end - 1))) {
      end--;
    }
    return text.substring(0, end);
  }

  static String strip(String text) {
    return stripStart(stripEnd(text));
  }

  /** Whether UTF-16 units and code points differ in this text. */
  static boolean hasSurrogates(String text) {
    for (int i = 0; i < text.length(); i++) {
      if (Character.isSurrogate(text.charAt(i))) {
        return true;
      }
    }
    return false;
  }

  /** Python's {@code len(text)}. */
  static int length(String text) {
    return text.codePointCount(0, text.length());
  }

  /** UTF-16 offset of code point {@code index}, which must lie within the text or at its end. */
  static int offset(String text, int index) {
    return hasSurrogates(text) ? text.offsetByCodePoints(0, index) : index;
  }

  /** Whether {@code repr} writes the code point as it is. */
  static boolean isPrintable(int codePoint) {
    if (codePoint == ' ') {
      return true;
    }
    return switch (Character.getType(codePoint)) {
      case Character.CONTROL,
          Character.FORMAT,
          Character.SURROGATE,
          Character.PRIVATE_USE,
          Character.UNASSIGNED,
          Character.LINE_SEPARATOR,
          Character.PARAGRAPH_SEPARATOR,
          Character.SPACE_SEPARATOR ->
          false;
      default -> true;
    };
  }

  /** Python's order of strings: by code points, where Java's is by UTF-16 units. */
  static int compare(String a, String b) {
    int n = Math.min(a.length(), b.length());
    for (int i = 0; i < n; i++) {
      char x = a.charAt(i);
      char y = b.charAt(i);
      if (x != y) {
        boolean highX = Character.isSurrogate(x);
        boolean highY = Character.isSurrogate(y);
        if (highX != highY) {
          return highX ? 1 : -1;
        }
        return x - y;
      }
    }
    return a.length() - b.length();
  }
}
