// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.netty.util.Timer;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What all doors have in common, so that together they stay within the bounds of one process.
 *
 * @param decisionThreads bounded platform threads for reading and tokenizing; may refuse work
 * @param timer coarse timer for the waits
 * @param openStreams requests under way at all doors now
 * @param startedStreams requests begun at all doors since the start
 * @param heldBytes request body bytes held by all doors now
 * @param maxHeldBytes most of them; a body beyond is refused
 */
public record DoorShare(
    Executor decisionThreads,
    Timer timer,
    AtomicInteger openStreams,
    AtomicLong startedStreams,
    AtomicLong heldBytes,
    long maxHeldBytes) {}
