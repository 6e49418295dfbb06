// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.Worker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.zeromq.ZContext;

/** More feeds than JeroMQ allows sockets by default, each with a replay. */
class ManyFeedsTest {

  private static final int FEEDS = 1_100;

  /** Feeds that come together; more than the replays that may run at once. */
  private static final int STEP = 100;

  /** Patience for machines that have something else to do. */
  private static final KvSubscriberConfig CONFIG =
      new KvSubscriberConfig(
          1,
          65_536,
          1 << 28,
          Duration.ofSeconds(30),
          Duration.ofMillis(100),
          Duration.ofSeconds(3),
          new KvStreamConfig(
              Duration.ofSeconds(10), 3, Duration.ofSeconds(10), Duration.ofSeconds(60), 1 << 20));

  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT);
  private final PrefixMatch match = new PrefixMatch();

  @Test
  void elevenHundredFeedsWithReplaysBecomeLive() throws Exception {
    try (ZContext context = new ZContext();
        FakePublisher publisher = new FakePublisher(context, "tcp://127.0.0.1:*", "", true);
        KvEventSubscriber subscriber =
            new KvEventSubscriber(index, CONFIG, _ -> 0, KvCacheListener.NONE)) {
      publisher.publish(Fleet.stored(new long[] {1, 2}, 0, Fleet.ids(1, 32), 16));
      List<Worker> workers = new ArrayList<>();
      for (int slot = 0; slot < FEEDS; slot++) {
        Worker plain = Fleet.worker(slot, 1);
        workers.add(
            new Worker(
                slot,
                1,
                plain.name(),
                plain.pool(),
                plain.endpoint(),
                KvPublishers.of(publisher.endpoint(), publisher.replayEndpoint(), false)));
      }
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(90);
      for (int known = STEP; known <= FEEDS; known += STEP) {
        subscriber.update(workers.subList(0, known));
        while (live(workers) < known) {
          assertThat(System.nanoTime()).as("%d live", live(workers)).isLessThan(deadline);
          publisher.serve();
          subscriber.doWork(5);
        }
      }

      assertThat(live(workers)).isEqualTo(FEEDS);
    }
  }

  private long live(List<Worker> workers) {
    index.lookup(BlockKeys.of(CacheIdentity.PLAIN, Fleet.ids(1, 33), 16), match);
    return workers.stream()
        .filter(worker -> match.view(worker) == KvViewState.LIVE)
        .filter(worker -> match.cachedTokens(worker) == 32)
        .count();
  }
}
