// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.Worker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.zeromq.ZContext;

/** The subscriber over real ZeroMQ sockets, its rounds run by hand. */
class KvEventSubscriberTest {

  private static final KvSubscriberConfig CONFIG =
      new KvSubscriberConfig(
          1,
          64,
          1 << 20,
          Duration.ofSeconds(5),
          Duration.ofMillis(10),
          Duration.ofSeconds(3),
          KvStreamConfig.DEFAULT);

  private final ZContext context = new ZContext();
  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT);
  private final Fleet.Heard heard = new Fleet.Heard();
  private final KvEventSubscriber subscriber = new KvEventSubscriber(index, CONFIG, _ -> 0, heard);
  private final List<FakePublisher> publishers = new ArrayList<>();
  private final PrefixMatch match = new PrefixMatch();

  @AfterEach
  void close() {
    subscriber.close();
    publishers.forEach(FakePublisher::close);
    context.close();
  }

  private FakePublisher publisher(String endpoint, String topic) {
    FakePublisher publisher = new FakePublisher(context, endpoint, topic, true);
    publishers.add(publisher);
    return publisher;
  }

  private static Worker worker(int slot, FakePublisher publisher) {
    return worker(slot, publisher.endpoint(), publisher.replayEndpoint(), false);
  }

  private static Worker worker(int slot, String events, String replay, boolean bind) {
    Worker plain = Fleet.worker(slot, 1);
    return new Worker(slot, 1, plain.name(), plain.pool(), plain.endpoint(), events, replay, bind);
  }

  /** Blocks of 16 tokens starting at {@code first}, one event. */
  private static KvEvent chain(int first, int count) {
    long[] hashes = new long[count];
    Arrays.setAll(hashes, i -> first * 1000L + i + 1);
    return Fleet.stored(hashes, 0, Fleet.ids(first, 16 * count), 16);
  }

  private int cached(Worker worker, int first) {
    index.lookup(BlockKeys.of(CacheIdentity.PLAIN, Fleet.ids(first, 16 * 8 + 1), 16), match);
    return match.cachedTokens(worker);
  }

  private KvViewState state(Worker worker) {
    index.lookup(BlockKeys.of(CacheIdentity.PLAIN, new int[0], 16), match);
    return match.view(worker);
  }

  private void until(String what, BooleanSupplier reached) throws InterruptedException {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (!reached.getAsBoolean()) {
      assertThat(System.nanoTime()).as("waiting for %s; %s", what, heard.log).isLessThan(deadline);
      publishers.forEach(FakePublisher::serve);
      subscriber.doWork(5);
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void KVE_01_lateSubscriberReplaysOnceAndThenFollows(boolean repliesWithTopic) throws Exception {
    FakePublisher publisher =
        new FakePublisher(context, "tcp://127.0.0.1:*", "kv@w0@m", repliesWithTopic);
    publishers.add(publisher);
    publisher.publish(chain(100, 2));
    publisher.publish(chain(5000, 4));
    Worker worker = worker(0, publisher);

    subscriber.update(List.of(worker));
    until("the replay", () -> state(worker) == KvViewState.LIVE);

    assertThat(cached(worker, 100)).isEqualTo(32);
    assertThat(cached(worker, 5000)).isEqualTo(64);
    assertThat(publisher.asked.getFirst()).isZero();
    publisher.publish(chain(9000, 1));
    until("a live message", () -> cached(worker, 9000) == 16);
  }

  @Test
  void KVE_02_lostMessagesAreFetched() throws Exception {
    FakePublisher publisher = publisher("tcp://127.0.0.1:*", "");
    Worker worker = worker(0, publisher);
    subscriber.update(List.of(worker));
    until("the subscription", () -> subscribed(publisher, worker, 100));

    publisher.mute(true);
    publisher.publish(chain(3000, 1));
    publisher.mute(false);
    publisher.publish(chain(4000, 1));

    until("the message after the gap", () -> cached(worker, 4000) == 16);
    assertThat(cached(worker, 3000)).isEqualTo(16);
    assertThat(heard.gaps).isOne();
    until("the end of the replay", () -> state(worker) == KvViewState.LIVE);
  }

  /**
   * Publishes until something arrives: a PUB socket drops what it sends before the subscription has
   * reached it.
   */
  private boolean subscribed(FakePublisher publisher, Worker worker, int first) {
    if (state(worker) != KvViewState.LIVE) {
      return false;
    }
    publisher.publish(chain(first, 1));
    return heard.batches > 0
        && heard.log.stream().noneMatch(l -> l.endsWith("GAPPED"))
        && cached(worker, first) > 0;
  }

  @Test
  void KVE_03_restartedWorkerOnTheSameEndpointStartsEmpty() throws Exception {
    FakePublisher first = publisher("tcp://127.0.0.1:*", "kv@w0@m");
    first.publish(chain(100, 2));
    first.publish(chain(200, 2));
    Worker worker = worker(0, first);
    subscriber.update(List.of(worker));
    until("the replay", () -> cached(worker, 200) == 32);

    String endpoint = first.endpoint();
    String replay = first.replayEndpoint();
    first.close();
    publishers.clear();
    FakePublisher second = rebound(endpoint, replay);
    second.publish(chain(700, 3));

    until("the new life", () -> cached(worker, 700) == 48);
    assertThat(cached(worker, 100)).isZero();
    assertThat(heard.restarts).isOne();
  }

  private FakePublisher rebound(String endpoint, String replayEndpoint) {
    FakePublisher publisher = publisher(endpoint, "kv@w0@m2");
    publisher.bindReplay(replayEndpoint);
    return publisher;
  }

  @Test
  void KVE_07_ranksOfOneWorkerAreKeptApart() throws Exception {
    List<Worker> ranks = new ArrayList<>();
    for (int rank = 0; rank < 4; rank++) {
      FakePublisher publisher = publisher("tcp://127.0.0.1:*", "kv@w0@m");
      publisher.publish(chain(1000 * (rank + 1), 2));
      ranks.add(worker(rank, publisher));
    }

    subscriber.update(ranks);
    until("all ranks", () -> ranks.stream().allMatch(rank -> state(rank) == KvViewState.LIVE));

    for (int rank = 0; rank < 4; rank++) {
      for (int content = 0; content < 4; content++) {
        assertThat(cached(ranks.get(rank), 1000 * (content + 1)))
            .isEqualTo(rank == content ? 32 : 0);
      }
    }
  }

  @Test
  void KVE_08_pausedIndexWriterLosesMessagesButNotTheTruth() throws Exception {
    FakePublisher publisher = publisher("tcp://127.0.0.1:*", "");
    Worker worker = worker(0, publisher);
    subscriber.update(List.of(worker));
    until("the subscription", () -> subscribed(publisher, worker, 50));

    CountDownLatch dropped = new CountDownLatch(1);
    heard.onQueueFull = dropped::countDown;
    int last = 10_000;
    for (; dropped.getCount() > 0; last += 200) {
      publisher.publish(chain(last, 1));
      subscriber.readSockets(5); // the writer does not run
    }
    publisher.publish(chain(200, 2));

    until("everything", () -> cached(worker, 200) == 32 && state(worker) == KvViewState.LIVE);
    assertThat(cached(worker, 10_000)).isEqualTo(16);
    assertThat(cached(worker, last - 200)).as("dropped here").isEqualTo(16);
  }

  @Test
  void workersThatConnectToOneBoundEndpointAreToldApartByTopic() throws Exception {
    String endpoint = freeEndpoint();
    FakePublisher a = publisher("connect " + endpoint, "kv@w0@m");
    FakePublisher b = publisher("connect " + endpoint, "kv@w1@m");
    a.publish(chain(100, 1));
    b.publish(chain(200, 1));
    Worker workerA = worker(0, endpoint, a.replayEndpoint(), true);
    Worker workerB = worker(1, endpoint, b.replayEndpoint(), true);

    subscriber.update(List.of(workerA, workerB));
    until("both replays", () -> cached(workerA, 100) == 16 && cached(workerB, 200) == 16);

    a.publish(chain(300, 1));
    b.publish(chain(400, 1));
    until(
        "live messages",
        () -> {
          a.publish();
          b.publish();
          return cached(workerA, 300) == 16 && cached(workerB, 400) == 16;
        });
    assertThat(cached(workerA, 400)).isZero();
  }

  private String freeEndpoint() {
    try (var socket = new java.net.ServerSocket(0)) {
      return "tcp://127.0.0.1:" + socket.getLocalPort();
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  @Test
  void workersComeAndGoAtRunTime() throws Exception {
    FakePublisher publisher = publisher("tcp://127.0.0.1:*", "");
    publisher.publish(chain(100, 1));
    Worker worker = worker(0, publisher);
    Worker blind = Fleet.worker(1, 1);
    subscriber.update(List.of(worker, blind));
    until("the replay", () -> cached(worker, 100) == 16);
    assertThat(state(blind)).isEqualTo(KvViewState.BLIND);

    subscriber.update(List.of(blind));
    until("the end", () -> state(worker) == KvViewState.DEAD);
    assertThat(cached(worker, 100)).isZero();

    Worker nextLife =
        new Worker(
            0,
            2,
            worker.name(),
            worker.pool(),
            worker.endpoint(),
            worker.kvEvents(),
            worker.kvReplay(),
            false);
    subscriber.update(List.of(nextLife));
    until("the next life", () -> cached(nextLife, 100) == 16);
    assertThat(cached(worker, 100)).isZero();
  }

  @Test
  void endpointThatCannotBeUsedLeavesTheOthersAlone() throws Exception {
    FakePublisher publisher = publisher("tcp://127.0.0.1:*", "");
    publisher.publish(chain(100, 1));
    Worker good = worker(0, publisher);
    Worker nonsense = worker(1, "carrier-pigeon", "", false);
    Worker unreachable = worker(2, "tcp://127.0.0.1:1", "tcp://127.0.0.1:1", false);

    subscriber.update(List.of(nonsense, unreachable, good));
    until("the good one", () -> cached(good, 100) == 16);

    assertThat(state(nonsense).trust()).isNotEqualTo(KvViewState.Trust.FULL);
    assertThat(state(unreachable)).isEqualTo(KvViewState.SYNCING);
  }

  @Test
  void ownThreadsFollowTooAndEndInBoundedTime() throws Exception {
    FakePublisher publisher = publisher("tcp://127.0.0.1:*", "");
    publisher.publish(chain(100, 1));
    Worker worker = worker(0, publisher);
    subscriber.start();
    subscriber.update(List.of(worker));
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (cached(worker, 100) == 0) {
      publisher.serve();
      Thread.onSpinWait();
      assertThat(System.nanoTime()).isLessThan(deadline);
    }

    long before = System.nanoTime();
    subscriber.close();
    assertThat(System.nanoTime() - before).isLessThan(TimeUnit.SECONDS.toNanos(8));
    assertThat(state(worker)).isEqualTo(KvViewState.DEAD);
  }
}
