// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.time.Duration;

/**
 * Patience of a {@link KvStream}.
 *
 * @param replayTimeout how long a replay may make no progress before it is asked again; vLLM
 *     answers within about 0.1 s, since its publisher thread looks at replay requests between
 *     batches
 * @param replayAttempts how often one replay is asked before it counts as failed
 * @param replayRetry pause before a failed replay is tried anew
 * @param silentAfter how long a worker with requests may say nothing before the connection is
 *     doubted
 * @param maxHeldBytes live payloads kept per worker while a replay is under way; what does not fit
 *     is asked for later
 */
public record KvStreamConfig(
    Duration replayTimeout,
    int replayAttempts,
    Duration replayRetry,
    Duration silentAfter,
    long maxHeldBytes) {

  public static final KvStreamConfig DEFAULT =
      new KvStreamConfig(
          Duration.ofSeconds(2), 3, Duration.ofSeconds(60), Duration.ofSeconds(20), 32L << 20);
}
