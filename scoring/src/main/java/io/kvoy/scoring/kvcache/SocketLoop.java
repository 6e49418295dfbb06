// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.zeromq.SocketType;
import org.zeromq.UncheckedZMQException;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/**
 * Reads the sockets of some workers and hands the frames over; does nothing else, so that it always
 * keeps up.
 *
 * <p>One SUB socket per feed, or one per bound endpoint if several workers connect to it (then told
 * apart by their configured topic or by the worker's name in it, {@code kv@<name>@<model>}). One
 * DEALER per replay, closed at its end: answers to an abandoned replay cannot turn up in the next
 * one.
 *
 * <p>Sockets are made, used and closed by the thread that calls {@link #doWork} only. Other threads
 * leave commands.
 */
final class SocketLoop implements AutoCloseable {

  /** Longest ZeroMQ handshake; a network round trip or two takes a fraction of it. */
  private static final int HANDSHAKE_MILLIS = 1_000;

  private static final Logger LOG = LoggerFactory.getLogger(SocketLoop.class);

  /** Messages read from one socket before the next one gets its turn. */
  private static final int TURN = 256;

  /** Frames of one message that are handed over; no valid one has more than four. */
  private static final int MAX_FRAMES = 8;

  /**
   * A peer that has sent this much without ending a message is disconnected ({@link UnreadBytes}).
   * A valid message is one payload and a few small frames.
   */
  private static final long MAX_UNENDED_BYTES = 2L * KvEventDecoder.MAX_PAYLOAD_BYTES;

  /** Replays under way at once; the others wait for their turn. */
  private static final int MAX_REPLAYS = 64;

  /** Batches and bytes of one replay; the stream asks for the rest when it still needs it. */
  private static final int MAX_REPLAY_BATCHES = 1 << 20;

  private static final long MAX_REPLAY_BYTES = 1L << 30;

  /** How long a replay may keep others waiting. */
  private static final long MAX_REPLAY_NANOS = TimeUnit.SECONDS.toNanos(60);

  /**
   * Messages of a replay that JeroMQ reads ahead. What exceeds it and the peer's own mark the
   * peer's ROUTER drops, and the stream asks for it again.
   */
  private static final int REPLAY_HWM = 4_096;

  private static final int EVENTS_HWM = 100_000;

  /** Waits before a subscription that could not be made is tried again: doubled each time. */
  private static final long FIRST_RETRY_NANOS = TimeUnit.SECONDS.toNanos(1);

  private static final long LAST_RETRY_NANOS = TimeUnit.SECONDS.toNanos(60);

  private static final long HOUSEKEEPING_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

  private final ZContext context;
  private final ZMQ.Poller poller;
  private final HandOver out;
  private final KvSubscriberConfig config;
  private final KvCacheListener listener;
  private final BlockingQueue<Runnable> commands = new LinkedBlockingQueue<>();
  private final Map<Feed, Subscription> byFeed = new HashMap<>();
  private final Map<String, Subscription> byBoundEndpoint = new HashMap<>();
  private final Map<Feed, Replay> replays = new HashMap<>();

  /** Replays that wait for their turn, the oldest first. */
  private final Map<Feed, KvStream.AskReplay> waitingReplays = new LinkedHashMap<>();

  /** Subscriptions that could not be made. */
  private final Map<Feed, Retry> retries = new HashMap<>();

  private long housekeptNanos = System.nanoTime();

  /** Whose messages were dropped; they are told to look for them when there is room again. */
  private final Set<Feed> lossy = new HashSet<>();

  /** A SUB socket and who publishes on it. */
  private static final class Subscription {
    final ZMQ.Socket socket;
    final ZMQ.PollItem item;
    final List<Feed> feeds = new ArrayList<>();

    /** Connections seen by the I/O thread, and how many of them were handled. */
    final AtomicInteger connections;

    int handledConnections = 1;

    final UnreadBytes unread;

    Subscription(
        ZMQ.Socket socket, ZMQ.PollItem item, AtomicInteger connections, UnreadBytes unread) {
      this.socket = socket;
      this.item = item;
      this.connections = connections;
      this.unread = unread;
    }
  }

  /** A replay under way. */
  private static final class Replay {
    final ZMQ.Socket socket;
    final ZMQ.PollItem item;
    final int id;
    final UnreadBytes unread;
    final long startedNanos = System.nanoTime();

    /** When it brought something, or could not because the queue was full. */
    long movedNanos = startedNanos;

    int batches;
    long bytes;

    Replay(ZMQ.Socket socket, ZMQ.PollItem item, int id, UnreadBytes unread) {
      this.socket = socket;
      this.item = item;
      this.id = id;
      this.unread = unread;
    }
  }

