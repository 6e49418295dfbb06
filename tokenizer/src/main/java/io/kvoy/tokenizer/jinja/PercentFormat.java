// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.math.BigInteger;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Python's {@code format % arguments}. One instance per use. */
final class PercentFormat {
  private final Render render;
  private final String format;
  private final Object arguments;
  private final List<Object> sequence;
  private final StringBuilder out = new StringBuilder();
  private int pos;
  private int nextArgument;

  private PercentFormat(Render render, String format, Object arguments) {
    this.render = render;
    this.format = format;
    this.arguments = arguments;
    this.sequence = arguments instanceof PyTuple tuple ? tuple.items() : List.of(arguments);
  }

  static String format(Render render, String format, Object arguments) {
    PercentFormat run = new PercentFormat(render, format, arguments);
    run.run();
    render.text(run.out.length());
    return run.out.toString();
  }

  private void run() {
    while (pos < format.length()) {
      int percent = format.indexOf('%', pos);
      if (percent < 0) {
        out.append(format, pos, format.length());
        break;
      }
      out.append(format, pos, percent);
      pos = percent + 1;
      directive();
      render.checkText(out.length());
    }
    boolean mayHaveMore =
        arguments instanceof PyDict
            || arguments instanceof PyList
            || arguments instanceof PyRange
            || arguments instanceof Undefined;
    if (nextArgument < sequence.size() && !mayHaveMore) {
      throw TemplateError.type();
    }
  }

  private char take() {
    if (pos >= format.length()) {
      throw TemplateError.value();
    }
    return format.charAt(pos++);
  }

  private Object argument() {
    if (nextArgument >= sequence.size()) {
      throw TemplateError.type();
    }
    return sequence.get(nextArgument++);
  }

  private void directive() {
    Object keyed = null;
    char c = take();
    if (c == '(') {
      keyed = keyed();
      c = take();
    }
    boolean left = false;
    boolean plus = false;
    boolean space = false;
    boolean alternate = false;
    boolean zero = false;
    for (; "-+ #0".indexOf(c) >= 0; c = take()) {
      left |= c == '-';
      plus |= c == '+';
      space |= c == ' ';
      alternate |= c == '#';
      zero |= c == '0';
    }
    int width = 0;
    if (c == '*') {
      width = starArgument();
      if (width < 0) {
        left = true;
        width = -width;
      }
      c = take();
    } else {
      for (; c >= '0' && c <= '9'; c = take()) {
        width = limited(width * 10L + c - '0');
      }
    }
    int precision = -1;
    if (c == '.') {
      precision = 0;
      c = take();
      if (c == '*') {
        precision = Math.max(starArgument(), 0);
        c = take();
      } else {
        for (; c >= '0' && c <= '9'; c = take()) {
          precision = limited(precision * 10L + c - '0');
        }
      }
    }
    if (c == 'h' || c == 'l' || c == 'L') {
      c = take();
    }
    if (c == '%') {
      out.append('%');
      return;
    }
    Object value = keyed != null ? keyed : argument();
    String sign = plus ? "+" : space ? " " : "";
    switch (c) {
      case 's' -> text(cut(Repr.str(render, value), precision), width, left);
      case 'r' -> text(cut(Repr.repr(render, value), precision), width, left);
      case 'a' -> throw TemplateError.unsupported("format_ascii");
      case 'c' -> text(character(value), width, left);
      case 'd', 'i', 'u' ->
          number(integer(value, true), 10, "", precision, sign, width, left, zero, false);
      case 'o' ->
          number(
              integer(value, false),
              8,
              alternate ? "0o" : "",
              precision,
              sign,
              width,
              left,
              zero,
              false);
      case 'x', 'X' ->
          number(
              integer(value, false),
              16,
              alternate ? "0" + c : "",
              precision,
              sign,
              width,
              left,
              zero,
              c == 'X');
      case 'e', 'E', 'f', 'F', 'g', 'G' -> {
        double real = realArgument(value);
        String digits = NumberFormat.magnitude(real, c, precision < 0 ? 6 : precision, alternate);
        boolean negative = real < 0 || (real == 0 && 1 / real < 0);
        boolean finite = !Double.isNaN(real) && !Double.isInfinite(real);
        signed(negative ? "-" : sign, digits, width, left, zero && finite);
      }
      default -> throw TemplateError.value();
    }
  }

