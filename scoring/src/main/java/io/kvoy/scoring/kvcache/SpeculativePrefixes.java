// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.function.LongSupplier;

/** Prefixes that workers will hold soon, since we have just routed them there. */
@SuppressWarnings("DoNotCallSuggester")
public final class SpeculativePrefixes {

  /**
   * @param capacity most blocks remembered
   * @param nanoClock monotonic clock
   */
  public SpeculativePrefixes(int capacity, LongSupplier nanoClock) {}

  /** The prompt was routed to the worker, whose real match was {@code match}. Any thread. */
  public void routed(Worker worker, BlockKeys keys, PrefixMatch match, long ttlNanos) {
    throw new UnsupportedOperationException();
  }

  /** The prompt will not be read there after all (aborted before prefill, failed). Any thread. */
  public void withdraw(Worker worker, BlockKeys keys) {
    throw new UnsupportedOperationException();
  }

  /** Adds what is expected to a look-up's result. Any thread, no locks. */
  public void merge(BlockKeys keys, PrefixMatch match) {
    throw new UnsupportedOperationException();
  }
}
