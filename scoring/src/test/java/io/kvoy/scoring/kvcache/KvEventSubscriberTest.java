// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.Worker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
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
  private KvEventSubscriber subscriber = new KvEventSubscriber(index, CONFIG, _ -> 0, heard);
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
    return new Worker(
        slot,
        1,
        plain.name(),
        plain.pool(),
        plain.endpoint(),
        KvPublishers.of(events, replay, bind));
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
  void waitsWithoutSpinningWhileNoWorkerPublishes() throws Exception {
    subscriber.update(List.of());
    long start = System.nanoTime();

    subscriber.doWork(100);

    assertThat(System.nanoTime() - start).isGreaterThan(TimeUnit.MILLISECONDS.toNanos(90));
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
  void KVE_02_ringThatHasWrappedLeavesAPartialViewThatIsTrue() throws Exception {
    FakePublisher publisher = publisher("tcp://127.0.0.1:*", "kv@w0@m");
    for (int i = 0; i < 6; i++) {
      publisher.publish(chain(1000 * (i + 1), 1));
    }
    publisher.forgetBefore(3);
    Worker worker = worker(0, publisher);

    subscriber.update(List.of(worker));
    until("what is left of the ring", () -> cached(worker, 6000) == 16);

    assertThat(state(worker)).isEqualTo(KvViewState.PARTIAL);
    assertThat(cached(worker, 3000)).isZero();
    assertThat(cached(worker, 4000)).isEqualTo(16);
    assertThat(heard.log).contains("replay WRAPPED");
    until(
        "an emptied cache",
        () -> {
          publisher.publish(new KvEvent.AllBlocksCleared(), chain(9000, 1));
          return state(worker) == KvViewState.LIVE;
        });
    assertThat(cached(worker, 9000)).isEqualTo(16);
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
  void KVE_07_everyRankOfAWorkerIsFollowedWithItsOwnSequence() throws Exception {
    List<FakePublisher> ranks = new ArrayList<>();
    for (int rank = 0; rank < 4; rank++) {
      ranks.add(publisher("tcp://127.0.0.1:*", "kv@w0@m"));
      ranks.get(rank).publish(chain(1000 * (rank + 1), 2), chain(100, 4));
    }
    ranks.get(3).publish(chain(7000, 1));
    Worker worker =
        withRanks(
            0,
            false,
            "",
            ranks.stream()
                .map(rank -> new KvPublishers.Rank(rank.endpoint(), rank.replayEndpoint()))
                .toList());

    subscriber.update(List.of(worker));
    until("all ranks", () -> state(worker) == KvViewState.LIVE);

    assertThat(cached(worker, 100)).as("held by all").isEqualTo(64);
    for (int rank = 0; rank < 4; rank++) {
      assertThat(cached(worker, 1000 * (rank + 1))).as("held by one of four").isEqualTo(32 / 4);
    }
    until(
        "the page",
        () ->
            subscriber.views().stream().allMatch(view -> view.state() == KvViewState.LIVE)
                && subscriber.views().stream().anyMatch(view -> view.cursor() == 1));
    assertThat(subscriber.views())
        .extracting(KvView::rank, KvView::cursor, KvView::state)
        .containsExactlyInAnyOrder(
            org.assertj.core.groups.Tuple.tuple(0, 0L, KvViewState.LIVE),
            org.assertj.core.groups.Tuple.tuple(1, 0L, KvViewState.LIVE),
            org.assertj.core.groups.Tuple.tuple(2, 0L, KvViewState.LIVE),
            org.assertj.core.groups.Tuple.tuple(3, 1L, KvViewState.LIVE));

    ranks.get(1).publish(new KvEvent.AllBlocksCleared());
    until("the clearing of one rank", () -> cached(worker, 100) == 48);
    subscriber.update(List.of());
    until("the end", () -> state(worker) == KvViewState.DEAD);
  }

  @Test
  void KVE_07_ranksThatConnectToUsEachHaveAnEndpointOfTheirOwn() throws Exception {
    List<KvPublishers.Rank> sockets = new ArrayList<>();
    List<FakePublisher> ranks = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      String endpoint = freeEndpoint();
      ranks.add(publisher("connect " + endpoint, "any"));
      sockets.add(new KvPublishers.Rank(endpoint, ranks.get(rank).replayEndpoint()));
    }
    Worker worker = withRanks(0, true, "", sockets);
    subscriber.update(List.of(worker));
    until("both views", () -> state(worker) == KvViewState.LIVE);

    ranks.get(0).publish(chain(300, 2));
    ranks.get(1).publish(chain(300, 2));
    until(
        "live messages of both",
        () -> {
          ranks.forEach(FakePublisher::publish);
          return cached(worker, 300) == 32;
        });
  }

  private static Worker withRanks(
      int slot, boolean bind, String topic, List<KvPublishers.Rank> ranks) {
    Worker plain = Fleet.worker(slot, 1);
    return new Worker(
        slot,
        1,
        plain.name(),
        plain.pool(),
        plain.endpoint(),
        new KvPublishers(ranks, bind, topic));
  }

  @Test
  void onlyTheConfiguredTopicIsReceived() throws Exception {
    FakePublisher publisher = publisher("tcp://127.0.0.1:*", "ours@m");
    Worker worker =
        withRanks(0, false, "ours@", List.of(new KvPublishers.Rank(publisher.endpoint(), "")));
    Worker deaf =
        withRanks(1, false, "theirs@", List.of(new KvPublishers.Rank(publisher.endpoint(), "")));
    subscriber.update(List.of(worker, deaf));

    until(
        "the first message",
        () -> {
          publisher.publish(chain(100, 1));
          return cached(worker, 100) == 16;
        });

    assertThat(cached(deaf, 100)).isZero();
    assertThat(state(deaf)).isEqualTo(KvViewState.SYNCING);
  }

  @Test
  void workersThatConnectToOneBoundEndpointMayBeToldApartByConfiguredTopics() throws Exception {
    String endpoint = freeEndpoint();
    FakePublisher a = publisher("connect " + endpoint, "blue");
    FakePublisher b = publisher("connect " + endpoint, "green");
    Worker workerA = withRanks(0, true, "blue", List.of(new KvPublishers.Rank(endpoint, "")));
    Worker workerB = withRanks(1, true, "green", List.of(new KvPublishers.Rank(endpoint, "")));
    subscriber.update(List.of(workerA, workerB));

    until(
        "both",
        () -> {
          a.publish(chain(100, 1));
          b.publish(chain(200, 1));
          return cached(workerA, 100) == 16 && cached(workerB, 200) == 16;
        });

    assertThat(cached(workerA, 200)).isZero();
    assertThat(cached(workerB, 100)).isZero();
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

  /** As many messages as 5,000 a second are in 10 s, and a ring of 10,000 as vLLM keeps it. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void KVE_08_tenSecondsOfFiftyThousandMessagesAreCaughtUp(boolean areSocketsRead)
      throws Exception {
    subscriber.close();
    subscriber = new KvEventSubscriber(index, KvSubscriberConfig.DEFAULT, _ -> 0, heard);
    FakePublisher publisher = publisher("tcp://127.0.0.1:*", "");
    Worker worker = worker(0, publisher);
    subscriber.update(List.of(worker));
    until("the subscription", () -> subscribed(publisher, worker, 50));

    int messages = 50_000;
    for (int i = 0; i < messages; i++) {
      publisher.publish(chain(1_000 + 20 * i, 1));
      if (areSocketsRead && i % 100 == 0) {
        subscriber.readSockets(0); // the writer does not run
      }
    }
    publisher.forgetBefore(messages - 10_000);
    publisher.publish(chain(200, 2));

    until(
        "what the ring has",
        () ->
            cached(worker, 200) == 32
                && cached(worker, 1_000 + 20 * (messages - 9_000)) == 16
                && state(worker) == KvViewState.PARTIAL);
    assertThat(cached(worker, 1_000 + 20 * (messages - 11_000))).as("perhaps evicted").isZero();
    assertThat(publisher.asked).as("one replay at the start, one for the gap").hasSize(2);
    publisher.publish(chain(300, 1));
    until("a live message", () -> cached(worker, 300) == 16);
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
        new Worker(0, 2, worker.name(), worker.pool(), worker.endpoint(), worker.kv());
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
  void endpointThatIsTakenIsTriedAgainUntilItIsFree() throws Exception {
    Worker worker;
    try (var taken = new java.net.ServerSocket(0)) {
      String endpoint = "tcp://127.0.0.1:" + taken.getLocalPort();
      worker = worker(0, endpoint, "", true);
      subscriber.update(List.of(worker));
      for (int round = 0; round < 5; round++) {
        subscriber.doWork(5);
      }
    }
    FakePublisher publisher = publisher("connect " + worker.kv().ranks().get(0).events(), "");

    until(
        "a live message",
        () -> {
          publisher.publish(chain(100, 1));
          return cached(worker, 100) == 16;
        });
  }

  @Test
  void messageWithoutEndLosesItsConnectionAndNotTheMemory() throws Exception {
    AtomicLong sent = new AtomicLong();
    Thread peer;
    try (var hostile = new java.net.ServerSocket(0)) {
      Worker worker = worker(0, "tcp://127.0.0.1:" + hostile.getLocalPort(), "", false);
      subscriber.update(List.of(worker));
      peer = Thread.ofPlatform().daemon().start(() -> sendWithoutEnd(hostile, sent));

      until(
          "the end of the connection",
          () -> heard.malformed.containsKey(KvDecodeError.Kind.TOO_LARGE));

      subscriber.update(List.of());
      subscriber.doWork(5);
    }
    peer.join(TimeUnit.SECONDS.toMillis(10));
    assertThat(peer.isAlive()).isFalse();
    assertThat(sent.get()).isBetween(2L * KvEventDecoder.MAX_PAYLOAD_BYTES, 1L << 30);
  }

  @Test
  void KVE_10_connectionThatSwallowsEverythingIsFoundByItsHeartbeatsAndMadeAnew() throws Exception {
    FakePublisher publisher = publisher("tcp://127.0.0.1:*", "");
    KvSubscriberConfig quick =
        new KvSubscriberConfig(
            1,
            64,
            1 << 20,
            Duration.ofMillis(500),
            Duration.ofMillis(10),
            Duration.ofSeconds(3),
            KvStreamConfig.DEFAULT);
    try (Wire wire = new Wire(publisher.endpoint());
        KvEventSubscriber ours = new KvEventSubscriber(index, quick, _ -> 0, heard)) {
      Worker worker = worker(0, wire.endpoint(), publisher.replayEndpoint(), false);
      ours.update(List.of(worker));
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
      while (cached(worker, 100) == 0 || state(worker) != KvViewState.LIVE) {
        assertThat(System.nanoTime()).as("%s", heard.log).isLessThan(deadline);
        publisher.publish(chain(100, 1));
        publisher.serve();
        ours.doWork(5);
      }

      wire.swallowAll();
      publisher.publish(chain(700, 1));

      while (cached(worker, 700) == 0 || state(worker) != KvViewState.LIVE) {
        assertThat(System.nanoTime()).as("%s", heard.log).isLessThan(deadline);
        publisher.serve();
        ours.doWork(5);
      }
      assertThat(heard.restarts).isZero();
    }
  }

  /** TCP connections through us, of which some swallow what they carry without an error. */
  private static final class Wire implements AutoCloseable {
    private final java.net.ServerSocket server;
    private final int target;
    private final List<java.net.Socket> ends =
        java.util.Collections.synchronizedList(new ArrayList<>());
    private volatile int made;
    private volatile int swallowing;

    Wire(String endpoint) throws java.io.IOException {
      server = new java.net.ServerSocket(0);
      target = Integer.parseInt(endpoint.substring(endpoint.lastIndexOf(':') + 1));
      Thread.ofPlatform().daemon().start(this::accept);
    }

    String endpoint() {
      return "tcp://127.0.0.1:" + server.getLocalPort();
    }

    /** From now on nothing passes through the connections that exist. */
    void swallowAll() {
      swallowing = made;
    }

    private void accept() {
      try {
        while (true) {
          java.net.Socket here = server.accept();
          java.net.Socket there =
              new java.net.Socket(java.net.InetAddress.getLoopbackAddress(), target);
          ends.add(here);
          ends.add(there);
          int number = made;
          made = number + 1;
          Thread.ofPlatform().daemon().start(() -> carry(here, there, number));
          Thread.ofPlatform().daemon().start(() -> carry(there, here, number));
        }
      } catch (java.io.IOException _) {
        // closed
      }
    }

    private void carry(java.net.Socket from, java.net.Socket to, int number) {
      byte[] bytes = new byte[4096];
      try {
        int count;
        while ((count = from.getInputStream().read(bytes)) > 0) {
          if (number >= swallowing) {
            to.getOutputStream().write(bytes, 0, count);
          }
        }
      } catch (java.io.IOException _) {
        // closed
      }
    }

    @Override
    public void close() throws java.io.IOException {
      server.close();
      for (java.net.Socket end : List.copyOf(ends)) {
        end.close();
      }
    }
  }

  /** A PUB peer (ZMTP 3.0, NULL) of which every frame announces another one. */
  private static void sendWithoutEnd(java.net.ServerSocket server, AtomicLong sent) {
    byte[] greeting = new byte[64];
    System.arraycopy(Fleet.hex("ff00000000000000007f0300" + "4e554c4c"), 0, greeting, 0, 16);
    byte[] frame = new byte[9 + (256 << 10)];
    System.arraycopy(Fleet.hex("030000000000040000"), 0, frame, 0, 9);
    while (!server.isClosed()) {
      try (var socket = server.accept()) {
        var out = socket.getOutputStream();
        out.write(greeting);
        // READY with Socket-Type PUB
        out.write(Fleet.hex("0419055245414459" + "0b536f636b65742d54797065" + "00000003505542"));
        while (true) {
          out.write(frame);
          sent.addAndGet(frame.length);
        }
      } catch (java.io.IOException _) {
        // They have had enough, and may come again.
      }
    }
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
