// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.math.BigInteger;
import java.util.Locale;

/**
 * Python's {@code str.format} with its format specifications, inside the sandbox's attribute rules.
 */
final class BraceFormat {
  private final Render render;
  private final Args args;
  private int nextArgument;

  private BraceFormat(Render render, Args args) {
    this.render = render;
    this.args = args;
  }

  static String format(Render render, String format, Args args) {
    return new BraceFormat(render, args).run(format, 2);
  }

  private String run(String format, int depth) {
    if (depth < 0) {
      throw TemplateError.value();
    }
    StringBuilder out = new StringBuilder(format.length() + 16);
    int i = 0;
    while (i < format.length()) {
      char c = format.charAt(i++);
      boolean doubled = i < format.length() && format.charAt(i) == c;
      if (c == '{' && !doubled) {
        int end = endOfField(format, i);
        field(format.substring(i, end), depth, out);
        render.text(out.length());
        i = end + 1;
      } else if (c == '{' || c == '}') {
        if (!doubled) {
          throw TemplateError.value();
        }
        out.append(c);
        i++;
      } else {
        out.append(c);
      }
    }
    render.text(out.length());
    return out.toString();
  }

  private static int endOfField(String format, int from) {
    int depth = 1;
    for (int i = from; i < format.length(); i++) {
      char c = format.charAt(i);
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (depth == 0) {
        return i;
      }
    }
    throw TemplateError.value();
  }

  private void field(String field, int depth, StringBuilder out) {
    int nameEnd = 0;
    boolean inBrackets = false;
    while (nameEnd < field.length()) {
      char c = field.charAt(nameEnd);
      if (c == '[') {
        inBrackets = true;
      } else if (c == ']') {
        inBrackets = false;
      } else if (!inBrackets && (c == '!' || c == ':')) {
        break;
      }
      nameEnd++;
    }
    Object value = lookUp(field.substring(0, nameEnd));
    int i = nameEnd;
    if (i < field.length() && field.charAt(i) == '!') {
      if (i + 1 >= field.length()) {
        throw TemplateError.value();
      }
      value =
          switch (field.charAt(i + 1)) {
            case 's' -> Repr.str(render, value);
            case 'r' -> Repr.repr(render, value);
            case 'a' -> throw TemplateError.unsupported("format_ascii");
            default -> throw TemplateError.value();
          };
      i += 2;
      if (i < field.length() && field.charAt(i) != ':') {
        throw TemplateError.value();
      }
    }
    String spec = i < field.length() ? run(field.substring(i + 1), depth - 1) : "";
    out.append(apply(render, value, spec));
  }

  private Object lookUp(String path) {
    int firstEnd = 0;
    while (firstEnd < path.length()
        && path.charAt(firstEnd) != '.'
        && path.charAt(firstEnd) != '[') {
      firstEnd++;
    }
    String first = path.substring(0, firstEnd);
    Object value;
    if (first.isEmpty()) {
      if (nextArgument < 0) {
        throw TemplateError.value();
      }
      value = positional(nextArgument++);
    } else if (isNumber(first)) {
      if (nextArgument > 0) {
        throw TemplateError.value();
      }
      nextArgument = -1;
      value = positional(Integer.parseInt(first));
    } else {
      value = args.keywords().get(first);
      if (value == null) {
        throw TemplateError.lookup();
      }
    }
    int i = firstEnd;
    while (i < path.length()) {
      if (path.charAt(i) == '.') {
        int end = i + 1;
        while (end < path.length() && path.charAt(end) != '.' && path.charAt(end) != '[') {
          end++;
        }
        value = Values.attribute(value, path.substring(i + 1, end));
        i = end;
      } else {
        int end = path.indexOf(']', i);
        if (path.charAt(i) != '[' || end < 0 || end == i + 1) {
          throw TemplateError.value();
        }
        String key = path.substring(i + 1, end);
        value = Values.item(value, isNumber(key) ? (Object) Long.valueOf(key) : key);
        i = end + 1;
      }
    }
    return value;
  }

