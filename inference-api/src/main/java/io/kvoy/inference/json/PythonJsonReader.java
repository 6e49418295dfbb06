// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import io.kvoy.inference.Json;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;

/**
 * Reads a text as Python 3.11's {@code json.loads} does, with its words for what is wrong: takes
 * {@code NaN}, {@code Infinity} and integers of any length, refuses control characters in strings
 * and anything behind the value. For texts inside a request, such as the arguments of tool calls;
 * bodies are read by {@link JsonReader}. Pure; depth is bounded.
 */
public final class PythonJsonReader {

  /** Nesting at which CPython's parser gives up on its default stack. */
  private static final int MAX_DEPTH = 900;

  /** Longest integer that Python converts by default ({@code sys.get_int_max_str_digits}). */
  private static final int MAX_INT_DIGITS = 4300;

  /** What became of a text. */
  public sealed interface Outcome {

    /** It is JSON. */
    record Read(Json value) implements Outcome {}

    /**
     * It is not.
     *
     * @param message as {@code json.JSONDecodeError.msg}
     * @param position in characters, as {@code json.JSONDecodeError.pos}
     */
    record Failed(String message, int position) implements Outcome {}
  }

  /** Leaves the recursive descent at once; never escapes this class. */
  @SuppressWarnings("serial")
  private static final class Bad extends RuntimeException {
    private final String reason;
    private final int position;

    Bad(String reason, int position) {
      super(reason, null, false, false);
      this.reason = reason;
      this.position = position;
    }
  }

  private final String text;
  private int at;
  private int depth;

  private PythonJsonReader(String text) {
    this.text = text;
  }

  /** {@code json.loads(text)}. */
  public static Outcome read(String text) {
    PythonJsonReader reader = new PythonJsonReader(text);
    try {
      reader.skipSpace();
      Json value = reader.value();
      reader.skipSpace();
      if (reader.at < text.length()) {
        return new Outcome.Failed("Extra data", text.codePointCount(0, reader.at));
      }
      return new Outcome.Read(value);
    } catch (Bad bad) {
      return new Outcome.Failed(bad.reason, text.codePointCount(0, bad.position));
    }
  }

  private Json value() {
    if (at >= text.length()) {
      throw new Bad("Expecting value", at);
    }
    char c = text.charAt(at);
    return switch (c) {
      case '"' -> new Json.Str(string());
      case '{' -> object();
      case '[' -> array();
      case 'n' -> word("null", Json.Null.NULL);
      case 't' -> word("true", new Json.Bool(true));
      case 'f' -> word("false", new Json.Bool(false));
      case 'N' -> word("NaN", new Json.Real(Double.NaN));
      case 'I' -> word("Infinity", new Json.Real(Double.POSITIVE_INFINITY));
      default -> number();
    };
  }

  private Json word(String word, Json value) {
    if (!text.startsWith(word, at)) {
      throw new Bad("Expecting value", at);
    }
    at += word.length();
    return value;
  }

  private Json number() {
    int start = at;
    if (text.startsWith("-Infinity", at)) {
      return word("-Infinity", new Json.Real(Double.NEGATIVE_INFINITY));
    }
    int i = at;
    if (i < text.length() && text.charAt(i) == '-') {
      i++;
    }
    int digits = i;
    i = digits(i);
    if (i == digits) {
      throw new Bad("Expecting value", start);
    }
    if (text.charAt(digits) == '0') {
      i = digits + 1;
    }
    boolean real = false;
    if (i < text.length() && text.charAt(i) == '.' && digits(i + 1) > i + 1) {
      i = digits(i + 1);
      real = true;
    }
    if (i < text.length() && (text.charAt(i) == 'e' || text.charAt(i) == 'E')) {
      int exponent = i + 1;
      if (exponent < text.length()
          && (text.charAt(exponent) == '+' || text.charAt(exponent) == '-')) {
        exponent++;
      }
      if (digits(exponent) > exponent) {
        i = digits(exponent);
        real = true;
      }
    }
    at = i;
    String number = text.substring(start, i);
    if (real) {
      return new Json.Real(Double.parseDouble(number));
    }
    if (i - digits > MAX_INT_DIGITS) {
      throw new Bad("Exceeds the limit for integer string conversion", start);
    }
    if (number.length() < 19) {
      return new Json.Int(Long.parseLong(number));
    }
    BigInteger big = new BigInteger(number);
    return big.bitLength() < 64 ? new Json.Int(big.longValueExact()) : new Json.BigInt(big);
  }

