// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import io.kvoy.inference.Json;
import java.util.List;

/**
 * What became of a JSON document. Holds no body text when it failed, so it may be logged and shown.
 */
public sealed interface JsonRead {

  /**
   * A whole, valid document.
   *
   * @param value its value
   * @param members byte ranges of the top-level fields in document order, repeated keys included;
   *     empty unless the value is an object
   * @param hasLoneSurrogate whether some string of the document holds half of a surrogate pair
   */
  record Document(Json value, List<Member> members, boolean hasLoneSurrogate) implements JsonRead {
    public Document {
      members = List.copyOf(members);
    }
  }

  /**
   * Not a document that Python's {@code json.loads} or our bounds accept.
   *
   * @param byteOffset where reading stopped, counted from the first byte of the body
   */
  record Failure(Reason reason, long byteOffset) implements JsonRead {}

  /**
   * One top-level field as bytes: {@code body[keyStart, keyEnd)} is the quoted key, {@code
   * body[valueStart, valueEnd)} the value without surrounding whitespace.
   */
  record Member(String key, int keyStart, int keyEnd, int valueStart, int valueEnd) {}

  /** Why a document was refused; the metric word is stable. */
  enum Reason {
    /** No value at all. */
    EMPTY("empty_body", "the body is empty"),
    /** Not JSON, cut off, or followed by something else. */
    SYNTAX("invalid_json", "the body is not valid JSON"),
    /** Bytes that are no UTF-8. */
    ENCODING("invalid_utf8", "the body is not valid UTF-8"),
    /** UTF-16 or UTF-32, which Python's {@code json.loads} detects and reads. */
    NOT_UTF8("not_utf8", "the body is not UTF-8"),
    TOO_LARGE("too_large", "the body is too large"),
    TOO_DEEP("too_deep", "the body is nested too deeply"),
    TOO_MANY_ELEMENTS("too_many_elements", "the body has too many elements"),
    STRING_TOO_LONG("string_too_long", "the body has a string that is too long"),
    NUMBER_TOO_LONG("number_too_long", "the body has a number that is too long");

    private final String metricWord;
    private final String sentence;

    Reason(String metricWord, String sentence) {
      this.metricWord = metricWord;
      this.sentence = sentence;
    }

    public String metricWord() {
      return metricWord;
    }

    /** Start of a sentence for the caller; the offset may follow. */
    public String sentence() {
      return sentence;
    }
  }
}
