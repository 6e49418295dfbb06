// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.math.BigInteger;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/**
 * Cuts a template into tokens as Jinja2 3.1.6 does with {@code trim_blocks} and {@code
 * lstrip_blocks} on, the settings of transformers 5.19.
 *
 * <p>White space around tags, where most renderings go wrong: a minus at a tag's edge eats all
 * white space on that side. Without a sign, the line feed right after a block or comment is
 * dropped, and so is the indentation before it, when nothing else stands between it and the start
 * of its line. A plus keeps what is there. Variables ({@code {{ }}}) only know the minus. The last
 * line feed of the template is dropped.
 *
 * <p>One instance per template, one thread.
 */
final class Lexer {
  private final String source;
  private final List<Token> tokens = new ArrayList<>();
  private int pos;
  private int line = 1;

  /**
   * Whether the tag before {@code pos} ended with a line feed, so that an indentation may follow.
   */
  private boolean atLineStart = true;

  private Lexer(String source) {
    this.source = source;
  }

  /** All tokens of a template, the last one is EOF. */
  static List<Token> tokenize(String source) {
    String text = source.replace("\r\n", "\n").replace('\r', '\n');
    if (text.endsWith("\n")) {
      text = text.substring(0, text.length() - 1);
    }
    Lexer lexer = new Lexer(text);
    lexer.run();
    return lexer.tokens;
  }

  private void run() {
    while (pos < source.length()) {
      int tag = nextTag();
      if (tag < 0) {
        data(source.substring(pos));
        pos = source.length();
        break;
      }
      char kind = source.charAt(tag + 1);
      int inner = tag + 2;
      char sign = inner < source.length() ? source.charAt(inner) : 0;
      if (sign == '-' || sign == '+') {
        inner++;
      } else {
        sign = 0;
      }
      String before = source.substring(pos, tag);
      String kept = stripBefore(before, sign, kind);
      data(kept);
      line += count(before) - count(kept);
      int rawEnd = kind == '%' ? endOfRawBegin(inner) : -1;
      if (rawEnd >= 0) {
        advanceTo(tag, rawEnd);
        rawBody();
      } else if (kind == '#') {
        advanceTo(tag, inner);
        comment();
      } else if (kind == '%') {
        tokens.add(new Token(Token.Kind.BLOCK_BEGIN, "{%", "{%", line));
        pos = inner;
        tagBody('%');
      } else {
        tokens.add(new Token(Token.Kind.VARIABLE_BEGIN, "{{", "{{", line));
        pos = inner;
        tagBody('}');
      }
    }
    tokens.add(new Token(Token.Kind.EOF, "", "", line));
  }

  private int nextTag() {
    for (int i = source.indexOf('{', pos); i >= 0; i = source.indexOf('{', i + 1)) {
      if (i + 1 < source.length()) {
        char next = source.charAt(i + 1);
        if (next == '{' || next == '%' || next == '#') {
          return i;
        }
      }
    }
    return -1;
  }

  private void data(String text) {
    if (!text.isEmpty()) {
      tokens.add(new Token(Token.Kind.DATA, text, text, line));
      line += count(text);
    }
  }

  private String stripBefore(String text, char sign, char kind) {
    if (sign == '-') {
      return Unicode.stripEnd(text);
    }
    if (sign == '+' || kind == '{') {
      return text;
    }
    int lineStart = text.lastIndexOf('\n') + 1;
    if ((lineStart > 0 || atLineStart)
        && lineStart < text.length()
        && Unicode.isBlank(text, lineStart, text.length())) {
      return text.substring(0, lineStart);
    }
    return text;
  }

  private static int count(String text) {
    int newlines = 0;
    for (int i = text.indexOf('\n'); i >= 0; i = text.indexOf('\n', i + 1)) {
      newlines++;
    }
    return newlines;
  }

  private void advanceTo(int from, int to) {
    line += count(source.substring(from, to));
    pos = to;
  }

