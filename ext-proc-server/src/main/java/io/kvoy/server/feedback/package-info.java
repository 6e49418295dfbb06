// SPDX-License-Identifier: Apache-2.0

/**
 * What came of a decision: first token, usage and end, back into ledger, history, health and
 * metrics.
 *
 * <p>Start at {@link io.kvoy.server.feedback.Dispatch}, the life of one routed request. Both doors
 * report into it; it settles everything exactly once.
 */
@NullMarked
package io.kvoy.server.feedback;

import org.jspecify.annotations.NullMarked;