  private record Retry(long dueNanos, long waitNanos) {}

  SocketLoop(ZContext context, HandOver out, KvSubscriberConfig config, KvCacheListener listener) {
    this.context = context;
    this.poller = context.createPoller(16);
    this.out = out;
    this.config = config;
    this.listener = listener;
  }

  /** Any thread: subscribe to it; {@link HandOver.Opened} follows. */
  void open(Feed feed) {
    commands.add(() -> openSubscription(feed));
  }

  /** Any thread. */
  void close(Feed feed) {
    commands.add(
        () -> {
          retries.remove(feed);
          closeReplay(feed);
          closeSubscription(feed);
          startWaitingReplays();
        });
  }

  /** Any thread: connect anew; {@link HandOver.Interrupted} follows. */
  void reconnect(Feed feed) {
    commands.add(
        () -> {
          closeSubscription(feed);
          if (openSubscription(feed)) {
            out.put(new HandOver.Interrupted(feed));
          }
        });
  }

  /** Any thread: ask for a replay in place of the worker's present one. */
  void replay(Feed feed, KvStream.AskReplay ask) {
    commands.add(() -> openReplay(feed, ask));
  }

  /**
   * One round; returns the number of messages read.
   *
   * @param waitMillis longest wait for the first of them
   */
  int doWork(long waitMillis) throws InterruptedException {
    for (Runnable command = commands.poll(); command != null; command = commands.poll()) {
      command.run();
    }
    housekeep(System.nanoTime());
    if (byFeed.isEmpty() && replays.isEmpty()) {
      // A poller without sockets does not wait (JeroMQ 0.6): the thread would spin.
      Runnable command = commands.poll(waitMillis, TimeUnit.MILLISECONDS);
      if (command != null) {
        command.run();
      }
      return 0;
    }
    poller.poll(waitMillis);
    int messages = 0;
    for (Subscription subscription : byFeed.values()) {
      int connections = subscription.connections.get();
      if (connections > subscription.handledConnections) {
        subscription.handledConnections = connections;
        subscription.feeds.forEach(feed -> out.put(new HandOver.Interrupted(feed)));
      }
      if (subscription.item.isReadable()) {
        messages += readPublished(subscription);
      }
    }
    if (!out.isNearlyFull()) {
      // The next message would show the loss, but there may be none for a while.
      lossy.forEach(feed -> out.put(new HandOver.Interrupted(feed)));
      lossy.clear();
      for (Map.Entry<Feed, Replay> replay : List.copyOf(replays.entrySet())) {
        if (replay.getValue().item.isReadable()) {
          messages += readReplayed(replay.getKey(), replay.getValue());
        }
      }
    }
    startWaitingReplays();
    return messages;
  }

  /** What is not due every round. */
  private void housekeep(long nowNanos) {
    if (nowNanos - housekeptNanos < HOUSEKEEPING_NANOS) {
      return;
    }
    housekeptNanos = nowNanos;
    for (Map.Entry<Feed, Retry> retry : List.copyOf(retries.entrySet())) {
      if (nowNanos - retry.getValue().dueNanos() >= 0) {
        boolean _ = openSubscription(retry.getKey());
      }
    }
    for (Subscription subscription : new HashSet<>(byFeed.values())) {
      // In this order: what came before, and is in no message that could be read afterwards.
      if (subscription.unread.sinceLastMessage() > MAX_UNENDED_BYTES
          && readPublished(subscription) == 0) {
        List.copyOf(subscription.feeds).forEach(this::dropUnended);
      }
    }
    long silenceNanos = 2 * config.stream().replayTimeout().toNanos();
    for (Map.Entry<Feed, Replay> entry : List.copyOf(replays.entrySet())) {
      Replay replay = entry.getValue();
      if (out.isNearlyFull()) {
        replay.movedNanos = nowNanos; // it is we who do not read
      }
      boolean isStuck =
          nowNanos - replay.movedNanos > silenceNanos
              || (replay.unread.sinceLastMessage() > MAX_UNENDED_BYTES
                  && !out.isNearlyFull()
                  && readReplayed(entry.getKey(), replay) == 0)
              || (nowNanos - replay.startedNanos > MAX_REPLAY_NANOS && !waitingReplays.isEmpty());
      if (isStuck && replays.get(entry.getKey()) == replay) {
        closeReplay(entry.getKey());
      }
    }
    startWaitingReplays();
    waitingReplays.forEach((feed, ask) -> out.put(new HandOver.ReplayWaiting(feed, ask.id())));
  }