  /**
   * Position after {@code raw %}} when the block that starts at {@code inner} is a raw block, else
   * -1.
   */
  private int endOfRawBegin(int inner) {
    int i = skipSpace(inner);
    if (!source.startsWith("raw", i)) {
      return -1;
    }
    i = skipSpace(i + 3);
    if (source.startsWith("-%}", i)) {
      return skipSpace(i + 3);
    }
    return source.startsWith("%}", i) ? i + 2 : -1;
  }

  private void rawBody() {
    atLineStart = source.charAt(pos - 1) == '\n';
    for (int i = source.indexOf("{%", pos); i >= 0; i = source.indexOf("{%", i + 1)) {
      int inner = i + 2;
      char sign = inner < source.length() ? source.charAt(inner) : 0;
      if (sign == '-' || sign == '+') {
        inner++;
      } else {
        sign = 0;
      }
      int word = skipSpace(inner);
      if (!source.startsWith("endraw", word)) {
        continue;
      }
      int end = endOfBlock(skipSpace(word + 6));
      if (end < 0) {
        continue;
      }
      String body = source.substring(pos, i);
      String kept = stripBefore(body, sign, '%');
      data(kept);
      line += count(body) - count(kept);
      advanceTo(i, end);
      atLineStart = source.charAt(end - 1) == '\n';
      return;
    }
    throw ParseFailure.syntax(line, "missing end of raw block");
  }

  private void comment() {
    for (int i = source.indexOf("#}", pos); i >= 0; i = source.indexOf("#}", i + 1)) {
      int end = i + 2;
      char before = i > pos ? source.charAt(i - 1) : 0;
      if (before == '-') {
        end = skipSpace(end);
      } else if (before != '+' && end < source.length() && source.charAt(end) == '\n') {
        end++;
      }
      advanceTo(pos, end);
      atLineStart = source.charAt(end - 1) == '\n';
      return;
    }
    throw ParseFailure.syntax(line, "missing end of comment");
  }

  /** Position after the block end at {@code i} with what it trims, or -1 when there is none. */
  private int endOfBlock(int i) {
    if (source.startsWith("+%}", i)) {
      return i + 3;
    }
    if (source.startsWith("-%}", i)) {
      return skipSpace(i + 3);
    }
    if (source.startsWith("%}", i)) {
      return i + 2 < source.length() && source.charAt(i + 2) == '\n' ? i + 3 : i + 2;
    }
    return -1;
  }

  private int endOfVariable(int i) {
    if (source.startsWith("-}}", i)) {
      return skipSpace(i + 3);
    }
    return source.startsWith("}}", i) ? i + 2 : -1;
  }

  private int skipSpace(int from) {
    int i = from;
    while (i < source.length() && Unicode.isSpace(source.charAt(i))) {
      i++;
    }
    return i;
  }

  private void tagBody(char endMark) {
    Deque<Character> open = new ArrayDeque<>();
    while (true) {
      if (open.isEmpty()) {
        int end = endMark == '%' ? endOfBlock(pos) : endOfVariable(pos);
        if (end >= 0) {
          Token.Kind kind = endMark == '%' ? Token.Kind.BLOCK_END : Token.Kind.VARIABLE_END;
          tokens.add(new Token(kind, "", "", line));
          advanceTo(pos, end);
          atLineStart = source.charAt(end - 1) == '\n';
          return;
        }
      }
      if (pos >= source.length()) {
        // The parser names what is missing.
        return;
      }
      char c = source.charAt(pos);
      if (Unicode.isSpace(c)) {
        advanceTo(pos, skipSpace(pos));
      } else if (c >= '0' && c <= '9') {
        number();
      } else if (c == '_' || Character.isLetterOrDigit(source.codePointAt(pos))) {
        name();
      } else if (c == '\'' || c == '"') {
        string(c);
      } else {
        operator(open);
      }
    }
  }

