// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToIntFunction;

/**
 * The single writer of a {@link PrefixIndex}: takes what the socket threads hand over, plays each
 * worker's {@link KvStream}, and sends its wishes back.
 *
 * <p>All of it in the thread that calls {@link #doWork}; a slow moment here fills the queue and
 * costs a replay, nothing else.
 */
final class IndexWriter {

  /** Items between two looks at the clock and the sweeps. */
  private static final int TURN = 256;

  private static final long TICK_NANOS = 100_000_000;

  /** About a millisecond of work. */
  private static final int SWEEP_SLOTS = 8_192;

  private final PrefixIndex index;
  private final HandOver in;
  private final List<SocketLoop> sockets;
  private final ToIntFunction<Worker> inFlight;
  private final KvStreamConfig config;
  private final KvCacheListener listener;
  private final KvEventDecoder decoder = new KvEventDecoder();
  private final Map<Feed, KvStream> streams = new HashMap<>();
  private final Map<Integer, Worker> bySlot = new HashMap<>();
  private long tickedNanos;
  private boolean hasTicked;

  /** Volatile: read by whoever shows the fleet. */
  private volatile List<KvView> views = List.of();

  IndexWriter(
      PrefixIndex index,
      HandOver in,
      List<SocketLoop> sockets,
      ToIntFunction<Worker> inFlight,
      KvStreamConfig config,
      KvCacheListener listener) {
    this.index = index;
    this.in = in;
    this.sockets = sockets;
    this.inFlight = inFlight;
    this.config = config;
    this.listener = listener;
  }

  /**
   * One round, waiting for work at most {@code waitMillis}; returns the number of items handled.
   */
  int doWork(long waitMillis, long nowNanos) throws InterruptedException {
    boolean hasSweeps = index.sweep(SWEEP_SLOTS);
    if (!hasTicked || nowNanos - tickedNanos >= TICK_NANOS) {
      hasTicked = true;
      tickedNanos = nowNanos;
      tick(nowNanos);
    }
    HandOver.Item item = in.take(hasSweeps ? 0 : waitMillis);
    int items = 0;
    while (item != null) {
      handle(item);
      items++;
      item = items < TURN ? in.take(0) : null;
    }
    return items;
  }

  /** All views as of the last tick. Any thread. */
  List<KvView> views() {
    return views;
  }

  /** Ends all lives; by the thread that ran {@link #doWork}. */
  void close() {
    List.copyOf(bySlot.values()).forEach(this::remove);
  }

  private void tick(long nowNanos) {
    for (KvStream stream : streams.values()) {
      Feed feed = feed(stream);
      if (!feed.events().isEmpty()) {
        // The worker chooses the rank, so silence proves nothing while fewer requests than ranks
        // are there.
        int idle = feed.worker().kv().ranks().size() - 1;
        stream.tick(nowNanos, inFlight.applyAsInt(feed.worker()) - idle);
        fulfil(stream);
      }
    }
    index.placements.tick();
    long ownBytes = 0;
    List<KvView> now = new ArrayList<>(streams.size());
    for (KvStream stream : streams.values()) {
      ownBytes += stream.blocks().bytes();
      now.add(KvView.of(stream));
    }
    views = List.copyOf(now);
    listener.onSize(index.blocks(), index.keys(), index.sharedBytes() + ownBytes);
  }

  private void handle(HandOver.Item item) {
    long now = System.nanoTime();
    switch (item) {
      case HandOver.Add(Worker worker) -> add(worker);
      case HandOver.Remove(Worker worker) -> remove(worker);
      case HandOver.Opened(Feed feed) -> {
        KvStream stream = streams.get(feed);
        if (stream != null) {
          stream.start(now);
          fulfil(stream);
        }
      }
      case HandOver.Interrupted(Feed feed) -> {
        KvStream stream = streams.get(feed);
        if (stream != null) {
          stream.onInterruption(now);
          fulfil(stream);
        }
      }
      case HandOver.Published published -> {
        KvStream stream = streams.get(published.feed());
        if (stream == null) {
          listener.onSkipped(published.feed().worker(), KvCacheListener.SkipReason.DEAD_LIFE, 1);
        } else {
          stream.onPublished(
              KvMessage.ofPublished(published.frames()), published.receivedNanos(), now);
          fulfil(stream);
        }
      }
      case HandOver.ReplayWaiting(Feed feed, int id) -> {
        KvStream stream = streams.get(feed);
        if (stream != null) {
          stream.onReplayWaiting(id, now);
        }
      }
      case HandOver.Replayed replayed -> {
        KvStream stream = streams.get(replayed.feed());
        if (stream != null) {
          stream.onReplayed(replayed.id(), KvMessage.ofReplayed(replayed.frames()), now);
          fulfil(stream);
        }
      }
    }
  }

  private void add(Worker worker) {
    Worker earlier = bySlot.get(worker.slot());
    if (earlier != null) {
      remove(earlier);
    }
    bySlot.put(worker.slot(), worker);
    int ranks = Math.max(1, worker.kv().ranks().size());
    for (int rank = 0; rank < ranks; rank++) {
      Feed feed = new Feed(worker, rank);
      boolean isBlind = feed.events().isEmpty();
      WorkerBlocks blocks =
          index.open(worker, rank, isBlind ? KvViewState.BLIND : KvViewState.SYNCING, listener);
      streams.put(feed, new KvStream(blocks, !feed.replay().isEmpty(), config, decoder, listener));
      if (!isBlind) {
        loop(feed).open(feed);
      }
    }
  }

  private void remove(Worker worker) {
    if (!bySlot.remove(worker.slot(), worker)) {
      return;
    }
    int ranks = Math.max(1, worker.kv().ranks().size());
    for (int rank = 0; rank < ranks; rank++) {
      Feed feed = new Feed(worker, rank);
      KvStream stream = streams.remove(feed);
      if (stream != null) {
        stream.close();
        loop(feed).close(feed);
      }
    }
  }

  private void fulfil(KvStream stream) {
    Feed feed = feed(stream);
    for (KvStream.Wish wish = stream.poll(); wish != null; wish = stream.poll()) {
      switch (wish) {
        case KvStream.AskReplay ask -> loop(feed).replay(feed, ask);
        case KvStream.Reconnect _ -> loop(feed).reconnect(feed);
      }
    }
  }

  private static Feed feed(KvStream stream) {
    return new Feed(stream.blocks().worker(), stream.blocks().rank());
  }

  private SocketLoop loop(Feed feed) {
    // Workers that share a bound endpoint share its socket.
    int share = feed.isBound() ? feed.events().hashCode() : feed.worker().slot() + feed.rank();
    return sockets.get(Math.floorMod(share, sockets.size()));
  }
}