  private void dropUnended(Feed feed) {
    LOG.warn(
        "closing the KV event connection of worker={}: a message of more than {} bytes has no end",
        feed.name(),
        MAX_UNENDED_BYTES);
    listener.onMalformed(feed.worker(), KvDecodeError.Kind.TOO_LARGE);
    closeSubscription(feed);
    retryLater(feed);
  }

  /** Closes the sockets; by the thread that ran {@link #doWork}. */
  @Override
  public void close() {
    commands.clear();
    waitingReplays.clear();
    retries.clear();
    List.copyOf(replays.keySet()).forEach(this::closeReplay);
    List.copyOf(byFeed.keySet()).forEach(this::closeSubscription);
    poller.close();
  }

  private int readPublished(Subscription subscription) {
    int messages = 0;
    for (; messages < TURN; messages++) {
      List<byte[]> frames = receive(subscription.socket);
      if (frames == null) {
        break;
      }
      subscription.unread.read();
      Feed feed = publisher(subscription, frames);
      if (feed == null) {
        listener.onMalformed(
            subscription.feeds.getFirst().worker(), KvDecodeError.Kind.UNKNOWN_TOPIC);
      } else if (!out.offer(
          new HandOver.Published(feed, frames, size(frames), System.nanoTime()))) {
        lossy.add(feed);
        listener.onQueueFull(feed.worker());
      }
    }
    return messages;
  }

  private static @Nullable Feed publisher(Subscription subscription, List<byte[]> frames) {
    if (subscription.feeds.size() == 1) {
      return subscription.feeds.getFirst();
    }
    String topic = new String(frames.getFirst(), StandardCharsets.UTF_8);
    for (Feed feed : subscription.feeds) {
      String own = feed.topic().isEmpty() ? "kv@" + feed.worker().name() + "@" : feed.topic();
      if (topic.startsWith(own)) {
        return feed;
      }
    }
    return null;
  }

  private int readReplayed(Feed feed, Replay replay) {
    int messages = 0;
    for (; messages < TURN && !out.isNearlyFull(); messages++) {
      List<byte[]> frames = receive(replay.socket);
      if (frames == null) {
        break;
      }
      int size = size(frames);
      replay.unread.read();
      replay.movedNanos = System.nanoTime();
      replay.batches++;
      replay.bytes += size;
      out.put(new HandOver.Replayed(feed, replay.id, frames, size));
      if (KvMessage.ofReplayed(frames) instanceof KvMessage.ReplayEnd
          || replay.batches >= MAX_REPLAY_BATCHES
          || replay.bytes >= MAX_REPLAY_BYTES) {
        closeReplay(feed);
        return messages + 1;
      }
    }
    return messages;
  }

  private static @Nullable List<byte[]> receive(ZMQ.Socket socket) {
    byte[] frame = socket.recv(ZMQ.DONTWAIT);
    if (frame == null) {
      return null;
    }
    List<byte[]> frames = new ArrayList<>(4);
    frames.add(frame);
    while (socket.hasReceiveMore()) {
      frame = socket.recv();
      if (frames.size() < MAX_FRAMES) {
        frames.add(frame);
      }
    }
    return frames;
  }

  private static int size(List<byte[]> frames) {
    int size = 0;
    for (byte[] frame : frames) {
      size += frame.length;
    }
    return size;
  }

  private boolean openSubscription(Feed feed) {
    Subscription shared = feed.isBound() ? byBoundEndpoint.get(feed.events()) : null;
    if (shared != null) {
      shared.feeds.add(feed);
      shared.socket.subscribe(feed.topic());
      byFeed.put(feed, shared);
      retries.remove(feed);
      out.put(new HandOver.Opened(feed));
      return true;
    }
    AtomicInteger connections = new AtomicInteger();
    UnreadBytes unread = new UnreadBytes();
    ZMQ.Socket socket = null;
    Subscription subscription;
    try {
      socket = socket(SocketType.SUB, unread);
      socket.setEventHook(
          _ -> connections.incrementAndGet(), ZMQ.EVENT_CONNECTED | ZMQ.EVENT_ACCEPTED);
      socket.subscribe(feed.topic());
      if (feed.isBound()) {
        socket.bind(feed.events());
      } else {
        socket.connect(feed.events());
      }
      ZMQ.PollItem item = polled(socket);
      subscription = new Subscription(socket, item, connections, unread);
    } catch (UncheckedZMQException | IllegalArgumentException e) {
      if (!retries.containsKey(feed)) {
        LOG.warn(
            "cannot {} KV events of worker={} endpoint={}, trying again: {}",
            feed.isBound() ? "bind for" : "connect to",
            feed.name(),
            feed.events(),
            e.getMessage());
      }
      if (socket != null) {
        socket.close();
      }
      retryLater(feed);
      return false;
    }
    retries.remove(feed);
    subscription.feeds.add(feed);
    byFeed.put(feed, subscription);
    if (feed.isBound()) {
      byBoundEndpoint.put(feed.events(), subscription);
    }
    out.put(new HandOver.Opened(feed));
    return true;
  }

