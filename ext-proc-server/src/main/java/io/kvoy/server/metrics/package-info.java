// SPDX-License-Identifier: Apache-2.0

/**
 * What the process counts and measures about itself.
 *
 * <p>Start at {@link io.kvoy.server.metrics.Metric}, the list of all metrics with their tags and
 * words ({@code docs/metrics.md} is written from it), then {@link
 * io.kvoy.server.metrics.KvoyMetrics}, which hands out the handles that callers keep: one {@link
 * io.kvoy.server.metrics.PoolMeters} per pool, one {@link io.kvoy.server.metrics.WorkerMeters} per
 * worker, one {@link io.kvoy.server.metrics.ServerMeters}.
 *
 * <p>Handles are made when a pool or worker appears and closed when it goes; a request only
 * increments what its snapshot already holds. Values of tags come from the configuration, the fleet
 * or closed sets of words, never from a request, so the number of series is bounded by those.
 *
 * <p>Any thread. Nothing here decides anything.
 */
@NullMarked
package io.kvoy.server.metrics;

import org.jspecify.annotations.NullMarked;
