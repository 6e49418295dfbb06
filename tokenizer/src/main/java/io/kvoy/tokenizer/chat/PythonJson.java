// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.Json;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;

/**
 * Python's {@code json.loads}, which reads the arguments of tool calls: takes {@code NaN}, {@code
 * Infinity} and integers of any length, refuses control characters in strings and anything after
 * the value. One instance per text.
 */
final class PythonJson {
  /** Deepest nesting; Python gives up at about 1000 levels. */
  private static final int MAX_DEPTH = 200;

  /** Longest integer that Python converts by default ({@code sys.get_int_max_str_digits}). */
  private static final int MAX_INT_DIGITS = 4300;

  /** Not JSON for Python. */
  static final class Malformed extends Exception {
    private static final long serialVersionUID = 1;

    Malformed() {
      super(null, null, false, false);
    }
  }

  private final String text;
  private int pos;

  private PythonJson(String text) {
    this.text = text;
  }

  static Json parse(String text) throws Malformed {
    PythonJson parser = new PythonJson(text);
    parser.skipSpace();
    Json value = parser.value(0);
    parser.skipSpace();
    if (parser.pos != text.length()) {
      throw new Malformed();
    }
    return value;
  }

  private void skipSpace() {
    while (pos < text.length()) {
      char c = text.charAt(pos);
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
        return;
      }
      pos++;
    }
  }

  private char peek() throws Malformed {
    if (pos >= text.length()) {
      throw new Malformed();
    }
    return text.charAt(pos);
  }

  private boolean skip(String word) {
    if (text.startsWith(word, pos)) {
      pos += word.length();
      return true;
    }
    return false;
  }

  private Json value(int depth) throws Malformed {
    if (depth > MAX_DEPTH) {
      throw new Malformed();
    }
    char c = peek();
    if (c == '"') {
      pos++;
      return new Json.Str(string());
    }
    if (c == '{') {
      pos++;
      return object(depth);
    }
    if (c == '[') {
      pos++;
      return array(depth);
    }
    if (skip("null")) {
      return Json.Null.NULL;
    }
    if (skip("true")) {
      return new Json.Bool(true);
    }
    if (skip("false")) {
      return new Json.Bool(false);
    }
    if (skip("NaN")) {
      return new Json.Real(Double.NaN);
    }
    if (skip("Infinity")) {
      return new Json.Real(Double.POSITIVE_INFINITY);
    }
    if (skip("-Infinity")) {
      return new Json.Real(Double.NEGATIVE_INFINITY);
    }
    return number();
  }

  private Json object(int depth) throws Malformed {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    skipSpace();
    if (peek() == '}') {
      pos++;
      return new Json.Obj(fields);
    }
    while (true) {
      if (peek() != '"') {
        throw new Malformed();
      }
      pos++;
      String key = string();
      skipSpace();
      if (peek() != ':') {
        throw new Malformed();
      }
      pos++;
      skipSpace();
      fields.put(key, value(depth + 1));
      skipSpace();
      char c = peek();
      pos++;
      if (c == '}') {
        return new Json.Obj(fields);
      }
      if (c != ',') {
        throw new Malformed();
      }
      skipSpace();
    }
  }

  private Json array(int depth) throws Malformed {
    List<Json> items = new ArrayList<>();
    skipSpace();
    if (peek() == ']') {
      pos++;
      return new Json.Arr(items);
    }
    while (true) {
      items.add(value(depth + 1));
      skipSpace();
      char c = peek();
      pos++;
      if (c == ']') {
        return new Json.Arr(items);
      }
      if (c != ',') {
        throw new Malformed();
      }
      skipSpace();
    }
  }

  private String string() throws Malformed {
    int from = pos;
    StringBuilder out = null;
    while (true) {
      char c = peek();
      if (c == '"') {
        String tail = text.substring(from, pos);
        pos++;
        return out == null ? tail : out.append(tail).toString();
      }
      if (c < ' ') {
        throw new Malformed();
      }
      if (c != '\\') {
        pos++;
        continue;
      }
      if (out == null) {
        out = new StringBuilder();
      }
      out.append(text, from, pos);
      pos++;
      escape(out);
      from = pos;
    }
  }

  private void escape(StringBuilder out) throws Malformed {
    char c = peek();
    pos++;
    switch (c) {
      case '"', '\\', '/' -> out.append(c);
      case 'b' -> out.append('\b');
      case 'f' -> out.append('\f');
      case 'n' -> out.append('\n');
      case 'r' -> out.append('\r');
      case 't' -> out.append('\t');
      case 'u' -> {
        if (pos + 4 > text.length()) {
          throw new Malformed();
        }
        int value = 0;
        for (int i = pos; i < pos + 4; i++) {
          char digit = text.charAt(i);
          int hex = digit < 128 ? Character.digit(digit, 16) : -1;
          if (hex < 0) {
            throw new Malformed();
          }
          value = value * 16 + hex;
        }
        pos += 4;
        out.append((char) value);
      }
      default -> throw new Malformed();
    }
  }

  private Json number() throws Malformed {
    int from = pos;
    if (peek() == '-') {
      pos++;
    }
    int digits = digits();
    if (digits == 0 || (digits > 1 && text.charAt(pos - digits) == '0')) {
      throw new Malformed();
    }
    boolean real = false;
    if (pos + 1 < text.length() && text.charAt(pos) == '.' && isDigit(text.charAt(pos + 1))) {
      pos++;
      digits();
      real = true;
    }
    if (pos < text.length() && (text.charAt(pos) == 'e' || text.charAt(pos) == 'E')) {
      int mark = pos++;
      if (pos < text.length() && (text.charAt(pos) == '+' || text.charAt(pos) == '-')) {
        pos++;
      }
      if (digits() == 0) {
        pos = mark;
      } else {
        real = true;
      }
    }
    String number = text.substring(from, pos);
    if (real) {
      return new Json.Real(Double.parseDouble(number));
    }
    if (digits > MAX_INT_DIGITS) {
      throw new Malformed();
    }
    if (digits < 19) {
      return new Json.Int(Long.parseLong(number));
    }
    BigInteger value = new BigInteger(number);
    return value.bitLength() < 64 ? new Json.Int(value.longValue()) : new Json.BigInt(value);
  }

  private int digits() {
    int from = pos;
    while (pos < text.length() && isDigit(text.charAt(pos))) {
      pos++;
    }
    return pos - from;
  }

  private static boolean isDigit(char c) {
    return c >= '0' && c <= '9';
  }
}