  private void retryLater(Feed feed) {
    Retry earlier = retries.get(feed);
    long wait =
        earlier == null ? FIRST_RETRY_NANOS : Math.min(LAST_RETRY_NANOS, 2 * earlier.waitNanos());
    retries.put(feed, new Retry(System.nanoTime() + wait, wait));
  }

  private void closeSubscription(Feed feed) {
    Subscription subscription = byFeed.remove(feed);
    if (subscription == null) {
      return;
    }
    subscription.feeds.remove(feed);
    if (subscription.feeds.isEmpty()) {
      byBoundEndpoint.values().remove(subscription);
      poller.unregister(subscription.socket);
      subscription.socket.close();
    }
  }

  private void openReplay(Feed feed, KvStream.AskReplay ask) {
    closeReplay(feed);
    if (byFeed.containsKey(feed)) { // else it left meanwhile
      waitingReplays.put(feed, ask);
    }
    startWaitingReplays();
  }

  private void startWaitingReplays() {
    while (replays.size() < MAX_REPLAYS && !waitingReplays.isEmpty()) {
      Map.Entry<Feed, KvStream.AskReplay> first = waitingReplays.entrySet().iterator().next();
      waitingReplays.remove(first.getKey());
      startReplay(first.getKey(), first.getValue());
    }
  }

  private void startReplay(Feed feed, KvStream.AskReplay ask) {
    UnreadBytes unread = new UnreadBytes();
    ZMQ.Socket socket = null;
    try {
      socket = socket(SocketType.DEALER, unread);
      socket.connect(feed.replay());
      List<byte[]> request = KvMessage.replayRequest(ask.fromSequence());
      socket.send(request.get(0), ZMQ.SNDMORE);
      socket.send(request.get(1), ZMQ.DONTWAIT);
      ZMQ.PollItem item = polled(socket);
      replays.put(feed, new Replay(socket, item, ask.id(), unread));
      // Its time runs from now on.
      out.put(new HandOver.ReplayWaiting(feed, ask.id()));
    } catch (UncheckedZMQException | IllegalArgumentException e) {
      // The stream asks again when no answer comes.
      LOG.warn(
          "cannot ask for a KV event replay of worker={} endpoint={}: {}",
          feed.name(),
          feed.replay(),
          e.getMessage());
      if (socket != null) {
        socket.close();
      }
    }
  }

  /**
   * The socket among those that are waited for. Asked for by its item, not by its place: in JeroMQ
   * 0.6.0 the places of all later sockets change when one is taken out.
   */
  private ZMQ.PollItem polled(ZMQ.Socket socket) {
    ZMQ.PollItem item = new ZMQ.PollItem(socket, ZMQ.Poller.POLLIN);
    poller.register(item);
    return item;
  }

  private void closeReplay(Feed feed) {
    waitingReplays.remove(feed);
    Replay replay = replays.remove(feed);
    if (replay != null) {
      poller.unregister(replay.socket);
      replay.socket.close();
    }
  }

  /**
   * Heart-beats must be set before the connection is made; half-open connections are found by them
   * alone.
   */
  private ZMQ.Socket socket(SocketType type, UnreadBytes unread) {
    ZMQ.Socket socket = context.createSocket(type);
    int heartbeat = (int) config.heartbeat().toMillis();
    socket.setLinger(0);
    socket.setIPv6(true);
    // JeroMQ 0.6.0 now and then leaves a fresh connection stuck in its handshake (about 1 in 100);
    // without this it would take 30 s to try again.
    socket.setHandshakeIvl(HANDSHAKE_MILLIS);
    socket.setHeartbeatIvl(heartbeat);
    socket.setHeartbeatTimeout(3 * heartbeat);
    socket.setHeartbeatTtl(3 * heartbeat);
    socket.setTCPKeepAlive(1);
    socket.setReconnectIVL((int) config.reconnect().toMillis());
    socket.setReconnectIVLMax((int) (4 * config.reconnect().toMillis()));
    socket.setMaxMsgSize(KvEventDecoder.MAX_PAYLOAD_BYTES);
    socket.setMsgAllocator(unread);
    // The reader of events never waits, so theirs is only the burst between two rounds.
    socket.setRcvHWM(type == SocketType.SUB ? EVENTS_HWM : REPLAY_HWM);
    return socket;
  }
}
