// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;

/**
 * What happens on the way from a worker's events to the index; the hook for metrics and logs.
 *
 * <p>Called on the index writer thread unless a method says otherwise: implementations count and
 * return, they never block. All methods do nothing by default.
 */
public interface KvCacheListener {

  /** Hears nothing. */
  KvCacheListener NONE = new KvCacheListener() {};

  /** A batch was applied. {@code queuedNanos} is the time from the socket to here. */
  default void onBatch(Worker worker, KvBatch batch, long queuedNanos) {}

  /** Blocks were put into the view ({@code blocks} references) for an event. */
  default void onStored(Worker worker, Tier tier, int blocks) {}

  /** References were taken out. */
  default void onRemoved(Worker worker, Tier tier, int blocks) {}

  /** The worker said that its cache was emptied. */
  default void onCleared(Worker worker) {}

  /** Blocks could not be placed or an event could not be used. */
  default void onSkipped(Worker worker, SkipReason reason, int blocks) {}

  /** The worker announced blocks of a size that is no multiple of the canonical one. */
  default void onRefusedBlockSize(Worker worker, int blockTokens) {}

  /** A message or payload could not be read. Also called from socket threads. */
  default void onMalformed(Worker worker, KvDecodeError.Kind kind) {}

  /** Sequence {@code expected} was due and {@code seen} came. */
  default void onGap(Worker worker, long expected, long seen) {}

  /** The sequence fell: the worker's publisher started anew. */
  default void onRestart(Worker worker) {}

  /** A message that was already applied came again and was ignored. */
  default void onDuplicate(Worker worker) {}

  /** A replay was asked for. */
  default void onReplayAsked(Worker worker, long fromSequence) {}

  /** A replay ended. */
  default void onReplayEnded(Worker worker, ReplayEnd end, int batches) {}

  /** The state of a worker's view changed. */
  default void onState(Worker worker, KvViewState from, KvViewState to) {}

  /** A message was dropped since the hand-over queue was full. Called from socket threads. */
  default void onQueueFull(Worker worker) {}

  /** More is known about the engine's hashes. */
  default void onHashes(Worker worker, HashVerification hashes) {}

  /**
   * Size of the index, about ten times a second: (block, worker) entries, distinct keys, bytes of
   * all tables.
   */
  default void onSize(long blocks, long keys, long bytes) {}

  /** How a replay ended. */
  enum ReplayEnd {
    /** All that was asked for came. */
    COMPLETE,
    /** The publisher's ring no longer had the beginning. */
    WRAPPED,
    /** No answer in time, or not a whole one. */
    FAILED
  }

  /** Why an event or block is not in the index. */
  enum SkipReason {
    /** The block before it is unknown (an event was lost). */
    ORPHAN,
    /** Removal of a hash that is not in the view. */
    UNKNOWN_REMOVAL,
    /** Block of a sliding window or state group that no full attention block names. */
    WINDOW_GROUP,
    /** Removal in a group that is not kept. */
    SKIPPED_GROUP_REMOVAL,
    /** Tokens do not match blocks times block size. */
    NOT_DENSE,
    /** Block size that is not a multiple of the canonical one, or not the one seen before. */
    BLOCK_SIZE,
    /** Key material that a router cannot know. */
    OPAQUE,
    /** Event type or group kind that is not known here. */
    UNKNOWN_KIND,
    /** Announced again on a client's wish, without a new copy. */
    REPEATED,
    /** The index is full. */
    INDEX_FULL,
    /** The worker's life is over. */
    DEAD_LIFE
  }
}