  private static boolean isNumber(String text) {
    return !text.isEmpty() && text.length() < 9 && text.chars().allMatch(c -> c >= '0' && c <= '9');
  }

  private Object positional(int index) {
    if (index >= args.count()) {
      throw TemplateError.lookup();
    }
    return args.positional().get(index);
  }

  /** {@code format(value, spec)}. */
  private static String apply(Render render, Object value, String spec) {
    if (spec.isEmpty()) {
      return Repr.str(render, value);
    }
    String text = Values.asText(value);
    if (text == null && !Numbers.isNumber(value)) {
      throw TemplateError.type();
    }
    return new Spec(render, spec).apply(value, text);
  }

  /** A parsed format specification. */
  private static final class Spec {
    private final Render render;
    private final String spec;
    private int pos;
    private String fill = " ";
    private char align;
    private char sign = '-';
    private boolean alternate;
    private boolean zero;
    private int width = -1;
    private char grouping;
    private int precision = -1;
    private char type;

    Spec(Render render, String spec) {
      this.render = render;
      this.spec = spec;
      parse();
    }

    private char at(int index) {
      return index < spec.length() ? spec.charAt(index) : 0;
    }

    private void parse() {
      int fillEnd = spec.offsetByCodePoints(0, 1);
      if (isAlign(at(fillEnd))) {
        fill = spec.substring(0, fillEnd);
        align = at(fillEnd);
        pos = fillEnd + 1;
      } else if (isAlign(at(0))) {
        align = at(0);
        pos = 1;
      }
      if (at(pos) == '+' || at(pos) == '-' || at(pos) == ' ') {
        sign = at(pos++);
      }
      if (at(pos) == 'z') {
        throw TemplateError.unsupported("format_z");
      }
      if (at(pos) == '#') {
        alternate = true;
        pos++;
      }
      if (at(pos) == '0') {
        zero = true;
        pos++;
        if (align == 0) {
          fill = "0";
        }
      }
      if (isDigit(at(pos))) {
        width = number();
      }
      if (at(pos) == ',' || at(pos) == '_') {
        grouping = at(pos++);
      }
      if (at(pos) == '.') {
        pos++;
        if (!isDigit(at(pos))) {
          throw TemplateError.value();
        }
        precision = number();
      }
      if (pos < spec.length()) {
        type = spec.charAt(pos++);
      }
      if (pos < spec.length()) {
        throw TemplateError.value();
      }
    }

    private static boolean isAlign(char c) {
      return c == '<' || c == '>' || c == '=' || c == '^';
    }

    private static boolean isDigit(char c) {
      return c >= '0' && c <= '9';
    }

    private int number() {
      long number = 0;
      while (isDigit(at(pos))) {
        number = number * 10 + at(pos++) - '0';
        render.checkText(number);
      }
      return (int) number;
    }

    String apply(Object value, @org.jspecify.annotations.Nullable String text) {
      if (text != null) {
        return text(text);
      }
      if (Numbers.isInt(value)) {
        switch (type) {
          case 0, 'd', 'n' -> {
            return integer(Numbers.big(value), 10, "");
          }
          case 'b' -> {
            return integer(Numbers.big(value), 2, "0b");
          }
          case 'o' -> {
            return integer(Numbers.big(value), 8, "0o");
          }
          case 'x' -> {
            return integer(Numbers.big(value), 16, "0x");
          }
          case 'X' -> {
            return integer(Numbers.big(value), 16, "0X");
          }
          case 'c' -> {
            int code = Numbers.index(value);
            if (code < 0 || code > Character.MAX_CODE_POINT) {
              throw TemplateError.overflow();
            }
            return padded("", Character.toString(code), '<');
          }
          default -> {}
        }
      }
      return real(Numbers.real(value));
    }

    private String text(String text) {
      if ((type != 0 && type != 's') || sign != '-' || align == '=' || grouping != 0) {
        throw TemplateError.value();
      }
      String cut =
          precision >= 0 && Unicode.length(text) > precision
              ? text.substring(0, Unicode.offset(text, precision))
              : text;
      return padded("", cut, '<');
    }

