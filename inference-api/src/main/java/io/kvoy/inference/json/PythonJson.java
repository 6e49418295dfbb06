// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import io.kvoy.inference.Json;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * Writes {@link Json} exactly as Python's {@code json.dumps} does, character for character.
 *
 * <p>vLLM and chat templates put such text into prompts (tool arguments, {@code tojson}), so one
 * space decides over a cache hit. Equal means CPython 3.11's {@code json/encoder.py}: the float
 * form is {@code float.__repr__}, integers have no bound, keys keep their order.
 */
public final class PythonJson {

  /**
   * Arguments of {@code json.dumps}.
   *
   * @param ensureAscii write every character outside printable ASCII as a six-character escape
   * @param indent text of one level of indentation; null for one line
   * @param itemSeparator between items; Python's default is {@code ", "}, or {@code ","} with an
   *     indent
   * @param keySeparator between key and value; Python's default is {@code ": "}
   * @param sortKeys order keys by code point
   */
  public record Style(
      boolean ensureAscii,
      @Nullable String indent,
      String itemSeparator,
      String keySeparator,
      boolean sortKeys) {

    /** {@code json.dumps(value)}. */
    public static final Style DEFAULT = new Style(true, null, ", ", ": ", false);

    /**
     * {@code json.dumps(value, ensure_ascii=False)}, the {@code tojson} of transformers' templates.
     */
    public static final Style UNICODE = new Style(false, null, ", ", ": ", false);

    /** The shortest form, as {@link JsonWriter} writes it. */
    static final Style COMPACT = new Style(false, null, ",", ":", false);

    /** The same with {@code indent=spaces}, which also changes the default item separator. */
    public Style indented(int spaces) {
      return new Style(ensureAscii, " ".repeat(Math.max(0, spaces)), ",", keySeparator, sortKeys);
    }
  }

  private PythonJson() {}

  /** {@code json.dumps(value)}. */
  public static String dumps(Json value) {
    return dumps(value, Style.DEFAULT);
  }

  /** {@code json.dumps(value, …)}. */
  public static String dumps(Json value, Style style) {
    StringBuilder out = new StringBuilder();
    write(value, style, 0, out);
    return out.toString();
  }

  private static void write(Json value, Style style, int level, StringBuilder out) {
    switch (value) {
      case Json.Null _ -> out.append("null");
      case Json.Bool(boolean b) -> out.append(b);
      case Json.Int(long n) -> out.append(n);
      case Json.BigInt(var n) -> out.append(n);
      case Json.Real(double d) -> out.append(floatText(d));
      case Json.Str(String s) -> quote(s, style.ensureAscii(), out);
      case Json.Arr(var items) -> {
        out.append('[');
        String separator = "";
        for (Json item : items) {
          out.append(separator);
          newLine(style, level + 1, out);
          write(item, style, level + 1, out);
          separator = style.itemSeparator();
        }
        if (!items.isEmpty()) {
          newLine(style, level, out);
        }
        out.append(']');
      }
      case Json.Obj(var fields) -> {
        out.append('{');
        String separator = "";
        Map<String, Json> ordered = fields;
        if (style.sortKeys()) {
          ordered = new TreeMap<>(PythonJson::compareByCodePoint);
          ordered.putAll(fields);
        }
        for (Map.Entry<String, Json> field : ordered.entrySet()) {
          out.append(separator);
          newLine(style, level + 1, out);
          quote(field.getKey(), style.ensureAscii(), out);
          out.append(style.keySeparator());
          write(field.getValue(), style, level + 1, out);
          separator = style.itemSeparator();
        }
        if (!fields.isEmpty()) {
          newLine(style, level, out);
        }
        out.append('}');
      }
    }
  }

  private static int compareByCodePoint(String a, String b) {
    int length = Math.min(a.length(), b.length());
    for (int i = 0; i < length; i++) {
      char x = a.charAt(i);
      char y = b.charAt(i);
      if (x != y) {
        // Surrogates stand for code points above every other char.
        boolean xHigh = Character.isSurrogate(x);
        boolean yHigh = Character.isSurrogate(y);
        return xHigh == yHigh ? Character.compare(x, y) : xHigh ? 1 : -1;
      }
    }
    return Integer.compare(a.length(), b.length());
  }

