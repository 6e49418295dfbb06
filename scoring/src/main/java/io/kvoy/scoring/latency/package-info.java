// SPDX-License-Identifier: Apache-2.0

/**
 * Predicted time to first token, in milliseconds, learned per worker.
 *
 * <p>Start at {@link io.kvoy.scoring.latency.TtftPredictor}; the formula is in {@link
 * io.kvoy.scoring.latency.Coefficients}, the learning in {@code CoefficientFilter}. Picks read
 * without a lock, the response path teaches. Nothing here knows where its numbers come from.
 */
@NullMarked
package io.kvoy.scoring.latency;

import org.jspecify.annotations.NullMarked;
