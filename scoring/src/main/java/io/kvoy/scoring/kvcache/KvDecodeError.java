// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

/**
 * Why bytes from a publisher could not be read.
 *
 * @param kind for counting
 * @param detail what was expected, where, and what was there; holds no payload content
 */
public record KvDecodeError(Kind kind, String detail) implements KvDecode, KvMessage {

  /** Classes of errors, stable names for metrics. */
  public enum Kind {
    /** Not the number of frames that this kind of message has. */
    FRAME_COUNT,
    /** The sequence frame is not 8 bytes long. */
    SEQUENCE_FRAME,
    /** Several workers share a bound endpoint and the topic names none of them. */
    UNKNOWN_TOPIC,
    /** The payload ends early or has lengths beyond its end. */
    TRUNCATED,
    /** Not msgpack, or a value of another type than the field has. */
    TYPE,
    /** A required field is missing. */
    MISSING_FIELD,
    /** A number outside its range. */
    RANGE,
    /** More than the configured limits allow. */
    TOO_LARGE
  }
}
