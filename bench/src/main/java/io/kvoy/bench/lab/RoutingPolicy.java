// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.List;

/** Chooses a worker for each request of a run. One object per run, one thread. */
interface RoutingPolicy {
  /** No worker wanted: the request is refused at once. */
  int REFUSE = -1;

  /**
   * @param request what to place
   * @param open indexes of workers that are up and not draining; never empty
   * @return one of {@code open}, or {@link #REFUSE}
   */
  int choose(SimRequest request, List<Integer> open);

  /** The chosen worker has the request. */
  default void placed(SimRequest request) {}

  default void firstToken(SimRequest request) {}

  /** Ended, well or not. */
  default void ended(SimRequest request) {}

  /** A worker goes away, does not take new requests, or comes back empty. */
  default void workerState(int worker, boolean isOpen, boolean restarted) {}

  /** Lines to print below the table, about this run. */
  default String note() {
    return "";
  }
}
