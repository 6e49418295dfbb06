// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.time.Duration;

/**
 * Settings of a {@link KvEventSubscriber}.
 *
 * @param socketThreads threads that read sockets, each with its share of the workers
 * @param queueMessages most messages between the socket threads and the index writer; what does not
 *     fit is dropped, noticed by its sequence and asked for again
 * @param queueBytes the same in payload bytes
 * @param heartbeat interval of ZeroMQ heart-beats; a peer that does not answer three of them is
 *     reconnected
 * @param reconnect pause between connection attempts. Short: a restarted worker must not get far
 *     before we are back
 * @param closeTimeout how long {@link KvEventSubscriber#close} waits for each thread
 * @param stream patience with one worker
 */
public record KvSubscriberConfig(
    int socketThreads,
    int queueMessages,
    long queueBytes,
    Duration heartbeat,
    Duration reconnect,
    Duration closeTimeout,
    KvStreamConfig stream) {

  public static final KvSubscriberConfig DEFAULT =
      new KvSubscriberConfig(
          1,
          65_536,
          256L << 20,
          Duration.ofSeconds(5),
          Duration.ofMillis(100),
          Duration.ofSeconds(3),
          KvStreamConfig.DEFAULT);

  public KvSubscriberConfig {
    if (socketThreads < 1 || queueMessages < 1 || queueBytes < 1) {
      throw new IllegalArgumentException("threads and queue bounds must be positive");
    }
  }
}
