// SPDX-License-Identifier: Apache-2.0

/**
 * Our token ids against those of real vLLM, request by request.
 *
 * <p>Start at {@link io.kvoy.e2e.parity.TokenParityVllmIT}; {@link
 * io.kvoy.e2e.parity.ParityRequests} makes the requests.
 */
@NullMarked
package io.kvoy.e2e.parity;

import org.jspecify.annotations.NullMarked;
