// SPDX-License-Identifier: Apache-2.0

/**
 * Predicted time to first token, in milliseconds, learned per worker. Start at {@code
 * TtftPredictor}.
 */
@NullMarked
package io.kvoy.scoring.latency;

import org.jspecify.annotations.NullMarked;
