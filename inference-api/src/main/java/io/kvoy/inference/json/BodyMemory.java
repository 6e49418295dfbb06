// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import io.kvoy.inference.Json;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * Remembers long documents that were read lately, so that one that begins with the same bytes is
 * read only from where it differs: a request of a conversation repeats all messages before it.
 *
 * <p>What is remembered of a document are its bytes and the elements of the longest array in its
 * top-level object, with the byte offsets where they end. Of a document that begins alike, the
 * elements that end within the common bytes are the very same objects; what comes before the array
 * and behind these elements is read as ever. So a document means the same with and without.
 *
 * <p>Documents are found by a few bytes in front of a power of two, the greatest first, and then
 * compared byte by byte: what a client chose to be found together costs a comparison, no more.
 *
 * <p>Threads: any, without a lock. Memory: at most {@code maxBytes} by the account of each
 * document; of two halves the older one is dropped whole when the younger one is full, and what is
 * found in the older one moves to the younger.
 */
public final class BodyMemory {

  /** Shorter documents are read sooner than looked for. */
  private static final int MIN_BYTES = 1 << 12;

  /** Bytes in front of a power of two that say where to look. */
  static final int SAMPLE_BYTES = 64;

  /** What an element takes besides its text. */
  private static final int ELEMENT_BYTES = 100;

  /** A single document may take this share of a half. */
  private static final int MAX_SHARE = 8;

  private final long maxBytes;
  private final int minBytes;
  private final AtomicLong youngBytes = new AtomicLong();
  private volatile Halves halves = new Halves(new ConcurrentHashMap<>(), Map.of());

  private record Halves(Map<Long, Known> young, Map<Long, Known> old) {}

  /**
   * @param maxBytes of all documents; 0 remembers nothing
   */
  public BodyMemory(long maxBytes) {
    this(maxBytes, MIN_BYTES);
  }

  /**
   * @param minBytes of a document that is remembered, at least {@link #SAMPLE_BYTES}
   */
  BodyMemory(long maxBytes, int minBytes) {
    this.maxBytes = maxBytes;
    this.minBytes = minBytes;
  }

  /**
   * A document and the elements of one of its arrays.
   *
   * @param body the whole document
   * @param start offset of the array's bracket
   * @param ends offset behind each element
   * @param counts number of values from the bracket on up to each element, parts included
   */
  @SuppressWarnings("ArrayRecordComponent") // compared nowhere
  record Known(byte[] body, int start, List<Json> elements, int[] ends, int[] counts) {

    int end() {
      return ends[ends.length - 1];
    }

    long bytes() {
      // The bytes, the text read from them, and the values.
      return 2L * body.length + (long) ELEMENT_BYTES * counts[counts.length - 1];
    }

    /** Number of elements that a document has too whose first {@code common} bytes are these. */
    int shared(int common) {
      int found = Arrays.binarySearch(ends, common);
      int count = found < 0 ? -found - 1 : found + 1;
      // A number may go on; an object is over.
      boolean isOver =
          count == 0 || ends[count - 1] < common || elements.get(count - 1) instanceof Json.Obj;
      return isOver ? count : count - 1;
    }
  }

  /**
   * What a document shares with one that is remembered.
   *
   * @param elements number of elements, at least 1
   */
  record Shared(Known known, int elements) {
    int end() {
      return known.ends[elements - 1];
    }

    int count() {
      return known.counts[elements - 1];
    }
  }

  /** The remembered document that has most in common, or about so; null when none has anything. */
  @Nullable Shared find(byte[] body) {
    if (maxBytes == 0 || body.length < minBytes) {
      return null;
    }
    Halves now = halves;
    for (int power = Integer.highestOneBit(body.length); power >= minBytes; power >>= 1) {
      Long place = place(body, power);
      Known known = now.young.get(place);
      if (known == null) {
        known = now.old.get(place);
        if (known != null) {
          put(place, known);
        }
      }
      if (known != null) {
        int differs = Arrays.mismatch(known.body, body);
        int elements = known.shared(differs < 0 ? body.length : differs);
        if (elements > 0) {
          return new Shared(known, elements);
        }
      }
    }
    return null;
  }

  /** Remembers a document, in place of the one that was found as this will be. */
  void keep(Known known) {
    if (known.end() >= minBytes && known.bytes() <= maxBytes / 2 / MAX_SHARE) {
      put(place(known.body, Integer.highestOneBit(known.end())), known);
    }
  }

  private void put(Long place, Known known) {
    Known before = halves.young.put(place, known);
    long more = known.bytes() - (before == null ? 0 : before.bytes());
    if (youngBytes.addAndGet(more) > maxBytes / 2) {
      retire();
    }
  }

  /** Two threads here at once drop a little more than they need to. */
  private void retire() {
    halves = new Halves(new ConcurrentHashMap<>(), halves.young);
    youngBytes.set(0);
  }

  private static Long place(byte[] body, int power) {
    long place = power;
    for (int at = power - SAMPLE_BYTES; at < power; at += Long.BYTES) {
      place = (place ^ EightBytes.at(body, at)) * 0x9E3779B97F4A7C15L;
      place ^= place >>> 32;
    }
    return place;
  }
}