    private String integer(BigInteger value, int radix, String prefix) {
      if (precision >= 0) {
        throw TemplateError.value();
      }
      String digits = value.abs().toString(radix);
      if (type == 'X') {
        digits = digits.toUpperCase(Locale.ROOT);
      }
      String head = signOf(value.signum() < 0) + (alternate ? prefix : "");
      return number(head, digits, radix == 10 ? 3 : 4);
    }

    private String real(double value) {
      boolean negative = value < 0 || (value == 0 && 1 / value < 0);
      String digits =
          switch (type) {
            case 'e', 'E', 'f', 'F', 'g', 'G' ->
                NumberFormat.magnitude(value, type, precision < 0 ? 6 : precision, alternate);
            case 'n' ->
                NumberFormat.magnitude(value, 'g', precision < 0 ? 6 : precision, alternate);
            case '%' ->
                NumberFormat.magnitude(value * 100, 'f', precision < 0 ? 6 : precision, alternate)
                    + "%";
            case 0 -> plain(value);
            default -> throw TemplateError.value();
          };
      return number(signOf(negative), digits, 3);
    }

    private String plain(double value) {
      if (precision < 0) {
        return Numbers.repr(Math.abs(value));
      }
      String text = NumberFormat.magnitude(value, 'g', precision, alternate);
      boolean finite = !Double.isNaN(value) && !Double.isInfinite(value);
      if (!finite || text.indexOf('.') >= 0 || text.indexOf('e') >= 0) {
        return text;
      }
      // Without a type a float keeps one digit behind the point, or goes exponential one digit
      // earlier.
      int digits = text.length();
      return digits >= Math.max(precision, 1) && !text.equals("0") ? general(value) : text + ".0";
    }

    private String general(double value) {
      int digits = Math.max(precision, 1);
      String text = NumberFormat.magnitude(value, 'e', digits - 1, false);
      int mark = text.indexOf('e');
      String mantissa = text.substring(0, mark);
      if (mantissa.indexOf('.') >= 0) {
        mantissa = StrMethods.strip(mantissa, "0", false, true);
        mantissa = StrMethods.strip(mantissa, ".", false, true);
      }
      return mantissa + text.substring(mark);
    }

    private String signOf(boolean negative) {
      return negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
    }

    private String number(String head, String digits, int groupSize) {
      char how = align == 0 && zero ? '=' : align;
      String body = digits;
      if (grouping != 0) {
        int minimum = how == '=' && fill.equals("0") ? width - head.length() : 0;
        body = grouped(digits, groupSize, minimum);
      }
      return padded(head, body, how == 0 ? '>' : how);
    }

    private String grouped(String digits, int size, int minimum) {
      int wholeEnd = 0;
      while (wholeEnd < digits.length()
          && Character.digit(digits.charAt(wholeEnd), size == 4 ? 16 : 10) >= 0) {
        wholeEnd++;
      }
      String whole = digits.substring(0, wholeEnd);
      String tail = digits.substring(wholeEnd);
      render.checkText(minimum);
      StringBuilder out = new StringBuilder();
      int count = 0;
      int i = whole.length() - 1;
      while (i >= 0 || out.length() + tail.length() < minimum) {
        if (count > 0 && count % size == 0) {
          out.append(grouping);
        }
        out.append(i >= 0 ? whole.charAt(i) : '0');
        i--;
        count++;
      }
      return out.reverse() + tail;
    }

    private String padded(String head, String body, char fallback) {
      int missing = width - head.length() - Unicode.length(body);
      if (missing <= 0) {
        return head + body;
      }
      render.text(width);
      char how = align != 0 ? align : zero && fallback != '<' ? '=' : fallback;
      return switch (how) {
        case '<' -> head + body + fill.repeat(missing);
        case '^' -> fill.repeat(missing / 2) + head + body + fill.repeat(missing - missing / 2);
        case '=' -> head + fill.repeat(missing) + body;
        default -> fill.repeat(missing) + head + body;
      };
    }
  }
}
