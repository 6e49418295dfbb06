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
}
