// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import io.kvoy.server.metrics.ServerMeters;
import io.netty.util.Timer;
import java.time.Duration;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What every exchange shares.
 *
 * @param decisionThreads bounded platform threads for reading and tokenizing; may refuse work
 * @param timer coarse timer for the waits below
 * @param maxBodyBytes largest request body taken, 1 byte to 1 GiB
 * @param bodyTimeout longest wait for the whole request body
 * @param decisionDeadline longest time from the whole body to the answer; then the pick is by load alone
 * @param maxStreams exchanges open at once; further ones are refused
 * @param openStreams exchanges open now
 * @param metrics counters of the door itself
 */
record ExchangeContext(
    Executor decisionThreads,
    Timer timer,
    long maxBodyBytes,
    Duration bodyTimeout,
    Duration decisionDeadline,
    int maxStreams,
    AtomicInteger openStreams,
    ServerMeters metrics) {}
