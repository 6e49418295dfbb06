// SPDX-License-Identifier: Apache-2.0

/**
 * Live parity: now and then the token ids of a routed request are compared with those that its
 * worker computes, and a pool whose ids keep differing is routed by load until they agree again.
 *
 * <p>Start at {@link io.kvoy.server.parity.ParityChecker}. Off the hot path: requests only leave a
 * sample in a short queue, one thread compares. No prompt text and no ids leave this package.
 */
@NullMarked
package io.kvoy.server.parity;

import org.jspecify.annotations.NullMarked;
