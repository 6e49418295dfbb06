// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The token ids of a prompt. Immutable; prompts that begin alike share the memory of their
 * beginning, so that the next turn of a conversation costs no copy of it.
 */
public final class TokenIds {
  private final Shared shared;

  /** Ids that are the first ones of the shared memory. */
  private final int sharedLength;

  private final int[] own;

  /**
   * Memory that is only ever written behind what anybody reads of it.
   *
   * @param claimed how much is taken; who moves it writes there, before anybody else may read it
   */
  @SuppressWarnings("ArrayRecordComponent") // compared nowhere
  private record Shared(int[] ids, AtomicInteger claimed) {
    boolean claim(int from, int to) {
      return to <= ids.length && claimed.compareAndSet(from, to);
    }
  }

  private static final int[] NONE = {};

  private TokenIds(Shared shared, int sharedLength, int[] own) {
    this.shared = shared;
    this.sharedLength = sharedLength;
    this.own = own;
  }

  /** These ids; the array is not to be modified any more. */
  public static TokenIds of(int[] ids) {
    return new TokenIds(new Shared(ids, new AtomicInteger(ids.length)), ids.length, NONE);
  }

  /**
   * The first ids of this prompt with others behind.
   *
   * @param kept how many, at most {@link #length()}
   * @param others not to be modified any more
   */
  public TokenIds then(int kept, int[] others) {
    if (kept <= sharedLength) {
      return new TokenIds(shared, kept, others);
    }
    int more = kept - sharedLength;
    if (shared.claim(sharedLength, kept)) {
      System.arraycopy(own, 0, shared.ids, sharedLength, more);
      return new TokenIds(shared, kept, others);
    }
    // Another turn goes on from here already, or there is no room. A quarter more is for the next.
    int[] copy = new int[kept + kept / 4];
    System.arraycopy(shared.ids, 0, copy, 0, sharedLength);
    System.arraycopy(own, 0, copy, sharedLength, more);
    return new TokenIds(new Shared(copy, new AtomicInteger(kept)), kept, others);
  }

  /** How many there are. */
  public int length() {
    return sharedLength + own.length;
  }

  /** The ids from one on; not to be modified. */
  public int[] from(int start) {
    if (own.length == 0 && start == 0 && sharedLength == shared.ids.length) {
      return shared.ids;
    }
    int[] ids = new int[length() - start];
    int fromShared = Math.max(0, sharedLength - start);
    System.arraycopy(shared.ids, Math.min(start, sharedLength), ids, 0, fromShared);
    int skipped = Math.max(0, start - sharedLength);
    System.arraycopy(own, skipped, ids, fromShared, own.length - skipped);
    return ids;
  }

  /** All of them; not to be modified. */
  public int[] toArray() {
    return from(0);
  }

  /** The first ids, at most so many, as an array of its own. */
  public int[] first(int count) {
    int[] ids = Arrays.copyOf(shared.ids, Math.min(count, length()));
    if (ids.length > sharedLength) {
      System.arraycopy(own, 0, ids, sharedLength, ids.length - sharedLength);
    }
    return ids;
  }

  /** Memory that it keeps, with all of what it shares. */
  public long bytes() {
    return 80 + 4L * (shared.ids.length + own.length);
  }
}
