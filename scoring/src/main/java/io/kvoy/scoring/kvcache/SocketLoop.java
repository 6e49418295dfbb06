// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;
import org.zeromq.ZMQException;

/**
 * Reads the sockets of some workers and hands the frames over; does nothing else, so that it always
 * keeps up.
 *
 * <p>One SUB socket per worker, or one per bound endpoint if several workers connect to it (then
 * told apart by the worker's name in the topic, {@code kv@<name>@<model>}). One DEALER per replay,
 * closed at its end: answers to an abandoned replay cannot turn up in the next one.
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

  /** A peer cannot make us buffer more than this many frames of one message. */
  private static final int MAX_FRAMES = 8;

  private final ZContext context;
  private final ZMQ.Poller poller;
  private final HandOver out;
  private final KvSubscriberConfig config;
  private final KvCacheListener listener;
  private final Queue<Runnable> commands = new ConcurrentLinkedQueue<>();
  private final Map<Worker, Subscription> byWorker = new HashMap<>();
  private final Map<String, Subscription> byBoundEndpoint = new HashMap<>();
  private final Map<Worker, Replay> replays = new HashMap<>();

  /** Whose messages were dropped; they are told to look for them when there is room again. */
  private final Set<Worker> lossy = new HashSet<>();

  /** A SUB socket and who publishes on it. */
  private static final class Subscription {
    final ZMQ.Socket socket;
    final int pollIndex;
    final List<Worker> workers = new ArrayList<>();

    /** Connections seen by the I/O thread, and how many of them were handled. */
    final AtomicInteger connections;

    int handledConnections = 1;

    Subscription(ZMQ.Socket socket, int pollIndex, AtomicInteger connections) {
      this.socket = socket;
      this.pollIndex = pollIndex;
      this.connections = connections;
    }
  }

  private record Replay(ZMQ.Socket socket, int pollIndex, int id) {}

  SocketLoop(ZContext context, HandOver out, KvSubscriberConfig config, KvCacheListener listener) {
    this.context = context;
    this.poller = context.createPoller(16);
    this.out = out;
    this.config = config;
    this.listener = listener;
  }

  /** Any thread: subscribe to the worker; {@link HandOver.Opened} follows. */
  void open(Worker worker) {
    commands.add(() -> openSubscription(worker));
  }

  /** Any thread. */
  void close(Worker worker) {
    commands.add(
        () -> {
          closeReplay(worker);
          closeSubscription(worker);
        });
  }

  /** Any thread: connect anew; {@link HandOver.Interrupted} follows. */
  void reconnect(Worker worker) {
    commands.add(
        () -> {
          closeSubscription(worker);
          if (openSubscription(worker)) {
            out.put(new HandOver.Interrupted(worker));
          }
        });
  }

  /** Any thread: ask for a replay in place of the worker's present one. */
  void replay(Worker worker, KvStream.AskReplay ask) {
    commands.add(() -> openReplay(worker, ask));
  }

  /** One round; returns the number of messages read. */
  int doWork(long waitMillis) {
    for (Runnable command = commands.poll(); command != null; command = commands.poll()) {
      command.run();
    }
    poller.poll(waitMillis);
    int messages = 0;
    for (Subscription subscription : byWorker.values()) {
      int connections = subscription.connections.get();
      if (connections > subscription.handledConnections) {
        subscription.handledConnections = connections;
        subscription.workers.forEach(worker -> out.put(new HandOver.Interrupted(worker)));
      }
      if (poller.pollin(subscription.pollIndex)) {
        messages += readPublished(subscription);
      }
    }
    if (!out.isNearlyFull()) {
      // The next message would show the loss, but there may be none for a while.
      lossy.forEach(worker -> out.put(new HandOver.Interrupted(worker)));
      lossy.clear();
      for (Map.Entry<Worker, Replay> replay : List.copyOf(replays.entrySet())) {
        if (poller.pollin(replay.getValue().pollIndex())) {
          messages += readReplayed(replay.getKey(), replay.getValue());
        }
      }
    }
    return messages;
  }

  /** Closes the sockets; by the thread that ran {@link #doWork}. */
  @Override
  public void close() {
    commands.clear();
    List.copyOf(replays.keySet()).forEach(this::closeReplay);
    List.copyOf(byWorker.keySet()).forEach(this::closeSubscription);
    poller.close();
  }

  private int readPublished(Subscription subscription) {
    int messages = 0;
    for (; messages < TURN; messages++) {
      List<byte[]> frames = receive(subscription.socket);
      if (frames == null) {
        break;
      }
      Worker worker = publisher(subscription, frames);
      if (worker == null) {
        listener.onMalformed(subscription.workers.getFirst(), KvDecodeError.Kind.UNKNOWN_TOPIC);
      } else if (!out.offer(
          new HandOver.Published(worker, frames, size(frames), System.nanoTime()))) {
        lossy.add(worker);
        listener.onQueueFull(worker);
      }
    }
    return messages;
  }

  private static @Nullable Worker publisher(Subscription subscription, List<byte[]> frames) {
    if (subscription.workers.size() == 1) {
      return subscription.workers.getFirst();
    }
    String topic = new String(frames.getFirst(), StandardCharsets.UTF_8);
    for (Worker worker : subscription.workers) {
      if (topic.startsWith("kv@" + worker.name() + "@")) {
        return worker;
      }
    }
    return null;
  }

  private int readReplayed(Worker worker, Replay replay) {
    int messages = 0;
    for (; messages < TURN; messages++) {
      List<byte[]> frames = receive(replay.socket());
      if (frames == null) {
        break;
      }
      out.put(new HandOver.Replayed(worker, replay.id(), frames, size(frames)));
      if (KvMessage.ofReplayed(frames) instanceof KvMessage.ReplayEnd) {
        closeReplay(worker);
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

  private boolean openSubscription(Worker worker) {
    Subscription shared = worker.kvEventsBind() ? byBoundEndpoint.get(worker.kvEvents()) : null;
    if (shared != null) {
      shared.workers.add(worker);
      byWorker.put(worker, shared);
      out.put(new HandOver.Opened(worker));
      return true;
    }
    ZMQ.Socket socket = socket(SocketType.SUB);
    AtomicInteger connections = new AtomicInteger();
    try {
      socket.setEventHook(
          _ -> connections.incrementAndGet(), ZMQ.EVENT_CONNECTED | ZMQ.EVENT_ACCEPTED);
      socket.subscribe("");
      if (worker.kvEventsBind()) {
        socket.bind(worker.kvEvents());
      } else {
        socket.connect(worker.kvEvents());
      }
    } catch (ZMQException | IllegalArgumentException e) {
      LOG.warn(
          "cannot {} KV events of worker={} endpoint={}: {}",
          worker.kvEventsBind() ? "bind for" : "connect to",
          worker.name(),
          worker.kvEvents(),
          e.getMessage());
      socket.close();
      return false;
    }
    Subscription subscription =
        new Subscription(socket, poller.register(socket, ZMQ.Poller.POLLIN), connections);
    subscription.workers.add(worker);
    byWorker.put(worker, subscription);
    if (worker.kvEventsBind()) {
      byBoundEndpoint.put(worker.kvEvents(), subscription);
    }
    out.put(new HandOver.Opened(worker));
    return true;
  }

  private void closeSubscription(Worker worker) {
    Subscription subscription = byWorker.remove(worker);
    if (subscription == null) {
      return;
    }
    subscription.workers.remove(worker);
    if (subscription.workers.isEmpty()) {
      byBoundEndpoint.values().remove(subscription);
      poller.unregister(subscription.socket);
      subscription.socket.close();
    }
  }

  private void openReplay(Worker worker, KvStream.AskReplay ask) {
    closeReplay(worker);
    if (!byWorker.containsKey(worker)) {
      return; // left meanwhile
    }
    ZMQ.Socket socket = socket(SocketType.DEALER);
    try {
      socket.connect(worker.kvReplay());
      List<byte[]> request = KvMessage.replayRequest(ask.fromSequence());
      socket.send(request.get(0), ZMQ.SNDMORE);
      socket.send(request.get(1), ZMQ.DONTWAIT);
    } catch (ZMQException | IllegalArgumentException e) {
      LOG.warn(
          "cannot ask for a KV event replay of worker={} endpoint={}: {}",
          worker.name(),
          worker.kvReplay(),
          e.getMessage());
      socket.close();
      return;
    }
    replays.put(worker, new Replay(socket, poller.register(socket, ZMQ.Poller.POLLIN), ask.id()));
  }

  private void closeReplay(Worker worker) {
    Replay replay = replays.remove(worker);
    if (replay != null) {
      poller.unregister(replay.socket());
      replay.socket().close();
    }
  }

  /**
   * Heart-beats must be set before the connection is made; half-open connections are found by them
   * alone.
   */
  private ZMQ.Socket socket(SocketType type) {
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
    // The reader never waits, so this is only the burst between two rounds. No bound for replays:
    // the peer's ROUTER
    // drops what its pipe cannot take, and the end of a replay bounds it anyway.
    socket.setRcvHWM(type == SocketType.SUB ? 100_000 : 0);
    return socket;
  }
}
