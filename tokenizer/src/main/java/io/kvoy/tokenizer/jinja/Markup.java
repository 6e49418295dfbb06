// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/**
 * A text marked as safe HTML by {@code safe} or {@code escape}. Templates are rendered without
 * automatic escaping, so it prints as it is; but a plain text added to it is escaped, as Python's
 * markupsafe does.
 */
record Markup(String text) {

  static String escape(String text) {
    StringBuilder out = null;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      String replacement =
          switch (c) {
            case '&' -> "&amp;";
            case '<' -> "&lt;";
            case '>' -> "&gt;";
            case '\'' -> "&#39;";
            case '"' -> "&#34;";
            default -> "";
          };
      if (!replacement.isEmpty() && out == null) {
        out = new StringBuilder(text.length() + 16).append(text, 0, i);
      }
      if (out != null) {
        if (replacement.isEmpty()) {
          out.append(c);
        } else {
          out.append(replacement);
        }
      }
    }
    return out == null ? text : out.toString();
  }
}
