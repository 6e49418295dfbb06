// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonRead.Document;
import io.kvoy.inference.json.JsonRead.Failure;
import io.kvoy.inference.json.JsonRead.Member;
import io.kvoy.inference.json.JsonRead.Reason;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;
import tools.jackson.core.ObjectReadContext;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.StreamReadFeature;
import tools.jackson.core.TokenStreamFactory;
import tools.jackson.core.TokenStreamLocation;
import tools.jackson.core.exc.StreamConstraintsException;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.core.json.JsonReadFeature;

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
 * <p>Never throws for bad input, and a failure carries an offset and a reason, never text of the
 * body. Immutable; called on any thread.
 */
public final class JsonReader {
  private final JsonLimits limits;
  private final TokenStreamFactory factory;

  public JsonReader(JsonLimits limits) {
    this.limits = limits;
    this.factory =
        JsonFactory.builder()
            .enable(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS)
            // Keys are the caller's choice: neither interned nor kept in a shared symbol table.
            .disable(TokenStreamFactory.Feature.INTERN_PROPERTY_NAMES)
            .disable(TokenStreamFactory.Feature.CANONICALIZE_PROPERTY_NAMES)
            .disable(StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION)
            .streamReadConstraints(
                StreamReadConstraints.builder()
                    // Own counters refuse first and know the reason; these are the net below.
                    .maxNestingDepth(limits.maxDepth() + 1)
                    .maxStringLength(limits.maxStringChars())
                    .maxNameLength(limits.maxStringChars())
                    .maxNumberLength(limits.maxNumberChars())
                    .build())
            .build();
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
    int start = hasByteOrderMark(body) ? 3 : 0;
    try (JsonParser parser =
        factory.createParser(ObjectReadContext.empty(), body, start, body.length - start)) {
      return new Reading(parser, body, start, scan.mayHoldSurrogates(), limits).document();
    }
  }

  /** {@code json.detect_encoding}: a UTF-16/32 mark, or a zero byte among the first four. */
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

  /** State of one reading; lives on one thread's stack. */
  private static final class Reading {
    private final JsonParser parser;
    private final byte[] body;
    private final int start;
    private final boolean lookForSurrogates;
    private final JsonLimits limits;
    private final List<Member> members = new ArrayList<>();
    private boolean loneSurrogate;
    private int depth;
    private int elements;

    Reading(
        JsonParser parser, byte[] body, int start, boolean lookForSurrogates, JsonLimits limits) {
      this.parser = parser;
      this.body = body;
      this.start = start;
      this.lookForSurrogates = lookForSurrogates;
      this.limits = limits;
    }

    JsonRead document() {
      try {
        JsonToken first = parser.nextToken();
        if (first == null) {
          return new Failure(Reason.EMPTY, body.length);
        }
        Json value = first == JsonToken.START_OBJECT ? topLevelObject() : value(first);
        if (parser.nextToken() != null) {
          return new Failure(Reason.SYNTAX, tokenStart());
        }
        return new Document(value, members, loneSurrogate);
      } catch (Refused refused) {
        return new Failure(refused.reason, refused.byteOffset);
      } catch (StreamConstraintsException e) {
        return new Failure(constraintOf(parser.currentToken()), offsetOf(e));
      } catch (JacksonException e) {
        return new Failure(Reason.SYNTAX, offsetOf(e));
      }
    }

    private Json value(JsonToken token) {
      count();
      return switch (token) {
        case START_OBJECT -> object();
        case START_ARRAY -> array();
        case VALUE_STRING -> new Json.Str(string());
        case VALUE_NUMBER_INT -> integer();
        case VALUE_NUMBER_FLOAT -> real();
        case VALUE_TRUE -> new Json.Bool(true);
        case VALUE_FALSE -> new Json.Bool(false);
        case VALUE_NULL -> Json.Null.NULL;
        case END_ARRAY, END_OBJECT, PROPERTY_NAME, NOT_AVAILABLE, VALUE_EMBEDDED_OBJECT ->
            throw new IllegalStateException("no value starts with " + token);
      };
    }

