// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * The bounded queue from the socket threads to the index writer.
 *
 * <p>Live messages that do not fit are refused: the publisher's sequence shows the loss and a
 * replay mends it. Replayed ones are not taken off the socket while {@link #isNearlyFull}. The few
 * others (fleet changes, reconnections) always fit.
 */
final class HandOver {

  /** Something for the writer to do. */
  sealed interface Item {}

  record Add(Worker worker) implements Item {}

  record Remove(Worker worker) implements Item {}

  /** The subscription exists. */
  record Opened(Feed feed) implements Item {}

  /**
   * Messages may be missing: the connection was lost and is there again, or some were dropped here.
   */
  record Interrupted(Feed feed) implements Item {}

  record Published(Feed feed, List<byte[]> frames, int bytes, long receivedNanos) implements Item {}

  /** The replay has not been asked of the worker before now: it waits for others, or was sent. */
  record ReplayWaiting(Feed feed, int id) implements Item {}

  record Replayed(Feed feed, int id, List<byte[]> frames, int bytes) implements Item {}

  private final LinkedBlockingQueue<Item> queue;
  private final int maxMessages;
  private final long maxBytes;
  private final AtomicLong bytes = new AtomicLong();

  HandOver(int maxMessages, long maxBytes) {
    this.maxMessages = maxMessages;
    this.maxBytes = maxBytes;
    this.queue = new LinkedBlockingQueue<>();
  }

  /** False when there is no room. */
  boolean offer(Published item) {
    if (queue.size() >= maxMessages || bytes.get() + item.bytes() > maxBytes) {
      return false;
    }
    put(item, item.bytes());
    return true;
  }

  boolean isNearlyFull() {
    return queue.size() > maxMessages / 2 || bytes.get() > maxBytes / 2;
  }

  void put(Replayed item) {
    put(item, item.bytes());
  }

  void put(Item item) {
    put(item, 0);
  }

  private void put(Item item, int size) {
    bytes.addAndGet(size);
    queue.add(item);
  }

  /** The next item, or null when none came in time. */
  @Nullable Item take(long timeoutMillis) throws InterruptedException {
    Item item =
        timeoutMillis == 0 ? queue.poll() : queue.poll(timeoutMillis, TimeUnit.MILLISECONDS);
    switch (item) {
      case Published published -> bytes.addAndGet(-published.bytes());
      case Replayed replayed -> bytes.addAndGet(-replayed.bytes());
      case null -> {}
      case Add _, Remove _, Opened _, Interrupted _, ReplayWaiting _ -> {}
    }
    return item;
  }
}
