// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.util.List;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** A part of a YAML document that knows its place, so that each complaint can name it. */
sealed interface YamlNode {
  /** 1-based line. */
  int line();

  /** 1-based column. */
  int column();

  /** What stands here, in words, to be put after "saw". */
  String seen();

  /**
   * One value.
   *
   * @param text as written, quotes and escapes undone
   * @param plain whether it was written without quotes, so that {@code true}, {@code 5} and {@code
   *     null} are not text
   */
  record Scalar(String text, boolean plain, int line, int column) implements YamlNode {
    /** Longest piece of a value that a message repeats. */
    private static final int SEEN_CHARS = 80;

    private static final Pattern NUMBER =
        Pattern.compile(
            "[-+]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][-+]?[0-9]+)?|0[xo][0-9a-fA-F]+");

    /** Whether YAML's core schema reads this as null. */
    boolean isNull() {
      return plain && (text.isEmpty() || text.equals("~") || text.equalsIgnoreCase("null"));
    }

    /** Whether YAML's core schema reads this as a truth value. */
    boolean isBoolean() {
      return plain && (text.equalsIgnoreCase("true") || text.equalsIgnoreCase("false"));
    }

    /** Whether YAML's core schema reads this as a number. */
    boolean isNumber() {
      return plain && NUMBER.matcher(text).matches();
    }

    @Override
    public String seen() {
      if (isNull()) {
        return "nothing";
      }
      return (plain ? "'" : "the text '") + shown() + "'";
    }

    /** The text, short enough and without control characters, to be repeated in a message. */
    String shown() {
      String cut = text.length() > SEEN_CHARS ? text.substring(0, SEEN_CHARS) + "…" : text;
      return cut.replaceAll("\\p{Cntrl}", "?");
    }
  }

  /** A list. */
  record Sequence(List<YamlNode> items, int line, int column) implements YamlNode {
    @Override
    public String seen() {
      return "a list";
    }
  }

  /**
   * A mapping; no key stands in it twice.
   *
   * @param entries in file order
   */
  record Mapping(List<Entry> entries, int line, int column) implements YamlNode {
    /** The value of {@code key}, or null when the key is absent. */
    @Nullable YamlNode get(String key) {
      for (Entry entry : entries) {
        if (entry.key().text().equals(key)) {
          return entry.value();
        }
      }
      return null;
    }

    @Override
    public String seen() {
      return "a mapping";
    }
  }

  /** One line of a mapping. */
  record Entry(Scalar key, YamlNode value) {}
}
