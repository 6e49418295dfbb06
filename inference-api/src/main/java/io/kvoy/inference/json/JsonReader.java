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
import org.jspecify.annotations.Nullable;

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
  /** Room for eight bytes of text and one escape, at most four bytes of UTF-8. */
  private static final int ROOM_BYTES = 16;

  /** Depth of what lies right in the top-level container. */
  private static final int MEMBER_DEPTH = 2;

  private static final byte[] NO_BYTES = {};

  /** What a letter behind a backslash stands for; 0 for those that are none or need more. */
  private static final byte[] SHORT_ESCAPES = shortEscapes();

  private static final Json EMPTY_OBJECT = Json.Obj.of(Map.of());
  private static final Json EMPTY_ARRAY = new Json.Arr(List.of());

  private static byte[] shortEscapes() {
    var plain = new byte[256];
    plain['"'] = '"';
    plain['\\'] = '\\';
    plain['/'] = '/';
    plain['b'] = '\b';
    plain['f'] = '\f';
    plain['n'] = '\n';
    plain['r'] = '\r';
    plain['t'] = '\t';
    return plain;
  }

  private static final BodyMemory NO_MEMORY = new BodyMemory(0);

  private final JsonLimits limits;
  private final BodyMemory memory;

  public JsonReader(JsonLimits limits) {
    this(limits, NO_MEMORY);
  }

  /**
   * @param memory of documents read with these limits
   */
  public JsonReader(JsonLimits limits, BodyMemory memory) {
    this.limits = limits;
    this.memory = memory;
  }

  /** Reads the whole document; with a memory, the array must not change afterwards. */
  public JsonRead read(byte[] body) {
    if (body.length > limits.maxDocumentBytes()) {
      return new Failure(Reason.TOO_LARGE, limits.maxDocumentBytes());
    }
    if (looksLikeWideUnicode(body)) {
      return new Failure(Reason.NOT_UTF8, 0);
    }
    BodyMemory.Shared shared = memory.find(body);
    // What is shared is known to be UTF-8 without surrogates.
    Utf8Scan scan = Utf8Scan.of(body, shared == null ? 0 : shared.end());
    if (scan.errorOffset() >= 0) {
      return new Failure(Reason.ENCODING, scan.errorOffset());
    }
    try {
      Reading reading =
          new Reading(
              body,
              hasByteOrderMark(body) ? 3 : 0,
              scan.hasSurrogates(),
              limits,
              memory.isFor(body.length),
              shared);
      Document document = reading.document();
      BodyMemory.Known longest = reading.longest;
      if (longest != null && !document.hasLoneSurrogate()) {
        memory.keep(longest);
      }
      return document;
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
    private final boolean isRemembered;
    private final BodyMemory.@Nullable Shared shared;
    private byte[] unescaped = NO_BYTES;
    private boolean loneSurrogate;

    /** The longest array of the top-level object, if the document is remembered. */
    private BodyMemory.@Nullable Known longest;

    /** Whether the text that {@link #runEnd} passed last is ASCII. */
    private boolean isAsciiRun;

    private int at;
    private int depth;
    private int elements;

    Reading(
        byte[] body,
        int start,
        boolean hasEncodedSurrogates,
        JsonLimits limits,
        boolean isRemembered,
        BodyMemory.@Nullable Shared shared) {
      this.body = body;
      this.at = start;
      this.hasEncodedSurrogates = hasEncodedSurrogates;
      this.loneSurrogate = hasEncodedSurrogates;
      this.limits = limits;
      this.isRemembered = isRemembered;
      this.shared = shared;
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
      int start = at++;
      skipSpace();
      if (peek() == ']') {
        return leave(EMPTY_ARRAY);
      }
      if (isRemembered && depth == MEMBER_DEPTH) {
        return memberArray(start);
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

    /** An array with elements right in the top-level container, at the first one. */
    private Json memberArray(int start) {
      int counted = elements;
      Ends ends = new Ends();
      List<Json> items = new ArrayList<>();
      if (shared != null && shared.known().start() == start) {
        items.addAll(shared.known().elements().subList(0, shared.elements()));
        ends.add(shared);
        at = shared.end();
        elements += shared.count();
      } else {
        items.add(value());
        ends.add(at, elements - counted);
      }
      while (true) {
        skipSpace();
        if (peek() == ']') {
          Json.Arr array = new Json.Arr(items);
          if (longest == null || at - start > longest.end() - longest.start()) {
            longest = ends.known(body, start, array.items());
          }
          return leave(array);
        }
        comma();
        items.add(value());
        ends.add(at, elements - counted);
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
      int end = runEnd(start);
      if (body[end] == '\\') {
        return bounded(escapedString(start, end), start);
      }
      at = end + 1;
      String text =
          hasEncodedSurrogates && !isAsciiRun
              ? SurrogatePass.decode(body, start, end)
              : new String(body, start, end - start, isAsciiRun ? ISO_8859_1 : UTF_8);
      return bounded(text, start);
    }

    /**
     * Where the plain text from {@code from} on ends, at a quote or a backslash; {@link
     * #isAsciiRun} says what it was made of.
     */
    private int runEnd(int from) {
      int i = from;
      long seen = 0;
      for (int last = body.length - Long.BYTES; i <= last; i += Long.BYTES) {
        long eight = EightBytes.at(body, i);
        long ends = EightBytes.endsOfText(eight);
        if (ends != 0) {
          i += EightBytes.first(ends);
          isAsciiRun = !EightBytes.hasNonAscii(seen | EightBytes.before(eight, ends));
          return checkedEnd(i);
        }
        seen |= eight;
      }
      for (; i < body.length; i++) {
        byte b = body[i];
        if (b == '"' || b == '\\' || (b >= 0 && b < 0x20)) {
          isAsciiRun = !EightBytes.hasNonAscii(seen);
          return checkedEnd(i);
        }
        seen |= b;
      }
      throw syntax(body.length);
    }

    private int checkedEnd(int end) {
      if (body[end] < 0x20) {
        throw syntax(end);
      }
      return end;
    }

    /**
     * A string with an escape, the first one at {@code firstEscape}; {@code start} is behind the
     * opening quote. Unescaped into a buffer that all strings of the document share: an escape is
     * never shorter than the UTF-8 it stands for, so the body's length bounds it.
     */
    private String escapedString(int start, int firstEscape) {
      int length = firstEscape - start;
      byte[] out = unescapedWithRoom(length);
      System.arraycopy(body, start, out, 0, length);
      long seen = isAsciiRun ? 0 : -1;
      boolean lone = false;
      int last = body.length - Long.BYTES;
      int i = firstEscape;
      while (true) {
        if (length > out.length - ROOM_BYTES) {
          out = unescapedWithRoom(length);
        }
        if (i <= last) {
          // Also copies what is no text, which is then written over: source code has an escape
          // every dozen bytes, and a copy of each run would cost more.
          long eight = EightBytes.at(body, i);
          long ends = EightBytes.endsOfText(eight);
          EightBytes.put(out, length, eight);
          int text = ends == 0 ? Long.BYTES : EightBytes.first(ends);
          seen |= ends == 0 ? eight : EightBytes.before(eight, ends);
          i += text;
          length += text;
          if (ends == 0) {
            continue;
          }
        } else if (i == body.length) {
          throw syntax(i);
        }
        byte b = body[i];
        if (b == '"') {
          break;
        }
        if (b == '\\') {
          byte plain = i + 1 < body.length ? SHORT_ESCAPES[body[i + 1] & 0xFF] : 0;
          if (plain != 0) {
            out[length++] = plain;
            i += 2;
          } else {
            at = i;
            int codePoint = joined(escape());
            i = at;
            lone |= codePoint >= Character.MIN_SURROGATE && codePoint <= Character.MAX_SURROGATE;
            seen |= codePoint < 0x80 ? 0 : -1;
            length = SurrogatePass.encode(codePoint, out, length);
          }
        } else if (b >= 0 && b < 0x20) {
          throw syntax(i);
        } else {
          out[length++] = b;
          seen |= b;
          i++;
        }
      }
      at = i + 1;
      loneSurrogate |= lone;
      return lone || hasEncodedSurrogates
          ? SurrogatePass.decode(out, 0, length)
          : new String(out, 0, length, EightBytes.hasNonAscii(seen) ? UTF_8 : ISO_8859_1);
    }

    /** The shared buffer with its first {@code length} bytes and {@link #ROOM_BYTES} behind. */
    private byte[] unescapedWithRoom(int length) {
      if (unescaped.length < length + ROOM_BYTES) {
        unescaped = Arrays.copyOf(unescaped, Math.max(length + ROOM_BYTES, 2 * unescaped.length));
      }
      return unescaped;
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

    /** Any escape; the low half of a pair comes here with whatever follows its backslash. */
    private char escape() {
      at++;
      int kind = peek();
      byte plain = SHORT_ESCAPES[kind & 0xFF];
      if (plain != 0) {
        at++;
        return (char) plain;
      }
      if (kind != 'u') {
        throw syntax(at);
      }
      at++;
      int value = 0;
      for (int i = 0; i < 4; i++) {
        int digit = Character.digit((char) peek(), 16);
        if (digit < 0) {
          throw syntax(at);
        }
        value = value << 4 | digit;
        at++;
      }
      return (char) value;
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

  /** Where the elements of an array end, and how many values there are up to each. */
  private static final class Ends {
    private int[] ends = new int[16];
    private int[] counts = new int[16];
    private int size;

    void add(BodyMemory.Shared shared) {
      size = shared.elements();
      ends = Arrays.copyOf(shared.known().ends(), size + 16);
      counts = Arrays.copyOf(shared.known().counts(), size + 16);
    }

    void add(int end, int count) {
      if (size == ends.length) {
        ends = Arrays.copyOf(ends, 2 * size);
        counts = Arrays.copyOf(counts, 2 * size);
      }
      ends[size] = end;
      counts[size++] = count;
    }

    BodyMemory.Known known(byte[] body, int start, List<Json> elements) {
      return new BodyMemory.Known(
          body, start, elements, Arrays.copyOf(ends, size), Arrays.copyOf(counts, size));
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
