// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.Worker;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.zeromq.SocketType;
import org.zeromq.ZContext;
import org.zeromq.ZMQ;

/** A large fleet over real sockets: threads and sockets stay within their bounds. */
class ManyPublishersTest {

  private static final int WORKERS = 1_000;

  @Test
  void aThousandPublishersAreFollowedByAHandfulOfThreads() throws Exception {
    Set<String> before = threads();
    try (ZContext context = new ZContext();
        KvEventSubscriber subscriber =
            new KvEventSubscriber(
                index, KvSubscriberConfig.DEFAULT, _ -> 0, KvCacheListener.NONE)) {
      List<ZMQ.Socket> publishers = new ArrayList<>();
      List<Worker> workers = new ArrayList<>();
      for (int i = 0; i < WORKERS; i++) {
        ZMQ.Socket publisher = context.createSocket(SocketType.PUB);
        publisher.setLinger(0);
        publisher.bind("tcp://127.0.0.1:*");
        publishers.add(publisher);
        workers.add(worker(i, publisher.getLastEndpoint()));
      }
      subscriber.start();
      subscriber.update(workers);

      byte[] payload = MsgPack.payload(1, Fleet.stored(new long[] {1, 2}, 0, Fleet.ids(1, 32), 16));
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(90);
      long sequence = 0;
      while (followed(workers) < WORKERS) {
        assertThat(System.nanoTime()).as("%d followed", followed(workers)).isLessThan(deadline);
        for (ZMQ.Socket publisher : publishers) {
          publisher.send("", ZMQ.SNDMORE);
          publisher.send(ByteBuffer.allocate(8).putLong(sequence).array(), ZMQ.SNDMORE);
          publisher.send(payload);
        }
        sequence++;
        Thread.sleep(200);
      }

      Set<String> started = threads();
      started.removeAll(before);
      // Sockets, index writer, and the I/O and reaper threads of both contexts.
      assertThat(started).as("threads for %d workers", WORKERS).hasSizeLessThanOrEqualTo(6);
      subscriber.update(workers.subList(0, 1));
      while (followed(workers) > 1) {
        assertThat(System.nanoTime()).isLessThan(deadline);
        Thread.onSpinWait();
      }
    }
  }

  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT);
  private final PrefixMatch match = new PrefixMatch();

  private long followed(List<Worker> workers) {
    index.lookup(BlockKeys.of(CacheIdentity.PLAIN, Fleet.ids(1, 33), 16), match);
    return workers.stream().filter(worker -> match.cachedTokens(worker) == 32).count();
  }

  private static Worker worker(int slot, String endpoint) {
    Worker plain = Fleet.worker(slot, 1);
    return new Worker(
        slot,
        1,
        plain.name(),
        plain.pool(),
        plain.endpoint(),
        KvPublishers.of(endpoint, "", false));
  }

  /** Names and ids, so that equal names are told apart. */
  private static Set<String> threads() {
    Set<String> names = new TreeSet<>();
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      names.add(thread.getName() + " " + thread.threadId());
    }
    return names;
  }
}
