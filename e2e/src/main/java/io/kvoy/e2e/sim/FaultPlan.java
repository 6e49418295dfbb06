// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/** What to do wrong with the next generating requests, in order. Thread-safe. */
public final class FaultPlan {

  /** A way to fail. */
  public enum Kind {
    /** Answer with an error status instead of generating. */
    STATUS,
    /** In a stream that began with 200: an error event, then the end. */
    ERROR_EVENT,
    /** In a stream: no more bytes, connection left open. */
    STALL,
    /** In a stream: an orderly end without the closing events. */
    CUT,
    /** In a stream: a connection reset. */
    RESET
  }

  /**
   * One planned failure.
   *
   * @param status HTTP status, used by {@link Kind#STATUS}
   * @param afterTokens tokens that a stream delivers before it fails; not used by {@link
   *     Kind#STATUS}
   */
  public record Fault(Kind kind, int status, int afterTokens) {
    public Fault {
      if (kind == Kind.STATUS && (status < 400 || status > 599)) {
        throw new IllegalArgumentException("status must be 400..599, was " + status);
      }
      if (afterTokens < 0) {
        throw new IllegalArgumentException("afterTokens must not be negative: " + afterTokens);
      }
    }

    public static Fault status(int status) {
      return new Fault(Kind.STATUS, status, 0);
    }

    public static Fault stream(Kind kind, int afterTokens) {
      return new Fault(kind, 500, afterTokens);
    }
  }

  /** Most faults that can be waiting, against a mistyped count. */
  private static final int MAX_PLANNED = 1_000_000;

  @GuardedBy("this")
  private final ArrayDeque<Fault> planned = new ArrayDeque<>();

  /** Plans the same fault for that many more requests. */
  public synchronized void add(int count, Fault fault) {
    if (count < 0 || count > MAX_PLANNED - planned.size()) {
      throw new IllegalArgumentException(
          "count must be 0..%d, was %d".formatted(MAX_PLANNED, count));
    }
    for (int i = 0; i < count; i++) {
      planned.addLast(fault);
    }
  }

  /** Forgets all planned faults. */
  public synchronized void clear() {
    planned.clear();
  }

  /** The next request's fault, or null. */
  synchronized @Nullable Fault take() {
    return planned.pollFirst();
  }

  synchronized int planned() {
    return planned.size();
  }
}