  private int digits(int from) {
    int i = from;
    while (i < text.length() && text.charAt(i) >= '0' && text.charAt(i) <= '9') {
      i++;
    }
    return i;
  }

  private String string() {
    int start = at++;
    int copied = at;
    StringBuilder out = null;
    while (true) {
      if (at >= text.length()) {
        throw new Bad("Unterminated string starting at", start);
      }
      char c = text.charAt(at);
      if (c == '"') {
        String tail = text.substring(copied, at);
        at++;
        return out == null ? tail : out.append(tail).toString();
      }
      if (c < ' ') {
        throw new Bad("Invalid control character at", at);
      }
      if (c != '\\') {
        at++;
        continue;
      }
      if (out == null) {
        out = new StringBuilder();
      }
      out.append(text, copied, at);
      at++;
      if (at >= text.length()) {
        throw new Bad("Unterminated string starting at", start);
      }
      char escape = text.charAt(at);
      switch (escape) {
        case '"', '\\', '/' -> out.append(escape);
        case 'b' -> out.append('\b');
        case 'f' -> out.append('\f');
        case 'n' -> out.append('\n');
        case 'r' -> out.append('\r');
        case 't' -> out.append('\t');
        case 'u' -> out.append(unicode());
        default -> throw new Bad("Invalid \\escape", at - 1);
      }
      at++;
      copied = at;
    }
  }

  private char unicode() {
    int code = 0;
    for (int i = at + 1; i <= at + 4; i++) {
      // Character.digit alone takes digits of other scripts too.
      boolean isAscii = i < text.length() && text.charAt(i) < 128;
      int digit = isAscii ? Character.digit(text.charAt(i), 16) : -1;
      if (digit < 0) {
        throw new Bad("Invalid \\uXXXX escape", at);
      }
      code = code * 16 + digit;
    }
    at += 4;
    return (char) code;
  }

  private Json object() {
    enter();
    at++;
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    skipSpace();
    if (peek() == '}') {
      at++;
      depth--;
      return new Json.Obj(fields);
    }
    while (true) {
      if (peek() != '"') {
        throw new Bad("Expecting property name enclosed in double quotes", at);
      }
      String key = string();
      skipSpace();
      if (peek() != ':') {
        throw new Bad("Expecting ':' delimiter", at);
      }
      at++;
      skipSpace();
      fields.put(key, value());
      skipSpace();
      char next = peek();
      if (next == '}') {
        at++;
        depth--;
        return new Json.Obj(fields);
      }
      if (next != ',') {
        throw new Bad("Expecting ',' delimiter", at);
      }
      at++;
      skipSpace();
    }
  }

  private Json array() {
    enter();
    at++;
    List<Json> items = new ArrayList<>();
    skipSpace();
    if (peek() == ']') {
      at++;
      depth--;
      return new Json.Arr(items);
    }
    while (true) {
      items.add(value());
      skipSpace();
      char next = peek();
      if (next == ']') {
        at++;
        depth--;
        return new Json.Arr(items);
      }
      if (next != ',') {
        throw new Bad("Expecting ',' delimiter", at);
      }
      at++;
      skipSpace();
    }
  }

  private void enter() {
    depth++;
    if (depth > MAX_DEPTH) {
      throw new Bad("Expecting value", at);
    }
  }

  /** The next character, or NUL at the end. */
  private char peek() {
    return at < text.length() ? text.charAt(at) : '\0';
  }

  private void skipSpace() {
    while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }
}
