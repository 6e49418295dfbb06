// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static java.nio.charset.StandardCharsets.UTF_8;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonRead.Document;
import io.kvoy.inference.json.JsonRead.Failure;
import io.kvoy.inference.json.JsonRead.Member;
import io.kvoy.inference.json.JsonRead.Reason;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads a JSON document of bytes into a {@link Json} tree with the meaning that Python's {@code
 * json.loads(bytes)} gives it, which is what FastAPI and so vLLM do with a request body.
 *
 * <p>Where strict JSON and Python differ, Python wins: {@code NaN}, {@code Infinity} and {@code
 * -Infinity} are numbers; a leading UTF-8 byte order mark is skipped; {@code 1e999} is infinity;
 * integers have up to 4300 digits; the last of equal keys wins and keeps the first one's place;
 * surrogates may stand alone. Anything after the value but whitespace is an error. UTF-16 and
 * UTF-32, which Python detects, are reported as {@link Reason#NOT_UTF8}, not read.
 *
 * <p>Written by hand because no library reads these rules: Jackson 3.3 refuses lone surrogates in
 * keys and encoded ones anywhere, takes {@code INF}, and knows byte offsets on one of its two paths
 * only.
 *
 * <p>Never throws for bad input, and a failure carries an offset and a reason, never text of the
 * body. Immutable; called on any thread.
 */
public final class JsonReader {
  /** Longest UTF-8 form of one code point. */
  private static final int MAX_UTF8_BYTES = 4;

  private static final byte[] NO_BYTES = {};
  private static final Json EMPTY_OBJECT = Json.Obj.of(Map.of());
  private static final Json EMPTY_ARRAY = new Json.Arr(List.of());

  private final JsonLimits limits;

  public JsonReader(JsonLimits limits) {
    this.limits = limits;
  }

  /** Reads the whole document. */
  public JsonRead read(byte[] body) {
    if (body.length > limits.maxDocumentBytes()) {
      return new Failure(Reason.TOO_LARGE, limits.maxDocumentBytes());
    }
    if (looksLikeWideUnicode(body)) {
      return new Failure(Reason.NOT_UTF8, 0);
    }
    Utf8Scan scan = Utf8Scan.of(body);
    if (scan.errorOffset() >= 0) {
      return new Failure(Reason.ENCODING, scan.errorOffset());
    }
    try {
      return new Reading(body, hasByteOrderMark(body) ? 3 : 0, scan.hasSurrogates(), limits)
          .document();
    } catch (Refused refused) {
      return new Failure(refused.reason, refused.byteOffset);
    }
  }

  /** {@code json.detect_encoding}: a UTF-16/32 mark, or a zero byte among the first two. */
  private static boolean looksLikeWideUnicode(byte[] body) {
    if (body.length < 2) {
      return false;
    }
    int first = body[0] & 0xFF;
    int second = body[1] & 0xFF;
    boolean mark = (first == 0xFF && second == 0xFE) || (first == 0xFE && second == 0xFF);
    return mark || first == 0 || second == 0;
  }

  private static boolean hasByteOrderMark(byte[] body) {
    return body.length >= 3
        && (body[0] & 0xFF) == 0xEF
        && (body[1] & 0xFF) == 0xBB
        && (body[2] & 0xFF) == 0xBF;
  }

  /**
   * State of one reading; lives on one thread's stack. Every read of {@code body} is checked
   * against its length.
   */
  private static final class Reading {
    private final byte[] body;
    private final boolean hasEncodedSurrogates;
    private final JsonLimits limits;
    private final List<Member> members = new ArrayList<>();
    private byte[] unescaped = NO_BYTES;
    private boolean loneSurrogate;
    private int at;
    private int depth;
    private int elements;

    Reading(byte[] body, int start, boolean hasEncodedSurrogates, JsonLimits limits) {
      this.body = body;
      this.at = start;
      this.hasEncodedSurrogates = hasEncodedSurrogates;
      this.loneSurrogate = hasEncodedSurrogates;
      this.limits = limits;
    }

    Document document() {
      skipSpace();
      if (at == body.length) {
        throw new Refused(Reason.EMPTY, at);
      }
      Json value = value();
      skipSpace();
      if (at < body.length) {
        throw syntax(at);
      }
      return new Document(value, members, loneSurrogate);
    }

    private Json value() {
      count();
      return switch (peek()) {
        case '{' -> object();
        case '[' -> array();
        case '"' -> new Json.Str(string());
        case 't' -> literal("true", new Json.Bool(true));
        case 'f' -> literal("false", new Json.Bool(false));
        case 'n' -> literal("null", Json.Null.NULL);
        case 'N' -> literal("NaN", new Json.Real(Double.NaN));
        case 'I' -> literal("Infinity", new Json.Real(Double.POSITIVE_INFINITY));
        case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9' -> number();
        default -> throw syntax(at);
      };
    }

    private Json object() {
      enter();
      boolean topLevel = depth == 1;
      at++;
      skipSpace();
      if (peek() == '}') {
        return leave(EMPTY_OBJECT);
      }
      LinkedHashMap<String, Json> fields = new LinkedHashMap<>();
      while (true) {
        if (peek() != '"') {
          throw syntax(at);
        }
        count();
        int keyStart = at;
        String key = string();
        int keyEnd = at;
        skipSpace();
        if (peek() != ':') {
          throw syntax(at);
        }
        at++;
        skipSpace();
        int valueStart = at;
        fields.put(key, value());
        if (topLevel) {
          members.add(new Member(key, keyStart, keyEnd, valueStart, at));
        }
        skipSpace();
        if (peek() == '}') {
          return leave(new Json.Obj(fields));
        }
        comma();
      }
    }

    private Json array() {
      enter();
      at++;
      skipSpace();
      if (peek() == ']') {
        return leave(EMPTY_ARRAY);
      }
      List<Json> items = new ArrayList<>();
      while (true) {
        items.add(value());
        skipSpace();
        if (peek() == ']') {
          return leave(new Json.Arr(items));
        }
        comma();
      }
    }

    private void enter() {
      if (++depth > limits.maxDepth()) {
        throw new Refused(Reason.TOO_DEEP, at);
      }
    }

    private Json leave(Json container) {
      at++;
      depth--;
      return container;
    }

    private void comma() {
      if (peek() != ',') {
        throw syntax(at);
      }
      at++;
      skipSpace();
    }

    private Json literal(String word, Json value) {
      for (int i = 0; i < word.length(); i++) {
        if (at + i >= body.length || body[at + i] != word.charAt(i)) {
          throw syntax(Math.min(at + i, body.length));
        }
      }
      at += word.length();
      return value;
    }

    private Json number() {
      int start = at;
      boolean negative = body[at] == '-';
      if (negative) {
        at++;
        if (peek() == 'I') {
          return literal("Infinity", new Json.Real(Double.NEGATIVE_INFINITY));
        }
      }
      int digitsStart = at;
      if (peek() == '0') {
        at++;
      } else {
        digits();
      }
      int digitsEnd = at;
      boolean real = false;
      if (at < body.length && body[at] == '.') {
        at++;
        digits();
        real = true;
      }
      if (at < body.length && (body[at] | 0x20) == 'e') {
        at++;
        if (at < body.length && (body[at] == '+' || body[at] == '-')) {
          at++;
        }
        digits();
        real = true;
      }
      if (at - start > limits.maxNumberChars()) {
        throw new Refused(Reason.NUMBER_TOO_LONG, start);
      }
      if (real) {
        return new Json.Real(Double.parseDouble(ascii(start, at)));
      }
      return integer(start, digitsStart, digitsEnd, negative);
    }

    private Json integer(int start, int digitsStart, int digitsEnd, boolean negative) {
      int digits = digitsEnd - digitsStart;
      if (digits <= 18) {
        long value = 0;
        for (int i = digitsStart; i < digitsEnd; i++) {
          value = value * 10 + (body[i] - '0');
        }
        return new Json.Int(negative ? -value : value);
      }
      if (digits > JsonLimits.PYTHON_MAX_INT_DIGITS) {
        throw new Refused(Reason.NUMBER_TOO_LONG, start);
      }
      BigInteger value = new BigInteger(ascii(start, digitsEnd));
      return value.bitLength() < Long.SIZE
          ? new Json.Int(value.longValue())
          : new Json.BigInt(value);
    }

    /** One digit or more. */
    private void digits() {
      int start = at;
      while (at < body.length && body[at] >= '0' && body[at] <= '9') {
        at++;
      }
      if (at == start) {
        throw syntax(at);
      }
    }

    private String string() {
      int start = ++at;
      int seen = 0;
      int i = start;
      while (i < body.length) {
        byte b = body[i];
        if (b == '"') {
          at = i + 1;
          return bounded(text(start, i, seen), start);
        }
        if (b == '\\') {
          at = i;
          return bounded(escapedString(start), start);
        }
        if (b >= 0 && b < 0x20) {
          throw syntax(i);
        }
        seen |= b;
        i++;
      }
      throw syntax(body.length);
    }

    /**
     * A string from its first escape on; {@code at} is there, {@code start} behind the opening
     * quote. Unescaped into a buffer that all strings of the document share: an escape is never
     * shorter than the UTF-8 it stands for, so the body's length bounds it.
     */
    private String escapedString(int start) {
      int length = 0;
      int runStart = start;
      boolean lone = false;
      while (at < body.length) {
        byte b = body[at];
        if (b == '"') {
          length = appendRun(runStart, length);
          at++;
          loneSurrogate |= lone;
          return lone || hasEncodedSurrogates
              ? SurrogatePass.decode(unescaped, 0, length)
              : new String(unescaped, 0, length, UTF_8);
        }
        if (b == '\\') {
          length = appendRun(runStart, length);
          int codePoint = joined(escape());
          lone |= codePoint >= Character.MIN_SURROGATE && codePoint <= Character.MAX_SURROGATE;
          length = SurrogatePass.encode(codePoint, unescaped, length);
          runStart = at;
        } else if (b >= 0 && b < 0x20) {
          throw syntax(at);
        } else {
          at++;
        }
      }
      throw syntax(body.length);
    }

    /** Copies the run up to {@code at} and leaves room for one escape. */
    private int appendRun(int runStart, int length) {
      int run = at - runStart;
      int needed = length + run + MAX_UTF8_BYTES;
      if (unescaped.length < needed) {
        unescaped = Arrays.copyOf(unescaped, Math.max(needed, 2 * unescaped.length));
      }
      System.arraycopy(body, runStart, unescaped, length, run);
      return length + run;
    }

    /**
     * The code point of an escaped high surrogate and the escape of a low one behind it; else the
     * character itself.
     */
    private int joined(char c) {
      boolean escapeFollows = at + 1 < body.length && body[at] == '\\' && body[at + 1] == 'u';
      if (!Character.isHighSurrogate(c) || !escapeFollows) {
        return c;
      }
      int before = at;
      char low = escape();
      if (Character.isLowSurrogate(low)) {
        return Character.toCodePoint(c, low);
      }
      at = before;
      return c;
    }

    private char escape() {
      at++;
      int kind = peek();
      at++;
      return switch (kind) {
        case '"' -> '"';
        case '\\' -> '\\';
        case '/' -> '/';
        case 'b' -> '\b';
        case 'f' -> '\f';
        case 'n' -> '\n';
        case 'r' -> '\r';
        case 't' -> '\t';
        case 'u' -> {
          int value = 0;
          for (int i = 0; i < 4; i++) {
            int digit = Character.digit((char) peek(), 16);
            if (digit < 0) {
              throw syntax(at);
            }
            value = value << 4 | digit;
            at++;
          }
          yield (char) value;
        }
        default -> throw syntax(at - 1);
      };
    }

    /**
     * The text of these bytes, which hold no escape.
     *
     * @param seen all bytes or-ed together: negative when one of them is outside ASCII
     */
    private String text(int from, int to, int seen) {
      if (seen >= 0) {
        return ascii(from, to);
      }
      return hasEncodedSurrogates
          ? SurrogatePass.decode(body, from, to)
          : new String(body, from, to - from, UTF_8);
    }

    private String ascii(int from, int to) {
      return new String(body, from, to - from, ISO_8859_1);
    }

    private String bounded(String text, int start) {
      if (text.length() > limits.maxStringChars()) {
        throw new Refused(Reason.STRING_TOO_LONG, start - 1L);
      }
      return text;
    }

    private void skipSpace() {
      while (at < body.length) {
        byte b = body[at];
        if (b != ' ' && b != '\n' && b != '\r' && b != '\t') {
          return;
        }
        at++;
      }
    }

    /** The byte here; the end of the body is a syntax error. */
    private int peek() {
      if (at >= body.length) {
        throw syntax(body.length);
      }
      return body[at];
    }

    private void count() {
      if (++elements > limits.maxElements()) {
        throw new Refused(Reason.TOO_MANY_ELEMENTS, at);
      }
    }

    private static Refused syntax(int offset) {
      return new Refused(Reason.SYNTAX, offset);
    }
  }

  /** Leaves the recursion; never leaves this class, and so needs no stack trace. */
  private static final class Refused extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final Reason reason;
    private final long byteOffset;

    Refused(Reason reason, long byteOffset) {
      super(reason.metricWord(), null, false, false);
      this.reason = reason;
      this.byteOffset = byteOffset;
    }
  }
}
