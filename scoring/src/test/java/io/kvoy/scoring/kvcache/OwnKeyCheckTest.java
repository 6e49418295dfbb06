// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.OwnKeyCheck.Finding;
import io.kvoy.scoring.kvcache.OwnKeyCheck.Tally;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class OwnKeyCheckTest {

  private static final int BLOCK = 32;

  private long now = 1_000_000_000L;
  private final List<Finding> found = new ArrayList<>();
  private final List<OwnKeys> changes = new ArrayList<>();
  private final OwnKeyCheck check =
      new OwnKeyCheck(
          () -> now,
          new OwnKeyCheck.Verdicts() {
            @Override
            public void found(Worker worker, Finding finding) {
              found.add(finding);
            }

            @Override
            public void changed(Worker worker, OwnKeys keys) {
              changes.add(keys);
            }
          });
  private final SpeculativePrefixes speculative = new SpeculativePrefixes(1024, () -> now);
  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT, speculative, check);
  private final Worker worker = Fleet.worker(0, 1);
  private final WorkerBlocks blocks = index.open(worker, KvViewState.LIVE, KvCacheListener.NONE);
  private final PrefixMatch match = new PrefixMatch();
  private long nextHash = 1;

  OwnKeyCheckTest() {
    // The worker's block size is known from earlier blocks.
    store(Fleet.ids(900_000, BLOCK));
    tick();
  }

  private static BlockKeys keys(int... ids) {
    return BlockKeys.of(CacheIdentity.PLAIN, ids, 16);
  }

  private long[] store(int... ids) {
    return storeAs(null, null, ids);
  }

  /** The worker announces the prompt's whole blocks; returns their hashes. */
  private long[] storeAs(@Nullable String lora, @Nullable String salt, int... ids) {
    long[] hashes = new long[ids.length / BLOCK];
    Arrays.setAll(hashes, i -> nextHash + i);
    nextHash += hashes.length;
    int[] whole = Arrays.copyOf(ids, hashes.length * BLOCK);
    blocks.apply(Fleet.batch(Fleet.stored(hashes, 0, whole, BLOCK, lora, salt)));
    return hashes;
  }

  private void tick() {
    check.tick();
    now += Duration.ofMillis(1).toNanos();
  }

  private void route(BlockKeys keys) {
    index.lookup(keys, List.of(worker), match);
    check.routed(worker, keys, match);
  }

  private void read(BlockKeys keys, long routedNanos) {
    check.read(worker, keys, "model", routedNanos);
  }

  /** Routes the prompt; the worker stores {@code stored} and answers. */
  private void request(BlockKeys keys, Runnable stored) {
    long routed = now;
    route(keys);
    tick();
    stored.run();
    tick();
    read(keys, routed);
  }

  private void waitAndCheck() {
    for (int i = 0; i < 12; i++) {
      now += Duration.ofMillis(500).toNanos();
      check.doWork(index);
    }
  }

  private void absentPrompts(int count) {
    for (int i = 0; i < count; i++) {
      int first = 10_000 * (i + 1);
      request(keys(Fleet.ids(first, 97)), () -> store(Fleet.ids(first + 5, 97)));
    }
    waitAndCheck();
  }

  @Test
  void promptOfWhichEveryBlockCameVerifiesTheWorker() {
    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Unverified());

    request(keys(Fleet.ids(100, 97)), () -> store(Fleet.ids(100, 97)));
    waitAndCheck();

    assertThat(found).containsExactly(Finding.WHOLE);
    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Verified());
    assertThat(changes).containsExactly(new OwnKeys.Verified());
    assertThat(check.tally(worker)).isEqualTo(new Tally(1, 0, 0, 0));
  }

  @Test
  void blocksThatAreEvictedAtOnceWereSeenAllTheSame() {
    request(
        keys(Fleet.ids(100, 97)),
        () -> blocks.apply(Fleet.batch(Fleet.removed(store(Fleet.ids(100, 97))))));
    waitAndCheck();

    assertThat(found).containsExactly(Finding.WHOLE);
  }

  @Test
  void prefixThatWasThereBeforeIsHitWithoutAnEventAndCounts() {
    store(Fleet.ids(100, 97));
    request(keys(Fleet.ids(100, 97)), () -> {});
    waitAndCheck();

    assertThat(found).containsExactly(Finding.WHOLE);
  }

  @Test
  void lateEventsAreWaitedFor() {
    BlockKeys keys = keys(Fleet.ids(100, 97));
    request(keys, () -> store(Fleet.ids(700_000, 97)));
    now += Duration.ofSeconds(3).toNanos();
    assertThat(check.doWork(index)).isZero();
    store(Fleet.ids(100, 97));
    waitAndCheck();

    assertThat(found).containsExactly(Finding.WHOLE);
  }

  @Test
  void hitsInBlocksThatOnlyTheWorkerKnowsProveNothing() {
    // Nothing is stored, as everything is in its cache already under keys that are not ours.
    for (int i = 0; i < 20; i++) {
      request(keys(Fleet.ids(100 * i, 97)), () -> {});
    }
    waitAndCheck();

    assertThat(found).hasSize(20).containsOnly(Finding.INCONCLUSIVE);
    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Unverified());
  }

  @Test
  void promptBelowOneBlockIsNotAskedFor() {
    request(keys(Fleet.ids(100, BLOCK - 1)), () -> store(Fleet.ids(500_000, BLOCK)));
    request(keys(Fleet.ids(100, 5)), () -> store(Fleet.ids(600_000, BLOCK)));
    waitAndCheck();

    assertThat(found).isEmpty();
  }

  @Test
  void lastBlockThatIsFullIsStoredThoughItCannotBeHit() {
    request(keys(Fleet.ids(100, 2 * BLOCK)), () -> store(Fleet.ids(100, 2 * BLOCK)));
    waitAndCheck();

    assertThat(found).containsExactly(Finding.WHOLE);
  }

  @Test
  void otherRoutersTrafficAndTheirSamePromptsDoNotDisturb() {
    request(
        keys(Fleet.ids(100, 97)),
        () -> {
          for (int i = 1; i < 50; i++) {
            store(Fleet.ids(100_000 * i, 97));
          }
          long[] own = store(Fleet.ids(100, 97));
          store(Fleet.ids(100, 97));
          blocks.apply(Fleet.batch(Fleet.removed(own)));
        });
    waitAndCheck();

    assertThat(found).containsExactly(Finding.WHOLE);
  }

  @Test
  void viewsWithGapsProveOnlyWhatTheyShow() {
    blocks.setState(KvViewState.GAPPED);
    request(keys(Fleet.ids(100, 97)), () -> store(Fleet.ids(500, 97)));
    request(keys(Fleet.ids(4_000, 97)), () -> store(Fleet.ids(4_000, 97)));
    waitAndCheck();

    assertThat(found).containsExactlyInAnyOrder(Finding.INCONCLUSIVE, Finding.WHOLE);
  }

  @Test
  void viewThatWasEmptiedMeanwhileProvesNothing() {
    for (int i = 0; i < 10; i++) {
      request(
          keys(Fleet.ids(100 * i, 97)),
          () -> {
            store(Fleet.ids(800_000, 97));
            blocks.clear();
          });
    }
    waitAndCheck();

    assertThat(found).hasSize(10).containsOnly(Finding.INCONCLUSIVE);
  }

  @Test
  void whatWasSeenBeforeARestartDoesNotSpeakForWhatComesAfterIt() {
    BlockKeys keys = keys(Fleet.ids(100, 97));
    request(keys, () -> store(Fleet.ids(100, 97)));
    waitAndCheck();
    blocks.restart();
    check.forget(worker);
    store(Fleet.ids(900_000, BLOCK));
    tick();
    for (int i = 0; i < 3; i++) {
      int other = 50_000 * (i + 1);
      request(keys, () -> store(Fleet.ids(other, 97)));
    }
    waitAndCheck();

    assertThat(found)
        .containsExactly(Finding.WHOLE, Finding.ABSENT, Finding.ABSENT, Finding.ABSENT);
    assertThat(check.of(worker).state()).isEqualTo(OwnKeys.State.MISMATCH);
  }

  @Test
  void promptAfterPromptThatIsNotThereIsAMismatchAndTheWorkerIsScoredWithoutItsCache() {
    absentPrompts(2);
    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Unverified());
    absentPrompts(1);

    assertThat(check.of(worker))
        .isInstanceOfSatisfying(
            OwnKeys.Mismatch.class,
            mismatch -> {
              assertThat(mismatch.cause()).isEqualTo(OwnKeys.Cause.TEMPLATE);
              assertThat(mismatch.detail()).contains("compare tokenizer and chat template");
            });
    BlockKeys there = keys(Fleet.ids(900_000, BLOCK + 1));
    index.lookup(there, List.of(worker), match);
    assertThat(match.cachedTokens(worker)).isEqualTo(BLOCK);
    check.discount(there, List.of(worker), match);
    assertThat(match.cachedTokens(worker)).isZero();
    assertThat(match.expectedTokens(worker)).isZero();
    assertThat(match.view(worker)).isEqualTo(KvViewState.MISMATCHED);
    assertThat(match.view(worker).trust()).isEqualTo(KvViewState.Trust.NONE);
  }

  @Test
  void oneWholePromptEndsAMismatch() {
    absentPrompts(3);
    request(keys(Fleet.ids(100, 97)), () -> store(Fleet.ids(100, 97)));
    waitAndCheck();

    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Verified());
    BlockKeys there = keys(Fleet.ids(100, 97));
    index.lookup(there, List.of(worker), match);
    check.discount(there, List.of(worker), match);
    assertThat(match.cachedTokens(worker)).isEqualTo(96);
  }

  @Test
  void verifiedWorkerTakesALongerRunToBeDoubted() {
    request(keys(Fleet.ids(100, 97)), () -> store(Fleet.ids(100, 97)));
    absentPrompts(8);
    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Verified());
    absentPrompts(1);
    assertThat(check.of(worker).state()).isEqualTo(OwnKeys.State.MISMATCH);
  }

  @Test
  void differenceWithinThePromptIsToldWithItsPlace() {
    for (int i = 0; i < 6; i++) {
      int first = 10_000 * (i + 1);
      request(
          keys(Fleet.ids(first, 161)),
          () -> store(Fleet.concat(Fleet.ids(first, 70), Fleet.ids(7, 91))));
    }
    waitAndCheck();

    assertThat(found).hasSize(6).containsOnly(Finding.PARTIAL);
    assertThat(check.of(worker))
        .isInstanceOfSatisfying(
            OwnKeys.Mismatch.class,
            mismatch -> {
              assertThat(mismatch.cause()).isEqualTo(OwnKeys.Cause.TEMPLATE);
              assertThat(mismatch.detail()).contains("up to token 64 ");
            });
  }

  @Test
  void saltThatTheWorkerDoesNotKnowIsNamedAndPlainPromptsKeepTheirCache() {
    request(keys(Fleet.ids(100, 97)), () -> store(Fleet.ids(100, 97)));
    CacheIdentity salted = CacheIdentity.of(null, "s");
    for (int i = 0; i < 3; i++) {
      int[] ids = Fleet.ids(10_000 * (i + 1), 97);
      request(BlockKeys.of(salted, ids, 16), () -> store(ids));
    }
    waitAndCheck();

    assertThat(check.of(worker))
        .isInstanceOfSatisfying(
            OwnKeys.Mismatch.class,
            mismatch -> assertThat(mismatch.cause()).isEqualTo(OwnKeys.Cause.SALT));
    BlockKeys plain = keys(Fleet.ids(100, 97));
    index.lookup(plain, List.of(worker), match);
    check.discount(plain, List.of(worker), match);
    assertThat(match.cachedTokens(worker)).isEqualTo(96);
    check.discount(BlockKeys.of(salted, Fleet.ids(1, 97), 16), List.of(worker), match);
    assertThat(match.cachedTokens(worker)).isZero();
  }

  @Test
  void adapterThatTheWorkerServesAsItsBaseModelIsNamed() {
    for (int i = 0; i < 3; i++) {
      int[] ids = Fleet.ids(10_000 * (i + 1), 97);
      request(BlockKeys.of(CacheIdentity.of("sql", null), ids, 16), () -> store(ids));
    }
    waitAndCheck();

    assertThat(check.of(worker))
        .isInstanceOfSatisfying(
            OwnKeys.Mismatch.class,
            mismatch -> {
              assertThat(mismatch.cause()).isEqualTo(OwnKeys.Cause.ADAPTER);
              assertThat(mismatch.detail()).contains("for adapter sql as its base model's");
            });
  }

  @Test
  void modelThatTheWorkerServesAsAnAdapterIsNamed() {
    for (int i = 0; i < 3; i++) {
      int[] ids = Fleet.ids(10_000 * (i + 1), 97);
      request(keys(ids), () -> storeAs("model", null, ids));
    }
    waitAndCheck();

    assertThat(check.of(worker))
        .isInstanceOfSatisfying(
            OwnKeys.Mismatch.class,
            mismatch -> {
              assertThat(mismatch.cause()).isEqualTo(OwnKeys.Cause.ADAPTER);
              assertThat(mismatch.detail()).contains("list it under adapters");
            });
  }

  @Test
  void blockSizeThatCannotBeIndexedIsNamed() {
    check.refusedBlockSize(worker, 24);
    check.doWork(index);

    assertThat(check.of(worker))
        .isInstanceOfSatisfying(
            OwnKeys.Mismatch.class,
            mismatch -> {
              assertThat(mismatch.cause()).isEqualTo(OwnKeys.Cause.BLOCK_SIZE);
              assertThat(mismatch.detail()).contains("24 tokens");
            });
  }

  @Test
  void changedConfigurationStartsAnew() {
    absentPrompts(3);
    assertThat(check.of(worker).state()).isEqualTo(OwnKeys.State.MISMATCH);

    check.forgetAll();
    check.doWork(index);

    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Unverified());
    BlockKeys there = keys(Fleet.ids(900_000, BLOCK + 1));
    index.lookup(there, List.of(worker), match);
    check.discount(there, List.of(worker), match);
    assertThat(match.cachedTokens(worker)).isEqualTo(BLOCK);
  }

  @Test
  void anyRankMayHaveStoredThePrompt() {
    WorkerBlocks second = index.open(worker, 1, KvViewState.LIVE, KvCacheListener.NONE);
    request(
        keys(Fleet.ids(100, 97)),
        () ->
            second.apply(
                Fleet.batch(Fleet.stored(new long[] {1, 2, 3}, 0, Fleet.ids(100, 96), BLOCK))));
    waitAndCheck();

    assertThat(found).containsExactly(Finding.WHOLE);
  }

  @Test
  void watchesThatWereDisplacedProveNothing() {
    BlockKeys keys = keys(Fleet.ids(100, 97));
    request(keys, () -> store(Fleet.ids(500_000, 97)));
    for (int i = 0; i < 400_000; i++) {
      check.routed(worker, keys(Fleet.ids(i, BLOCK)), match);
    }
    waitAndCheck();

    assertThat(found).containsExactly(Finding.INCONCLUSIVE);
  }

  @Test
  void workersThatLeftAreForgottenAndTheQueueIsBounded() {
    BlockKeys keys = keys(Fleet.ids(100, 97));
    request(keys, () -> store(Fleet.ids(100, 97)));
    for (int i = 0; i < 5_000; i++) {
      read(keys, now);
    }
    waitAndCheck();
    assertThat(check.tally(worker)).isEqualTo(new Tally(1024, 0, 0, 0));

    check.retain(List.of());
    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Unverified());
    assertThat(check.tally(worker)).isEqualTo(Tally.NONE);
  }

  @Test
  void mismatchIsFoundInAPartialViewTooThoughLater() {
    blocks.setState(KvViewState.PARTIAL);
    absentPrompts(8);
    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Unverified());
    request(keys(Fleet.ids(777_000, 97)), () -> store(Fleet.ids(770_005, 97)));
    waitAndCheck();

    assertThat(check.of(worker).state()).isEqualTo(OwnKeys.State.MISMATCH);
  }

  @Test
  void saltThatIsDroppedIsFoundInAPartialView() {
    blocks.setState(KvViewState.PARTIAL);
    CacheIdentity salted = CacheIdentity.of(null, "s");
    for (int i = 0; i < 9; i++) {
      int[] ids = Fleet.ids(10_000 * (i + 1), 97);
      request(BlockKeys.of(salted, ids, 16), () -> store(ids));
    }
    waitAndCheck();

    assertThat(check.of(worker))
        .isInstanceOfSatisfying(
            OwnKeys.Mismatch.class,
            mismatch -> assertThat(mismatch.cause()).isEqualTo(OwnKeys.Cause.SALT));
  }

  @Test
  void oldBlocksThatAreHitAgainAndAgainInAPartialViewAccuseNobody() {
    blocks.setState(KvViewState.PARTIAL);
    for (int i = 0; i < 40; i++) {
      int other = 50_000 * (i + 1);
      // All begin alike, with a system prompt that the worker read before our time.
      int[] prompt = Fleet.concat(Fleet.ids(1, 64), Fleet.ids(other, 64));
      request(keys(prompt), () -> store(Fleet.ids(other + 7, 97)));
    }
    waitAndCheck();

    assertThat(found).hasSize(40).filteredOn(f -> f == Finding.ABSENT).hasSize(1);
    assertThat(check.of(worker)).isEqualTo(new OwnKeys.Unverified());
  }
}
