// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/**
 * Tells the world about the cache of one worker life over ZeroMQ, as vLLM 0.32 does ({@code
 * distributed/kv_events.py}).
 *
 * <p>One thread owns both sockets. It sends each batch as {@code [topic, sequence number, payload]}
 * on the PUB socket, keeps the last ones in a ring, and between batches answers whoever asks the
 * ROUTER socket for an older sequence number; an answer can therefore take the 100 ms that it waits
 * for a batch. Sequence numbers begin at 0 in each life.
 */
final class KvEventPublisher implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(KvEventPublisher.class);
  private static final byte[] NOTHING = {};
  private static final byte[] END_OF_REPLAY = {-1, -1, -1, -1, -1, -1, -1, -1};

  /**
   * How long the thread waits for a batch before it looks at the ROUTER socket ({@code
   * _publisher_thread}).
   */
  private static final long POLL_MILLIS = 100;

  /** Without events, so never sent: ends the wait for a batch. */
  private static final Batch WAKE = new Batch(0, List.of());

  /**
   * After this a connection that we opened and that has not shaken hands is tried again. JeroMQ
   * 0.6.0 leaves about 2 of 100 fresh loopback connections stuck there (measured), and its default
   * waits 30 s.
   */
  private static final int HANDSHAKE_MILLIS = 500;

  private record Batch(double unixSeconds, List<KvEvent> events) {}

  @SuppressWarnings("ArrayRecordComponent") // Never compared.
  private record Sent(long seq, byte[] payload) {}

  private final EventOptions options;
  private final int rank;
  private final KvEventEncoder encoder;
  private final Supplier<Double> unixSeconds;
  private final BlockingQueue<Batch> queue = new LinkedBlockingQueue<>();
  private final AtomicInteger batchesToDrop = new AtomicInteger();
  private final AtomicInteger batchesToForget = new AtomicInteger();
  private final CountDownLatch ready = new CountDownLatch(1);
  private final Thread thread;
  // Volatile: written by the publisher thread before ready, or by close.
  private volatile String endpoint = "";
  private volatile String replayEndpoint = "";
  private volatile @Nullable RuntimeException failure;
  private volatile boolean closed;
  private volatile long nextSeq;

  /**
   * @param options of this rank
   * @param rank data parallel rank, told in each batch
   */
  KvEventPublisher(String name, EventOptions options, int rank, Supplier<Double> unixSeconds) {
    this.options = options;
    this.rank = rank;
    this.encoder = new KvEventEncoder(options.format(), options.intHashes());
    this.unixSeconds = unixSeconds;
    thread = Thread.ofPlatform().daemon().name("sim-kv-events-" + name).unstarted(this::run);
  }

  /** Opens the sockets and returns when they are bound; throws when an address is taken. */
  void start() {
    thread.start();
    try {
      ready.await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    RuntimeException failed = failure;
    if (failed != null) {
      throw failed;
    }
  }

  /** The PUB address as configured, with its real port. */
  String endpoint() {
    return endpoint;
  }

  /** The ROUTER address as configured, with its real port; empty without one. */
  String replayEndpoint() {
    return replayEndpoint;
  }

  /** Sequence number of the next batch. */
  long nextSeq() {
    return nextSeq;
  }

  /** Never blocks; called by the engine thread. */
  void publish(List<KvEvent> events) {
    queue.add(new Batch(unixSeconds.get(), events));
  }

  /**
   * Loses coming batches on their way to the subscribers, as a full queue would.
   *
   * @param count how many
   * @param fromReplayToo whether the ring loses them as well
   */
  void drop(int count, boolean fromReplayToo) {
    batchesToDrop.addAndGet(count);
    if (fromReplayToo) {
      batchesToForget.addAndGet(count);
    }
  }

  @Override
  public void close() {
    closed = true;
    queue.add(WAKE);
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void run() {
    try (ZContext context = new ZContext(1)) {
      context.setLinger(0);
      ZMQ.Socket pub;
      ZMQ.@Nullable Socket router = null;
      try {
        pub = context.createSocket(SocketType.PUB);
        pub.setHWM(100_000);
        if (EventOptions.binds(options.endpoint())) {
          endpoint = bind(pub, options.endpoint());
        } else {
          pub.setHandshakeIvl(HANDSHAKE_MILLIS);
          pub.connect(options.endpoint());
          endpoint = options.endpoint();
        }
        if (!options.replayEndpoint().isEmpty()) {
          router = context.createSocket(SocketType.ROUTER);
          replayEndpoint = bind(router, options.replayEndpoint());
        }
      } catch (RuntimeException e) {
        failure = e;
        return;
      } finally {
        ready.countDown();
      }
      pump(pub, router);
    }
  }

  private void pump(ZMQ.Socket pub, ZMQ.@Nullable Socket router) {
    byte[] topic = options.topic().getBytes(StandardCharsets.UTF_8);
    ArrayDeque<Sent> ring = new ArrayDeque<>();
    while (!closed) {
      if (router != null) {
        replay(router, topic, ring);
      }
      Batch batch;
      try {
        batch = queue.poll(POLL_MILLIS, TimeUnit.MILLISECONDS);
      } catch (InterruptedException e) {
        return;
      }
      if (batch == null || batch.events().isEmpty()) {
        continue;
      }
      long seq = nextSeq;
      nextSeq = seq + 1;
      byte[] payload = encoder.batch(batch.unixSeconds(), batch.events(), rank);
      if (!takeOne(batchesToDrop)) {
        pub.sendMore(topic);
        pub.sendMore(bigEndian(seq));
        pub.send(payload);
      }
      if (!takeOne(batchesToForget)) {
        ring.addLast(new Sent(seq, payload));
        if (ring.size() > options.bufferSteps()) {
          ring.removeFirst();
        }
      }
    }
  }

  /** Answers at most one question, as vLLM does between two batches. */
  private void replay(ZMQ.Socket router, byte[] topic, ArrayDeque<Sent> ring) {
    byte[] peer = router.recv(ZMQ.DONTWAIT);
    if (peer == null) {
      return;
    }
    byte[] last = NOTHING;
    int frames = 1;
    while (router.hasReceiveMore()) {
      last = router.recv();
      frames++;
    }
    if (frames != 3) {
      LOG.warn("replay request dropped: expected 3 frames, got {}", frames);
      return;
    }
    long from = 0;
    for (byte digit : last) {
      from = (from << 8) | (digit & 0xff);
    }
    for (Sent sent : ring) {
      if (Long.compareUnsigned(sent.seq(), from) >= 0) {
        answer(router, peer, topic, bigEndian(sent.seq()), sent.payload());
      }
    }
    answer(router, peer, NOTHING, END_OF_REPLAY, NOTHING);
  }

  private void answer(ZMQ.Socket router, byte[] peer, byte[] topic, byte[] seq, byte[] payload) {
    router.sendMore(peer);
    router.sendMore(NOTHING);
    switch (options.framing()) {
      case WITH_TOPIC -> router.sendMore(topic);
      case WITHOUT_TOPIC -> {}
    }
    router.sendMore(seq);
    router.send(payload);
  }

  private static boolean takeOne(AtomicInteger credit) {
    return credit.getAndUpdate(n -> Math.max(0, n - 1)) > 0;
  }

  private static byte[] bigEndian(long value) {
    return ByteBuffer.allocate(8).putLong(value).array();
  }

  /**
   * Binds and says where, in the caller's spelling but with the real port; port 0 means any. IPv4
   * addresses mapped into IPv6 are bound as what they are.
   */
  private static String bind(ZMQ.Socket socket, String endpoint) {
    boolean pick = endpoint.endsWith(":0");
    String spelled = pick ? endpoint.substring(0, endpoint.length() - 2) : endpoint;
    String address = EventOptions.plainIpv4(spelled) + (pick ? ":*" : "");
    if (!socket.bind(address)) {
      throw new IllegalStateException(
          "cannot bind " + endpoint + ": ZeroMQ error " + socket.errno());
    }
    if (!pick) {
      return endpoint;
    }
    String bound = socket.getLastEndpoint();
    return spelled + bound.substring(bound.lastIndexOf(':'));
  }
}
