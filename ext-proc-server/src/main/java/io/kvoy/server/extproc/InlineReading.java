// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import java.util.concurrent.atomic.AtomicInteger;

/**
 * Whether small bodies may be read and tokenized on the event loop that brought them.
 *
 * <p>200 tokens take some 30 µs there, less than handing them to a decision thread and the answer
 * back: two wake-ups of a thread. But whoever blocks an event loop blocks every stream of its
 * connections, the deadlines' answers included. So a read is done there only after {@link #PROOF}
 * small reads in a row, wherever they were done, took less than {@link #QUICK_NANOS}; one that took
 * longer sends the next ones to the decision threads again. A tokenizer that stalls is therefore
 * met on an event loop once at most, and only after it was quick before.
 *
 * <p>Any thread; no locks.
 */
final class InlineReading {
  /** Bodies up to this size are small. */
  static final int SMALL_BYTES = 4 << 10;

  /** Quick reads in a row that prove the next one. */
  static final int PROOF = 64;

  /** A read that takes longer is not quick; wall time, so a machine out of CPUs counts too. */
  static final long QUICK_NANOS = 2_000_000;

  private final AtomicInteger quickInARow = new AtomicInteger();

  /** Whether a body of that size may be read here and now. */
  boolean allows(int bytes) {
    return bytes <= SMALL_BYTES && quickInARow.get() >= PROOF;
  }

  /** Notes how long reading a body took. */
  void took(int bytes, long nanos) {
    if (bytes > SMALL_BYTES) {
      return;
    }
    if (nanos > QUICK_NANOS) {
      quickInARow.set(0);
    } else if (quickInARow.get() < PROOF) {
      quickInARow.incrementAndGet();
    }
  }
}