  private void number() {
    int end = floatEnd();
    if (end > 0) {
      String digits = source.substring(pos, end);
      tokens.add(
          new Token(Token.Kind.FLOAT, digits, Double.valueOf(digits.replace("_", "")), line));
      pos = end;
      return;
    }
    char first = source.charAt(pos);
    char second =
        pos + 1 < source.length() ? Character.toLowerCase(source.charAt(pos + 1)) : (char) 0;
    int radix = first != '0' ? 10 : second == 'x' ? 16 : second == 'o' ? 8 : second == 'b' ? 2 : 10;
    int start = radix == 10 ? pos : pos + 2;
    end = digitsEnd(start, radix == 10 && first == '0' ? 1 : radix, radix != 10);
    if (end == start) {
      // "0x" without digits: a zero, then a name, as the expressions of Jinja2 have it.
      radix = 10;
      start = pos;
      end = pos + 1;
    }
    String digits = source.substring(pos, end);
    BigInteger value = new BigInteger(source.substring(start, end).replace("_", ""), radix);
    tokens.add(new Token(Token.Kind.INTEGER, digits, Numbers.shrink(value), line));
    pos = end;
  }

  /** End of the float at {@code pos}, or -1 when there is only an integer. */
  private int floatEnd() {
    if (pos > 0 && source.charAt(pos - 1) == '.') {
      return -1;
    }
    int i = digitsEnd(pos, 10, false);
    boolean isFloat = false;
    if (i < source.length() && source.charAt(i) == '.') {
      int end = digitsEnd(i + 1, 10, false);
      if (end > i + 1) {
        i = end;
        isFloat = true;
      }
    }
    if (i < source.length() && (source.charAt(i) == 'e' || source.charAt(i) == 'E')) {
      int exponent = i + 1;
      if (exponent < source.length()
          && (source.charAt(exponent) == '+' || source.charAt(exponent) == '-')) {
        exponent++;
      }
      int end = digitsEnd(exponent, 10, false);
      if (end > exponent) {
        i = end;
        isFloat = true;
      }
    }
    return isFloat ? i : -1;
  }

  /** End of the digits at {@code from}, single underscores between them included. */
  private int digitsEnd(int from, int radix, boolean leadingUnderscore) {
    int i = from;
    while (i < source.length()) {
      int digit = i;
      if (source.charAt(i) == '_' && (i > from || leadingUnderscore)) {
        digit++;
      }
      if (digit < source.length()
          && source.charAt(digit) < 128
          && (radix == 1
              ? source.charAt(digit) == '0'
              : Character.digit(source.charAt(digit), radix) >= 0)) {
        i = digit + 1;
      } else {
        break;
      }
    }
    return i;
  }

  private void name() {
    int end = pos;
    while (end < source.length()) {
      int c = source.codePointAt(end);
      if (c != '_' && !Character.isLetterOrDigit(c) && !Character.isUnicodeIdentifierPart(c)) {
        break;
      }
      end += Character.charCount(c);
    }
    String name = source.substring(pos, end);
    tokens.add(new Token(Token.Kind.NAME, name, name, line));
    pos = end;
  }

  private void string(char quote) {
    int end = pos + 1;
    while (end < source.length() && source.charAt(end) != quote) {
      end += source.charAt(end) == '\\' ? 2 : 1;
    }
    if (end >= source.length()) {
      throw ParseFailure.syntax(line, "string without end");
    }
    String text = unescape(source.substring(pos + 1, end));
    tokens.add(new Token(Token.Kind.STRING, text, text, line));
    advanceTo(pos, end + 1);
  }

