// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import java.time.Duration;

/**
 * Bounds on one exchange.
 *
 * @param maxBodyBytes largest request body taken, 1 byte to 1 GiB
 * @param maxHeaderBytes largest header message
 * @param bodyTimeout longest wait for the whole request body
 * @param decisionDeadline longest time from the whole body to the answer; then the pick is by load
 *     alone
 * @param maxStreams exchanges open at once; further ones are refused
 */
public record ExchangeLimits(
    long maxBodyBytes,
    long maxHeaderBytes,
    Duration bodyTimeout,
    Duration decisionDeadline,
    int maxStreams) {}