    private Json topLevelObject() {
      count();
      enter();
      LinkedHashMap<String, Json> fields = new LinkedHashMap<>();
      while (next() != JsonToken.END_OBJECT) {
        count();
        int keyStart = tokenStart();
        String key = string();
        int keyEnd = position();
        JsonToken token = next();
        int valueStart = tokenStart();
        fields.put(key, value(token));
        members.add(new Member(key, keyStart, keyEnd, valueStart, position()));
      }
      depth--;
      return new Json.Obj(fields);
    }

    private Json object() {
      enter();
      LinkedHashMap<String, Json> fields = new LinkedHashMap<>();
      while (next() != JsonToken.END_OBJECT) {
        count();
        String key = string();
        fields.put(key, value(next()));
      }
      depth--;
      return new Json.Obj(fields);
    }

    private Json array() {
      enter();
      List<Json> items = new ArrayList<>();
      for (JsonToken token = next(); token != JsonToken.END_ARRAY; token = next()) {
        items.add(value(token));
      }
      depth--;
      return new Json.Arr(items);
    }

    private Json integer() {
      int length = parser.getStringLength();
      if (length <= 18) {
        return new Json.Int(parser.getLongValue());
      }
      if (length > JsonLimits.PYTHON_MAX_INT_DIGITS + 1) {
        throw new Refused(Reason.NUMBER_TOO_LONG, tokenStart());
      }
      BigInteger value = new BigInteger(parser.getString());
      return value.bitLength() < Long.SIZE
          ? new Json.Int(value.longValue())
          : new Json.BigInt(value);
    }

    private Json real() {
      String text = parser.getString();
      char first = text.charAt(0);
      if (first == '-' ? text.charAt(1) <= '9' : first <= '9') {
        return new Json.Real(Double.parseDouble(text));
      }
      // Jackson knows more names than Python does.
      return switch (text) {
        case "NaN" -> new Json.Real(Double.NaN);
        case "Infinity" -> new Json.Real(Double.POSITIVE_INFINITY);
        case "-Infinity" -> new Json.Real(Double.NEGATIVE_INFINITY);
        default -> throw new Refused(Reason.SYNTAX, tokenStart());
      };
    }

    private String string() {
      String text = parser.getString();
      if (text.length() > limits.maxStringChars()) {
        throw new Refused(Reason.STRING_TOO_LONG, tokenStart());
      }
      if (lookForSurrogates && !loneSurrogate) {
        loneSurrogate = LoneSurrogates.in(text);
      }
      return text;
    }

    private JsonToken next() {
      JsonToken token = parser.nextToken();
      if (token == null) {
        throw new Refused(Reason.SYNTAX, body.length);
      }
      return token;
    }

    private void enter() {
      if (++depth > limits.maxDepth()) {
        throw new Refused(Reason.TOO_DEEP, tokenStart());
      }
    }

    private void count() {
      if (++elements > limits.maxElements()) {
        throw new Refused(Reason.TOO_MANY_ELEMENTS, tokenStart());
      }
    }

    private int tokenStart() {
      return start + (int) parser.currentTokenLocation().getByteOffset();
    }

    private int position() {
      return start + (int) parser.currentLocation().getByteOffset();
    }

    private long offsetOf(JacksonException e) {
      TokenStreamLocation location = e.getLocation();
      long offset = location == null ? -1 : location.getByteOffset();
      return offset < 0 ? body.length : Math.min(start + offset, body.length);
    }

    private static Reason constraintOf(@Nullable JsonToken token) {
      if (token == JsonToken.VALUE_NUMBER_INT || token == JsonToken.VALUE_NUMBER_FLOAT) {
        return Reason.NUMBER_TOO_LONG;
      }
      return token == JsonToken.START_ARRAY || token == JsonToken.START_OBJECT
          ? Reason.TOO_DEEP
          : Reason.STRING_TOO_LONG;
    }
  }

  /**
   * Leaves the recursion when a bound is crossed; never leaves this class, and so needs no stack
   * trace.
   */
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