  /**
   * Python's {@code unicode-escape} over the text with its non-ASCII characters written as escapes.
   */
  private String unescape(String text) {
    if (text.indexOf('\\') < 0) {
      return text;
    }
    StringBuilder out = new StringBuilder(text.length());
    int i = 0;
    while (i < text.length()) {
      char c = text.charAt(i++);
      if (c != '\\') {
        out.append(c);
        continue;
      }
      int escaped = text.codePointAt(i);
      i += Character.charCount(escaped);
      switch (escaped) {
        case '\n' -> {}
        case '\\', '\'', '"' -> out.append((char) escaped);
        case 'a' -> out.append('\u0007');
        case 'b' -> out.append('\b');
        case 'f' -> out.append('\f');
        case 'n' -> out.append('\n');
        case 'r' -> out.append('\r');
        case 't' -> out.append('\t');
        case 'v' -> out.append('\u000b');
        case 'x' -> i = hexEscape(text, i, 2, out);
        case 'u' -> i = hexEscape(text, i, 4, out);
        case 'U' -> i = hexEscape(text, i, 8, out);
        case 'N' -> i = namedEscape(text, i, out);
        case '0', '1', '2', '3', '4', '5', '6', '7' -> {
          int value = escaped - '0';
          for (int n = 0; n < 2 && i < text.length() && isOctal(text.charAt(i)); n++) {
            value = value * 8 + text.charAt(i++) - '0';
          }
          out.append((char) value);
        }
        default -> {
          out.append('\\');
          if (escaped < 128) {
            out.append((char) escaped);
          } else {
            // Its own escape lost the backslash to the one before it.
            String form = escaped < 0x100 ? "x%02x" : escaped < 0x10000 ? "u%04x" : "U%08x";
            out.append(String.format(java.util.Locale.ROOT, form, escaped));
          }
        }
      }
    }
    return out.toString();
  }

  private static boolean isOctal(char c) {
    return c >= '0' && c <= '7';
  }

  private int hexEscape(String text, int from, int digits, StringBuilder out) {
    if (from + digits > text.length()) {
      throw ParseFailure.syntax(line, "truncated escape in string");
    }
    int value = 0;
    for (int i = from; i < from + digits; i++) {
      int digit = text.charAt(i) < 128 ? Character.digit(text.charAt(i), 16) : -1;
      if (digit < 0) {
        throw ParseFailure.syntax(line, "truncated escape in string");
      }
      value = value * 16 + digit;
    }
    if (value < 0 || value > Character.MAX_CODE_POINT) {
      throw ParseFailure.syntax(line, "illegal Unicode character in string");
    }
    out.appendCodePoint(value);
    return from + digits;
  }

  private int namedEscape(String text, int from, StringBuilder out) {
    int end = text.indexOf('}', from);
    if (from >= text.length() || text.charAt(from) != '{' || end < 0) {
      throw ParseFailure.syntax(line, "malformed \\N character escape");
    }
    try {
      out.appendCodePoint(Character.codePointOf(text.substring(from + 1, end)));
    } catch (IllegalArgumentException e) {
      throw ParseFailure.syntax(line, "unknown Unicode character name");
    }
    return end + 1;
  }

  private void operator(Deque<Character> open) {
    String two = pos + 1 < source.length() ? source.substring(pos, pos + 2) : "";
    String operator =
        switch (two) {
          case "//", "**", "==", "!=", ">=", "<=" -> two;
          default -> source.substring(pos, pos + 1);
        };
    switch (operator) {
      case "(" -> open.push(')');
      case "[" -> open.push(']');
      case "{" -> open.push('}');
      case ")", "]", "}" -> {
        Character expected = open.poll();
        if (expected == null || expected != operator.charAt(0)) {
          throw ParseFailure.syntax(line, "unexpected '" + operator + "'");
        }
      }
      case "//",
          "**",
          "==",
          "!=",
          ">=",
          "<=",
          "+",
          "-",
          "/",
          "*",
          "%",
          "~",
          ">",
          "<",
          "=",
          ".",
          ":",
          "|",
          ",",
          ";" -> {}
      default -> throw ParseFailure.syntax(line, "unexpected character '" + operator + "'");
    }
    tokens.add(new Token(Token.Kind.OPERATOR, operator, operator, line));
    pos += operator.length();
  }
}
