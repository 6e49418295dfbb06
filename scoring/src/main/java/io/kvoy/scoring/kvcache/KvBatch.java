// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The events of one engine step.
 *
 * @param timestampSeconds the worker's wall clock; for reports only, never for a decision
 * @param events in the order in which they happened
 * @param dataParallelRank rank of the publisher, null when not given
 */
public record KvBatch(
    double timestampSeconds, List<KvEvent> events, @Nullable Integer dataParallelRank) {
  public KvBatch {
    events = List.copyOf(events);
  }
}
