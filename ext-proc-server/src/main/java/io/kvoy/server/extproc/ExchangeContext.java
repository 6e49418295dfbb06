// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import io.kvoy.server.feedback.DispatchBook;
import io.kvoy.server.metrics.ServerMeters;
import io.netty.util.Timer;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/**
 * What every exchange shares.
 *
 * @param decisionThreads bounded platform threads for reading and tokenizing; may refuse work
 * @param inline whether small bodies need such a thread
 * @param timer coarse timer for the waits
 * @param limits what strangers may do; asked once per use, so that a reload is taken at once
 * @param openStreams exchanges open now
 * @param startedStreams exchanges opened since the start
 * @param heldBytes request body bytes held by all exchanges now
 * @param maxHeldBytes most of them; a body beyond is refused
 * @param book routed requests whose answers come on another way
 * @param conformanceHooks whether {@link io.kvoy.server.ConformanceHooks} are on
 * @param metrics counters of the door itself
 */
record ExchangeContext(
    Executor decisionThreads,
    InlineReading inline,
    Timer timer,
    Supplier<ExchangeLimits> limits,
    AtomicInteger openStreams,
    AtomicLong startedStreams,
    AtomicLong heldBytes,
    long maxHeldBytes,
    DispatchBook book,
    boolean conformanceHooks,
    ServerMeters metrics) {}