  private Object keyed() {
    if (!(arguments instanceof PyDict dict)) {
      throw TemplateError.type();
    }
    int depth = 1;
    int from = pos;
    while (depth > 0) {
      char c = take();
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    Object value = dict.get(format.substring(from, pos - 1));
    if (value == null) {
      throw TemplateError.lookup();
    }
    return value;
  }

  private int starArgument() {
    Object value = argument();
    if (!Numbers.isInt(value)) {
      throw TemplateError.type();
    }
    return limited(Numbers.index(value));
  }

  private int limited(long number) {
    render.checkText(Math.abs(number));
    return (int) number;
  }

  private static String cut(String text, int precision) {
    if (precision < 0 || Unicode.length(text) <= precision) {
      return text;
    }
    return text.substring(0, Unicode.offset(text, precision));
  }

  private static String character(Object value) {
    String text = Values.asText(value);
    if (text != null) {
      if (Unicode.length(text) != 1) {
        throw TemplateError.type();
      }
      return text;
    }
    if (!Numbers.isInt(value)) {
      throw TemplateError.type();
    }
    int code = Numbers.index(value);
    if (code < 0 || code > Character.MAX_CODE_POINT) {
      throw TemplateError.overflow();
    }
    return Character.toString(code);
  }

  private static BigInteger integer(Object value, boolean floatsToo) {
    if (Numbers.isInt(value)) {
      return Numbers.big(value);
    }
    if (floatsToo && value instanceof Double real) {
      return Numbers.big(Numbers.truncate(real));
    }
    throw floatsToo && value instanceof Undefined undefined
        ? undefined.error()
        : TemplateError.type();
  }

  private static double realArgument(Object value) {
    if (value instanceof Undefined undefined) {
      throw undefined.error();
    }
    return Numbers.real(value);
  }

  private void text(String text, int width, boolean left) {
    StrMethods.Alignment alignment = left ? StrMethods.Alignment.LEFT : StrMethods.Alignment.RIGHT;
    out.append(StrMethods.pad(render, text, width, " ", alignment));
  }

  private void number(
      BigInteger value,
      int radix,
      String prefix,
      int precision,
      String sign,
      int width,
      boolean left,
      boolean zero,
      boolean upper) {
    String digits = value.abs().toString(radix);
    if (upper) {
      digits = digits.toUpperCase(Locale.ROOT);
    }
    if (digits.length() < precision) {
      render.checkText(precision);
      digits = "0".repeat(precision - digits.length()) + digits;
    }
    signed((value.signum() < 0 ? "-" : sign) + prefix, digits, width, left, zero);
  }

  private void signed(String sign, String digits, int width, boolean left, boolean zero) {
    int missing = width - sign.length() - digits.length();
    if (missing <= 0) {
      out.append(sign).append(digits);
      return;
    }
    render.checkText((long) out.length() + width);
    if (left) {
      out.append(sign).append(digits).repeat(' ', missing);
    } else if (zero) {
      out.append(sign).repeat('0', missing).append(digits);
    } else {
      out.repeat(' ', missing).append(sign).append(digits);
    }
  }

  /** The {@code format} filter: positional arguments or keywords, not both. */
  static String filter(Render render, @Nullable String format, Args args) {
    if (format == null) {
      throw TemplateError.type();
    }
    if (args.keywords().isEmpty()) {
      return format(render, format, new PyTuple(args.positional(), false));
    }
    if (args.count() > 0) {
      throw TemplateError.runtime();
    }
    PyDict dict = new PyDict();
    args.keywords().forEach(dict::put);
    return format(render, format, dict);
  }
}
