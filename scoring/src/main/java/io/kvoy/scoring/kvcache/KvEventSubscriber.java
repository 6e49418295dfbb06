// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.ToIntFunction;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.zeromq.ZContext;

/**
 * Listens to the KV events of all workers over ZeroMQ and keeps the {@link PrefixIndex}.
 *
 * <p>A few threads read sockets ({@link SocketLoop}), one writes the index ({@link IndexWriter}), a
 * bounded queue is between them ({@link HandOver}). Tests and simulators that bring their own
 * threads do not call {@link #start} but {@link #doWork}.
 *
 * <p>Each data-parallel rank of a worker is followed for itself, with its own sockets, sequence and
 * state.
 */
public final class KvEventSubscriber implements AutoCloseable {

  private static final Logger LOG = LoggerFactory.getLogger(KvEventSubscriber.class);

  /**
   * JeroMQ's own bound is 1,024. Each feed has a socket, and a replay for a time; they are made as
   * needed, so a bound that is never reached costs a few bytes each.
   */
  static final int MAX_SOCKETS = 65_536;

  private static final long SOCKET_WAIT_MILLIS = 20;
  private static final long WRITER_WAIT_MILLIS = 20;

  private final KvSubscriberConfig config;
  private final ZContext context = new ZContext();
  private final HandOver handOver;
  private final List<SocketLoop> loops = new ArrayList<>();
  private final IndexWriter writer;
  private final List<Thread> threads = new ArrayList<>();

  /** Volatile: tells the threads to end. */
  private volatile boolean isClosing;

  @GuardedBy("this")
  private Set<Worker> fleet = Set.of();

  @GuardedBy("this")
  private boolean isClosed;

  /**
   * @param inFlight requests that are at a worker right now, to tell silence from idleness; called
   *     by the writer thread
   */
  public KvEventSubscriber(
      PrefixIndex index,
      KvSubscriberConfig config,
      ToIntFunction<Worker> inFlight,
      KvCacheListener listener) {
    this.config = config;
    this.handOver = new HandOver(config.queueMessages(), config.queueBytes());
    context.setLinger(0);
    if (!context.getContext().setMaxSockets(MAX_SOCKETS)) {
      throw new IllegalStateException("the number of ZeroMQ sockets cannot be set");
    }
    for (int i = 0; i < config.socketThreads(); i++) {
      loops.add(new SocketLoop(context, handOver, config, listener));
    }
    this.writer = new IndexWriter(index, handOver, loops, inFlight, config.stream(), listener);
  }

  /** Starts the threads. */
  public synchronized void start() {
    if (!threads.isEmpty() || isClosed) {
      throw new IllegalStateException("started before");
    }
    for (int i = 0; i < loops.size(); i++) {
      SocketLoop loop = loops.get(i);
      threads.add(
          Thread.ofPlatform()
              .name("kv-sockets-" + i)
              .daemon()
              .unstarted(() -> run(() -> loop.doWork(SOCKET_WAIT_MILLIS), loop::close)));
    }
    threads.add(
        Thread.ofPlatform()
            .name("kv-index-writer")
            .daemon()
            .unstarted(
                () ->
                    run(
                        () -> writer.doWork(WRITER_WAIT_MILLIS, System.nanoTime()),
                        writer::close)));
    threads.forEach(Thread::start);
  }

  /** The fleet is this from now on: unknown lives are added, missing ones end. Any thread. */
  public synchronized void update(Collection<Worker> workers) {
    Set<Worker> now = new HashSet<>(workers);
    for (Worker gone : fleet) {
      if (!now.contains(gone)) {
        handOver.put(new HandOver.Remove(gone));
      }
    }
    for (Worker worker : now) {
      if (!fleet.contains(worker)) {
        handOver.put(new HandOver.Add(worker));
      }
    }
    fleet = now;
  }

  /** What is known of every worker, at most a moment old. Any thread. */
  public List<KvView> views() {
    return writer.views();
  }

  /**
   * One round of everything in the caller's thread, instead of {@link #start}; returns what was
   * done.
   */
  int doWork(long waitMillis) throws InterruptedException {
    return readSockets(waitMillis) + writer.doWork(0, System.nanoTime());
  }

  /** The socket half of {@link #doWork}. */
  int readSockets(long waitMillis) throws InterruptedException {
    int done = 0;
    for (SocketLoop loop : loops) {
      done += loop.doWork(waitMillis);
    }
    return done;
  }

  private interface Round {
    int run() throws InterruptedException;
  }

  private void run(Round round, Runnable end) {
    while (!isClosing) {
      try {
        round.run();
      } catch (InterruptedException _) {
        break;
      } catch (RuntimeException e) {
        // A bug here must not end the thread: everything would look alive and be stale.
        LOG.error("KV event thread failed in one round and goes on", e);
      }
    }
    end.run();
  }

  /** Stops the threads and closes the sockets; returns in bounded time. */
  @Override
  public void close() {
    synchronized (this) {
      if (isClosed) {
        return;
      }
      isClosed = true;
    }
    isClosing = true;
    boolean allEnded = true;
    try {
      for (Thread thread : threads) {
        thread.join(config.closeTimeout());
        allEnded &= !thread.isAlive();
      }
    } catch (InterruptedException _) {
      Thread.currentThread().interrupt();
      allEnded = false;
    }
    if (!allEnded) {
      LOG.error(
          "KV event threads did not end within {}; their sockets stay open", config.closeTimeout());
      return;
    }
    if (threads.isEmpty()) {
      loops.forEach(SocketLoop::close);
      writer.close();
    }
    context.close();
  }
}
