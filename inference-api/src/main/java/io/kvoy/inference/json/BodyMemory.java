// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import io.kvoy.inference.Json;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
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
 * <p>Documents are found by a few bytes in front of one of eight lengths an octave, the greatest
 * first, and then compared byte by byte: what a client chose to be found together costs a
 * comparison, no more. So conversations that begin with the same long instructions are told apart
 * by what they have behind them.
 *
 * <p>Threads: any, without a lock. Memory: at most {@code maxBytes} by the account of each
 * document; of two halves the older one is dropped whole when the younger one is full, and what is
 * found in the older one moves to the younger.
 */
public final class BodyMemory {

  /** Shorter documents are read sooner than looked for. */
  private static final int MIN_BYTES = 1 << 12;

  /** Lengths are rounded to so many bits, the first one included. */
  private static final int LENGTH_BITS = 4;

  /** Bytes in front of such a length that say where to look. */
  static final int SAMPLE_BYTES = 64;

  /** What an element takes besides its text. */
  private static final int ELEMENT_BYTES = 100;

  /** A single document may take this share of a half. */
  private static final int MAX_SHARE = 8;

  private final long maxBytes;
  private final int minBytes;
  private final AtomicReference<Halves> halves =
      new AtomicReference<>(new Halves(new ConcurrentHashMap<>(), new AtomicLong(), Map.of()));

  private record Halves(Map<Long, Known> young, AtomicLong youngBytes, Map<Long, Known> old) {}

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
      // The bytes, the text read from them, which has two bytes a character if one of them is no
      // Latin letter, and the values.
      return 3L * body.length + (long) ELEMENT_BYTES * counts[counts.length - 1];
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

  /** Whether documents of this length are looked for and kept; most requests are shorter. */
  boolean isFor(int length) {
    return maxBytes > 0 && length >= minBytes;
  }

  /** The remembered document that has most in common, or about so; null when none has anything. */
  @Nullable Shared find(byte[] body) {
    if (!isFor(body.length)) {
      return null;
    }
    Halves now = halves.get();
    for (int length = rounded(body.length); length >= minBytes; length = rounded(length - 1)) {
      Long place = place(body, length);
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
      put(place(known.body, rounded(known.end())), known);
    }
  }

  private void put(Long place, Known known) {
    Halves now = halves.get();
    Known before = now.young.put(place, known);
    long more = known.bytes() - (before == null ? 0 : before.bytes());
    if (now.youngBytes.addAndGet(more) > maxBytes / 2) {
      halves.compareAndSet(now, new Halves(new ConcurrentHashMap<>(), new AtomicLong(), now.young));
    }
  }

  /** The greatest length up to this one that has only {@link #LENGTH_BITS} bits. */
  private static int rounded(int length) {
    int bits = Integer.SIZE - Integer.numberOfLeadingZeros(length);
    int below = Math.max(0, bits - LENGTH_BITS);
    return length >>> below << below;
  }

  private static Long place(byte[] body, int length) {
    long place = length;
    for (int at = length - SAMPLE_BYTES; at < length; at += Long.BYTES) {
      place = (place ^ EightBytes.at(body, at)) * 0x9E3779B97F4A7C15L;
      place ^= place >>> 32;
    }
    return place;
  }
}
