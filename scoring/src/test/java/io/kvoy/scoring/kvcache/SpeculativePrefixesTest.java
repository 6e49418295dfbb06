// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;

class SpeculativePrefixesTest {

  private static final long TTL = 1_000;

  private long now;
  private final SpeculativePrefixes speculative = new SpeculativePrefixes(4096, () -> now);
  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT, speculative);
  private final Worker worker = Fleet.worker(0, 1);
  private final Worker other = Fleet.worker(1, 1);
  private final WorkerBlocks blocks = index.open(worker, KvViewState.LIVE, KvCacheListener.NONE);
  private final WorkerBlocks otherBlocks =
      index.open(other, KvViewState.BLIND, KvCacheListener.NONE);
  private final PrefixMatch match = new PrefixMatch();

  private BlockKeys keys(int... ids) {
    return BlockKeys.of(CacheIdentity.PLAIN, ids, 16);
  }

  private int expected(Worker who, BlockKeys keys) {
    index.lookup(keys, match);
    speculative.merge(keys, match);
    return match.expectedTokens(who);
  }

  private void route(Worker who, BlockKeys keys) {
    index.lookup(keys, match);
    speculative.merge(keys, match);
    speculative.routed(who, keys, match, TTL);
  }

  private void store(int[] ids) {
    long[] hashes = new long[ids.length / 16];
    Arrays.setAll(hashes, i -> 1000 + i);
    blocks.apply(Fleet.batch(Fleet.stored(hashes, 0, Arrays.copyOf(ids, hashes.length * 16), 16)));
  }

  @Test
  void burstWithOneNewPrefixSeesWhereTheFirstRequestWent() {
    int[] shared = Fleet.ids(1, 640);

    route(worker, keys(Fleet.concat(shared, Fleet.ids(9000, 20))));

    BlockKeys second = keys(Fleet.concat(shared, Fleet.ids(9500, 20)));
    assertThat(expected(worker, second)).isEqualTo(640);
    assertThat(match.cachedTokens(worker)).isZero();
    assertThat(expected(other, second)).isZero();
  }

  @Test
  void expectationOfALongerSharedPrefixIsAtMostSevenBlocksShort() {
    int[] shared = Fleet.ids(1, 16 * 45);

    route(worker, keys(Fleet.concat(shared, Fleet.ids(9000, 20))));

    assertThat(expected(worker, keys(Fleet.concat(shared, Fleet.ids(9500, 20)))))
        .isBetween(16 * (45 - 7), 16 * 45);
  }

  @Test
  void nothingIsExpectedThatNoEventOfTheWorkerCouldEnd() {
    // Blocks of 32 tokens: events name every second canonical block, and the prompt ends at an odd
    // one.
    int[] ids = Fleet.ids(1, 16 * 45 + 1);
    long[] hashes = new long[22];
    Arrays.setAll(hashes, i -> 2000 + i);
    KvEvent stored = Fleet.stored(hashes, 0, Arrays.copyOf(ids, 22 * 32), 32);
    blocks.apply(Fleet.batch(Fleet.stored(new long[] {1}, 0, Fleet.ids(7000, 32), 32)));
    route(worker, keys(ids));
    assertThat(expected(worker, keys(ids))).isEqualTo(22 * 32);

    blocks.apply(Fleet.batch(stored));
    assertThat(speculative.counts().live()).isZero();
    blocks.apply(Fleet.batch(Fleet.removed(hashes)));
    assertThat(expected(worker, keys(ids))).isZero();
  }

  @Test
  void blockThatIsAnnouncedOnceMoreConfirmsTheExpectation() {
    int[] ids = Fleet.ids(1, 16 * 4 + 1);
    KvEvent stored = Fleet.stored(new long[] {1, 2, 3, 4}, 0, Arrays.copyOf(ids, 64), 16);
    blocks.apply(Fleet.batch(stored, Fleet.removed(2)));
    route(worker, keys(ids));
    assertThat(speculative.counts().live()).isEqualTo(3);

    // The worker computes from the hole on; two of the blocks were there already.
    blocks.apply(
        Fleet.batch(Fleet.stored(new long[] {2, 3, 4}, 1, Arrays.copyOfRange(ids, 16, 64), 16)));

    assertThat(speculative.counts().live()).isZero();
    assertThat(speculative.counts().confirmed()).isEqualTo(3);
  }

  @Test
  void sameExactPromptIsExpectedExactly() {
    BlockKeys keys = keys(Fleet.ids(1, 16 * 45));

    route(worker, keys);

    assertThat(expected(worker, keys)).isEqualTo(16 * 44);
  }

  @Test
  void eventsConfirmTheExpectation() {
    int[] ids = Fleet.ids(1, 16 * 10 + 1);
    route(worker, keys(ids));
    assertThat(speculative.counts().live()).isEqualTo(9); // 1..8 and 10

    store(ids);

    assertThat(speculative.counts().live()).isZero();
    assertThat(speculative.counts().confirmed()).isEqualTo(9);
    now += 2 * TTL;
    assertThat(expected(worker, keys(ids))).isEqualTo(160);
  }

  @Test
  void timeEndsWhatEventsNeverConfirm() {
    BlockKeys keys = keys(Fleet.ids(1, 100));
    route(worker, keys);

    now += TTL;

    assertThat(expected(worker, keys)).isZero();
    route(worker, keys);
    assertThat(speculative.counts().expired()).isEqualTo(6);
    assertThat(expected(worker, keys)).isEqualTo(96);
  }

  @Test
  void overdueEndOfAConversationDoesNotHideItsBeginningThatWasUsedSince() {
    int[] whole = Fleet.ids(1, 16 * 64);
    int[] beginning = Arrays.copyOf(whole, 16 * 32);
    route(worker, keys(whole));
    now += TTL / 2;
    speculative.routed(worker, keys(beginning), new PrefixMatch(), TTL);
    now += TTL / 2;

    assertThat(expected(worker, keys(Fleet.concat(whole, Fleet.ids(9000, 20)))))
        .isBetween(16 * (32 - 7), 16 * 32);
  }

  @Test
  void overdueEntriesThatNobodyMeetsAreSweptAway() {
    route(worker, keys(Fleet.ids(1, 100)));
    now += TTL;

    for (int i = 0; i < 8; i++) {
      speculative.tick();
    }

    assertThat(speculative.counts().live()).isZero();
    assertThat(speculative.counts().expired()).isEqualTo(6);
  }

  @Test
  void onlyWhatTheWorkerLacksIsEntered() {
    store(Fleet.ids(1, 64));

    route(worker, keys(Fleet.ids(1, 97)));

    assertThat(speculative.counts().live()).isEqualTo(2);
    assertThat(expected(worker, keys(Fleet.ids(1, 97)))).isEqualTo(96);
  }

  @Test
  void emptiedCacheContradictsEverything() {
    store(Fleet.ids(5000, 16));
    route(worker, keys(Fleet.ids(1, 97)));

    blocks.apply(Fleet.batch(new KvEvent.AllBlocksCleared()));

    assertThat(expected(worker, keys(Fleet.ids(1, 97)))).isZero();
    assertThat(speculative.counts().contradicted()).isEqualTo(6);
  }

  @Test
  void endOfALifeEndsItsExpectations() {
    route(worker, keys(Fleet.ids(1, 97)));

    blocks.close();
    Worker next = Fleet.worker(0, 2);
    index.open(next, KvViewState.LIVE, KvCacheListener.NONE);

    assertThat(expected(next, keys(Fleet.ids(1, 97)))).isZero();
    assertThat(expected(worker, keys(Fleet.ids(1, 97)))).isZero();
  }

  @Test
  void withdrawnRequestLeavesTheExpectationOfAnotherOneAlone() {
    BlockKeys keys = keys(Fleet.ids(1, 97));
    index.lookup(keys, match);
    speculative.routed(worker, keys, match, TTL);
    speculative.routed(worker, keys, match, TTL); // at the same time

    speculative.withdraw(worker, keys);
    assertThat(expected(worker, keys)).isEqualTo(96);
    speculative.withdraw(worker, keys);
    assertThat(expected(worker, keys)).isZero();
    assertThat(speculative.counts().withdrawn()).isEqualTo(6);
  }

  @Test
  void workersWithoutEventsAreKnownByWhatWeRoutedThere() {
    BlockKeys keys = keys(Fleet.ids(1, 97));

    route(other, keys);

    assertThat(expected(other, keys)).isEqualTo(96);
    assertThat(match.view(other)).isEqualTo(KvViewState.BLIND);
    assertThat(otherBlocks.blocks()).isZero();
  }

  @Test
  void expectationIsRoundedToTheWorkersOwnBlocks() {
    blocks.apply(Fleet.batch(Fleet.stored(new long[] {1}, 0, Fleet.ids(7000, 32), 32)));

    route(worker, keys(Fleet.ids(1, 16 * 5 + 1)));

    assertThat(expected(worker, keys(Fleet.ids(1, 16 * 5 + 1)))).isEqualTo(64);
  }

  @Test
  void tableStaysBounded() {
    for (int i = 0; i < 100_000; i++) {
      route(worker, keys(Fleet.ids(i * 100, 33)));
    }

    assertThat(speculative.counts().live()).isLessThanOrEqualTo(4096);
    assertThat(speculative.counts().displaced()).isGreaterThan(100_000);
    assertThat(expected(worker, keys(Fleet.ids(99_999 * 100, 33)))).isEqualTo(32);
  }

  @Test
  void readersNeverSeeAnotherWorkersExpectationWhileEntriesComeAndGo() throws Exception {
    BlockKeys asked = keys(Fleet.ids(1, 16 * 8 + 1));
    AtomicBoolean isRunning = new AtomicBoolean(true);
    try (ExecutorService reader = Executors.newSingleThreadExecutor()) {
      Future<Integer> merges =
          reader.submit(
              () -> {
                PrefixMatch seen = new PrefixMatch();
                int count = 0;
                while (isRunning.get()) {
                  index.lookup(asked, seen);
                  speculative.merge(asked, seen);
                  // The other worker only ever gets prompts that begin otherwise.
                  assertThat(seen.expectedTokens(other)).isZero();
                  assertThat(seen.expectedTokens(worker)).isIn(0, 16, 32, 48, 64, 80, 96, 112, 128);
                  count++;
                }
                return count;
              });
      for (int i = 0; i < 20_000; i++) {
        BlockKeys elsewhere = keys(Fleet.ids(1_000_000 + i * 7, 16 * 8 + 1));
        speculative.routed(worker, asked, new PrefixMatch(), TTL);
        speculative.routed(other, elsewhere, new PrefixMatch(), TTL);
        speculative.withdraw(worker, asked);
        speculative.withdraw(other, elsewhere);
      }
      isRunning.set(false);
      assertThat(merges.get(20, TimeUnit.SECONDS)).isPositive();
    }
    assertThat(speculative.counts().live()).isZero();
  }

  /** What an entry is and when it ends: the plain model. */
  private record Entry(long key, Worker worker) {}

  private static final class Held {
    int uses;
    long deadline;
  }

  @Test
  void expectationsEqualThePlainModelOverManyHistories() {
    for (int seed = 0; seed < 40; seed++) {
      compareWithModel(new Random(seed));
    }
  }

  /**
   * Prompts that share prefixes of any length, routed to few workers with different times to live,
   * some withdrawn, some blocks placed, removed or overdue, workers emptied: each worker's
   * expectation is the deepest of its live entries, whatever lies before it.
   */
  private void compareWithModel(Random random) {
    long[] clock = {random.nextLong()};
    SpeculativePrefixes tested = new SpeculativePrefixes(1 << 16, () -> clock[0]);
    PrefixIndex empty = new PrefixIndex(PrefixIndexConfig.DEFAULT);
    List<Worker> workers = new ArrayList<>();
    for (int slot = 0; slot < 6; slot++) {
      Worker each = Fleet.worker(slot, random.nextInt(1, 4));
      workers.add(each);
      empty.open(each, KvViewState.BLIND, KvCacheListener.NONE);
    }
    Map<Entry, Held> model = new HashMap<>();
    List<BlockKeys> prompts = new ArrayList<>();
    int[] trunk = Fleet.ids(random.nextInt(1_000_000), 16 * 200);
    for (int i = 0; i < 12; i++) {
      int shared = random.nextInt(trunk.length);
      int[] tail = Fleet.ids(random.nextInt(1_000_000), random.nextInt(16 * 100));
      prompts.add(keys(Fleet.concat(Arrays.copyOf(trunk, shared), tail)));
    }
    for (int step = 0; step < 200; step++) {
      BlockKeys prompt = prompts.get(random.nextInt(prompts.size()));
      Worker who = workers.get(random.nextInt(workers.size()));
      switch (random.nextInt(8)) {
        case 0, 1, 2 -> {
          empty.lookup(prompt, match);
          if (random.nextBoolean()) {
            tested.merge(prompt, match);
          }
          int known = match.expectedTokens(who) / 16;
          long ttl = random.nextInt(1, 500);
          tested.routed(who, prompt, match, ttl);
          for (int depth : checkpoints(prompt)) {
            if (depth > known) {
              Entry entry = new Entry(prompt.key(depth - 1), who);
              Held held = model.get(entry);
              if (held == null || held.deadline - clock[0] <= 0) {
                held = new Held();
                held.deadline = clock[0] + ttl;
                model.put(entry, held);
              }
              held.uses++;
              held.deadline = Math.max(held.deadline, clock[0] + ttl);
            }
          }
        }
        case 3 -> {
          tested.withdraw(who, prompt);
          for (int depth : checkpoints(prompt)) {
            Held held = model.get(new Entry(prompt.key(depth - 1), who));
            if (held != null && --held.uses == 0) {
              model.remove(new Entry(prompt.key(depth - 1), who));
            }
          }
        }
        case 4, 5 -> {
          int from = random.nextInt(prompt.blocks() + 1);
          int to = from + random.nextInt(prompt.blocks() - from + 1);
          for (int block = from; block < to; block++) {
            if (random.nextBoolean()) {
              tested.placed(who, prompt.key(block));
            } else {
              tested.removed(who, prompt.key(block));
            }
            model.remove(new Entry(prompt.key(block), who));
          }
        }
        case 6 -> clock[0] += random.nextInt(200);
        default -> {
          if (random.nextInt(10) == 0) {
            tested.emptied(who);
            model.keySet().removeIf(entry -> entry.worker().equals(who));
          } else {
            tested.tick();
          }
        }
      }
      BlockKeys asked = prompts.get(random.nextInt(prompts.size()));
      empty.lookup(asked, match);
      tested.merge(asked, match);
      for (Worker each : workers) {
        int deepest = 0;
        for (int depth : checkpoints(asked)) {
          Held held = model.get(new Entry(asked.key(depth - 1), each));
          if (depth <= asked.reusableBlocks() && held != null && held.deadline - clock[0] > 0) {
            deepest = Math.max(deepest, depth);
          }
        }
        assertThat(match.expectedTokens(each))
            .as("%s at step %d", each, step)
            .isEqualTo(deepest * 16);
      }
    }
    assertThat(tested.counts().displaced()).isZero();
  }

  /** Depths at which blocks are entered, as the class says. */
  private static Set<Integer> checkpoints(BlockKeys keys) {
    Set<Integer> depths = new TreeSet<>();
    for (int depth = 1; depth <= keys.blocks(); depth++) {
      if (depth <= 8 || depth % 8 == 0) {
        depths.add(depth);
      }
    }
    for (int last : new int[] {keys.blocks(), keys.reusableBlocks()}) {
      for (int whole = 1; whole <= 4; whole *= 2) {
        depths.add(last - last % whole);
      }
    }
    depths.remove(0);
    return depths;
  }
}