  private static void newLine(Style style, int level, StringBuilder out) {
    String indent = style.indent();
    if (indent != null) {
      out.append('\n').repeat(indent, level);
    }
  }

  /** A string literal as {@code json.dumps} quotes it. */
  public static void quote(String text, boolean ensureAscii, StringBuilder out) {
    out.append('"');
    int copied = 0;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c >= ' ' && c != '"' && c != '\\' && (c < 0x7F || !ensureAscii)) {
        continue;
      }
      out.append(text, copied, i);
      copied = i + 1;
      switch (c) {
        case '"' -> out.append("\\\"");
        case '\\' -> out.append("\\\\");
        case '\n' -> out.append("\\n");
        case '\r' -> out.append("\\r");
        case '\t' -> out.append("\\t");
        case '\f' -> out.append("\\f");
        case '\b' -> out.append("\\b");
        default ->
            out.append("\\u")
                .append(Character.forDigit(c >> 12, 16))
                .append(Character.forDigit(c >> 8 & 0xF, 16))
                .append(Character.forDigit(c >> 4 & 0xF, 16))
                .append(Character.forDigit(c & 0xF, 16));
      }
    }
    out.append(text, copied, text.length()).append('"');
  }

  /**
   * A float as {@code json.dumps} writes it: {@code float.__repr__}, or the names of the three that
   * are no numbers.
   */
  public static String floatText(double value) {
    if (Double.isNaN(value)) {
      return "NaN";
    }
    if (Double.isInfinite(value)) {
      return value > 0 ? "Infinity" : "-Infinity";
    }
    return floatRepr(value);
  }

  /**
   * {@code repr(float)} of a finite value: shortest digits that read back the same, exponent below
   * 1e-4 and from 1e16.
   */
  static String floatRepr(double value) {
    String sign = Double.doubleToRawLongBits(value) < 0 ? "-" : "";
    double magnitude = Math.abs(value);
    if (magnitude == 0) {
      return sign + "0.0";
    }
    BigDecimal shortest = shortestDecimal(magnitude);
    String digits = shortest.unscaledValue().toString();
    // Value = 0.DIGITS * 10^point.
    int point = digits.length() - shortest.scale();
    StringBuilder out = new StringBuilder(sign);
    if (point > 16 || point < -3) {
      out.append(digits.charAt(0));
      if (digits.length() > 1) {
        out.append('.').append(digits, 1, digits.length());
      }
      int exponent = point - 1;
      out.append('e').append(exponent < 0 ? '-' : '+');
      if (Math.abs(exponent) < 10) {
        out.append('0');
      }
      return out.append(Math.abs(exponent)).toString();
    }
    if (point <= 0) {
      return out.append("0.").repeat('0', -point).append(digits).toString();
    }
    if (point >= digits.length()) {
      return out.append(digits).repeat('0', point - digits.length()).append(".0").toString();
    }
    return out.append(digits, 0, point)
        .append('.')
        .append(digits, point, digits.length())
        .toString();
  }

  /**
   * {@link Double#toString(double)} gives the shortest digits except that it never gives fewer than
   * two, and then prefers the nearest pair: 4.9E-324 where one digit, 5E-324, is enough.
   */
  private static BigDecimal shortestDecimal(double magnitude) {
    BigDecimal two = new BigDecimal(Double.toString(magnitude)).stripTrailingZeros();
    if (two.precision() != 2) {
      return two;
    }
    BigDecimal exact = new BigDecimal(magnitude);
    BigDecimal down = two.round(new MathContext(1, RoundingMode.DOWN));
    BigDecimal up = two.round(new MathContext(1, RoundingMode.UP));
    boolean downReadsBack = down.doubleValue() == magnitude;
    boolean upReadsBack = up.doubleValue() == magnitude;
    BigDecimal best = two;
    if (downReadsBack && upReadsBack) {
      boolean downIsNearer = exact.subtract(down).compareTo(up.subtract(exact)) < 0;
      best = downIsNearer ? down : up;
    } else if (downReadsBack || upReadsBack) {
      best = downReadsBack ? down : up;
    }
    return best.stripTrailingZeros();
  }
}
