// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import io.kvoy.scoring.fleet.Worker;

/** How many tokens of one prompt each worker holds in its KV cache; from the prefix index. */
@FunctionalInterface
public interface CachedTokens {
  /** Nothing cached anywhere. */
  CachedTokens NONE = _ -> 0;

  /** Cached tokens on a worker, 0..prompt tokens; asked once per candidate and pick. */
  int on(Worker worker);

  /**
   * The same, with what requests that were sent to the worker will have left there once they have
   * been read; at least {@link #on}.
   */
  default int expectedOn(Worker worker) {
    return on(worker);
  }

  /**
   * Key of the prompt's prefix up to a number of tokens that {@link #expectedOn} has named, equal
   * for equal prefixes; 0 when there is none.
   */
  default long prefixKey(int tokens) {
    return 0;
  }

  /** Tokens in any tier, the GPU and slower ones; at least {@link #on}. */
  default int anywhereOn(Worker worker) {
    return on(worker);
  }

  /**
   * What {@link #anywhereOn} is worth, in tokens that need no prefill: those on the GPU count
   * whole, those in slower tiers by the share of their prefill that is left when they have been
   * fetched. Between {@link #on} and {@link #anywhereOn}.
   */
  default double worthOn(Worker worker) {
    return on(worker);
  }
}
