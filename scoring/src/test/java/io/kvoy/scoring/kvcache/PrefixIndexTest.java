// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.KvCacheListener.SkipReason;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PrefixIndexTest {

  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT);
  private final Fleet.Heard heard = new Fleet.Heard();
  private final PrefixMatch match = new PrefixMatch();

  private WorkerBlocks open(int slot) {
    return index.open(Fleet.worker(slot, 1), KvViewState.LIVE, heard);
  }

  /**
   * The worker caches the ids' whole blocks under hashes made of its base and the block's number.
   */
  private static void cache(WorkerBlocks worker, int[] ids, int blockSize, long base) {
    cache(worker, ids, blockSize, base, null, null);
  }

  private static void cache(
      WorkerBlocks worker,
      int[] ids,
      int blockSize,
      long base,
      @Nullable String lora,
      @Nullable String salt) {
    int count = ids.length / blockSize;
    long[] hashes = new long[count];
    Arrays.setAll(hashes, i -> base + i + 1);
    worker.apply(
        Fleet.batch(
            Fleet.stored(hashes, 0, Arrays.copyOf(ids, count * blockSize), blockSize, lora, salt)));
  }

  private int cached(WorkerBlocks worker, int... ids) {
    return cached(worker, CacheIdentity.PLAIN, ids);
  }

  private int cached(WorkerBlocks worker, CacheIdentity identity, int... ids) {
    index.lookup(BlockKeys.of(identity, ids, index.blockSize()), match);
    return match.cachedTokens(worker.worker());
  }

  private void apply(WorkerBlocks worker, String file) {
    for (Map<String, Object> line : TestJson.lines("cases/" + file)) {
      worker.apply(
          ((KvDecode.Decoded) new KvEventDecoder().decode(MsgPack.message(line).payload()))
              .batch());
    }
  }

  @Test
  void HASH_01_workersWithDifferentHashSeedsMatchAlike() {
    int[] ids = Fleet.ids(500, 64);
    WorkerBlocks fixedSeed = open(0);
    WorkerBlocks envSeed = open(1);
    WorkerBlocks randomSeed = open(2);
    cache(fixedSeed, ids, 16, 0x1111_0000L);
    cache(envSeed, ids, 16, 0x7777_7777_0000L);
    cache(randomSeed, ids, 16, 0xFEDC_BA98_0000_0000L);

    assertThat(List.of(cached(fixedSeed, ids), cached(envSeed, ids), cached(randomSeed, ids)))
        .containsExactly(48, 48, 48);
  }

  @Test
  void HASH_03_adapterMatchesItselfOnly() {
    WorkerBlocks worker = open(0);
    worker.apply(
        ((KvDecode.Decoded)
                new KvEventDecoder()
                    .decode(
                        MsgPack.message(TestJson.object(TestJson.resource("cases/kve-lora.json")))
                            .payload()))
            .batch());
    int[] ids = Fleet.ids(100, 17);

    assertThat(cached(worker, CacheIdentity.of("alpha", null), ids)).isEqualTo(16);
    assertThat(cached(worker, CacheIdentity.of("beta", null), ids)).isZero();
    assertThat(cached(worker, CacheIdentity.PLAIN, ids)).isZero();
    assertThat(cached(worker, CacheIdentity.of(null, "alpha"), ids)).isZero();
  }

  @Test
  void numericAdapterIdOfOldWorkersDoesNotPassForTheBaseModel() {
    WorkerBlocks worker = open(0);
    int[] ids = Fleet.ids(100, 17);
    worker.apply(
        Fleet.batch(
            new KvEvent.BlockStored(
                new long[] {1},
                false,
                0,
                Fleet.ids(100, 16),
                16,
                null,
                1L,
                null,
                List.of(),
                Tier.GPU,
                KvEvent.NO_GROUP,
                GroupKind.UNSTATED,
                0)));

    assertThat(cached(worker, ids)).isZero();
    assertThat(worker.blocks()).isOne();
  }

  @Test
  void saltedPromptsMatchOnlyUnderTheirSalt() {
    WorkerBlocks worker = open(0);
    int[] ids = Fleet.ids(100, 40);
    cache(worker, ids, 16, 0, null, "tenant-7");

    assertThat(cached(worker, CacheIdentity.of(null, "tenant-7"), ids)).isEqualTo(32);
    assertThat(cached(worker, CacheIdentity.of(null, "tenant-8"), ids)).isZero();
    assertThat(cached(worker, ids)).isZero();
  }

  @ParameterizedTest(name = "prompt of {0} tokens, worker block {1}: {2} tokens reusable")
  @CsvSource({
    "64, 16, 48", // exactly 4 blocks: the last token must be computed again
    "65, 16, 64",
    "15, 16, 0",
    "0, 16, 0",
    "1, 16, 0",
    "64, 32, 32",
    "65, 32, 64",
    "96, 32, 64",
    "95, 32, 64",
    "128, 128, 0",
    "129, 128, 128"
  })
  void HASH_04_onlyWholeBlocksBeforeTheLastTokenAreReusable(int prompt, int block, int tokens) {
    WorkerBlocks worker = open(0);
    cache(worker, Fleet.ids(1, 256), block, 0);

    assertThat(cached(worker, Fleet.ids(1, prompt))).isEqualTo(tokens);
  }

  @Test
  void HASH_05_onlyDenseFullAttentionBlocksCount() {
    WorkerBlocks worker = open(0);

    apply(worker, "kve-hybrid.jsonl");

    assertThat(worker.holds(1)).isTrue();
    assertThat(worker.blocks()).isOne();
    assertThat(worker.references()).isOne();
    assertThat(heard.skipped)
        .isEqualTo(
            Map.of(
                SkipReason.WINDOW_GROUP, 1,
                SkipReason.NOT_DENSE, 2, // two hashes in one event
                SkipReason.SKIPPED_GROUP_REMOVAL, 1));
    assertThat(cached(worker, Fleet.ids(100, 17)))
        .as("a group that never agreed with the main one does not veto")
        .isEqualTo(16);
  }

  @Test
  void workersOfDifferentBlockSizesShareTheIndexAndMatchInTheirOwnBlocks() {
    int[] ids = Fleet.ids(1, 300);
    WorkerBlocks small = open(0);
    WorkerBlocks middle = open(1);
    WorkerBlocks large = open(2);
    cache(small, ids, 16, 0);
    cache(middle, Fleet.ids(1, 96), 32, 0);
    cache(large, ids, 128, 0);

    index.lookup(BlockKeys.of(CacheIdentity.PLAIN, ids, 16), match);

    assertThat(match.cachedTokens(small.worker())).isEqualTo(288);
    assertThat(match.cachedTokens(middle.worker())).isEqualTo(96);
    assertThat(match.cachedTokens(large.worker())).isEqualTo(256);
  }

  @Test
  void blockSizeThatTheCanonicalOneDoesNotDivideIsReportedAndNotMatched() {
    WorkerBlocks worker = open(0);
    cache(worker, Fleet.ids(1, 48), 24, 0);

    assertThat(cached(worker, Fleet.ids(1, 49))).isZero();
    assertThat(heard.skipped).containsEntry(SkipReason.BLOCK_SIZE, 2);
  }

  @Test
  void missingBlockInTheMiddleEndsTheMatchThere() {
    WorkerBlocks worker = open(0);
    int[] ids = Fleet.ids(1, 81);
    cache(worker, ids, 16, 0);

    worker.apply(Fleet.batch(Fleet.removed(3)));

    assertThat(cached(worker, ids)).isEqualTo(32);
    worker.apply(Fleet.batch(Fleet.stored(new long[] {3}, 2, Arrays.copyOfRange(ids, 32, 48), 16)));
    assertThat(cached(worker, ids)).isEqualTo(80);
  }

  @Test
  void blocksBehindAnUnknownParentAreOrphans() {
    WorkerBlocks worker = open(0);

    worker.apply(Fleet.batch(Fleet.stored(new long[] {2, 3}, 1, Fleet.ids(17, 32), 16)));

    assertThat(heard.skipped).isEqualTo(Map.of(SkipReason.ORPHAN, 2));
    assertThat(worker.blocks()).isZero();
  }

  @Test
  void multimodalItemsEnterTheKeyWhereTheyStart() {
    WorkerBlocks worker = open(0);
    int[] ids = Fleet.ids(1, 65);
    // vLLM 0.32: the item spans tokens 21..40; in the second block of 32 it shows with a negative
    // offset.
    worker.apply(
        Fleet.batch(
            new KvEvent.BlockStored(
                new long[] {1, 2},
                false,
                0,
                Arrays.copyOf(ids, 64),
                32,
                null,
                null,
                null,
                List.of(
                    new KvEvent.Extras(null, List.of(new KvEvent.MediaRef("img-a", 21)), false),
                    new KvEvent.Extras(null, List.of(new KvEvent.MediaRef("img-a", -11)), false)),
                Tier.GPU,
                KvEvent.NO_GROUP,
                GroupKind.UNSTATED,
                0)));

    assertThat(cached(worker, media("img-a", 21), ids)).isEqualTo(64);
    assertThat(cached(worker, media("img-b", 21), ids)).isZero();
    assertThat(cached(worker, media("img-a", 22), ids)).isZero();
    assertThat(cached(worker, ids)).isZero();
  }

  private static CacheIdentity media(String identifier, int offset) {
    return new CacheIdentity(
        null, null, List.of(new CacheIdentity.MediaItem(identifier, offset, 20)));
  }

  @Test
  void blocksWithMaterialThatARouterCannotKnowAreKeptButNeverMatched() {
    WorkerBlocks worker = open(0);
    worker.apply(
        Fleet.batch(
            new KvEvent.BlockStored(
                new long[] {1},
                false,
                0,
                Fleet.ids(1, 16),
                16,
                null,
                null,
                null,
                List.of(new KvEvent.Extras(null, List.of(), true)),
                Tier.GPU,
                KvEvent.NO_GROUP,
                GroupKind.UNSTATED,
                0),
            Fleet.stored(new long[] {2}, 1, Fleet.ids(17, 16), 16)));

    assertThat(cached(worker, Fleet.ids(1, 33))).isZero();
    assertThat(worker.blocks()).isEqualTo(2);
    assertThat(heard.skipped).isEqualTo(Map.of(SkipReason.OPAQUE, 2));
    worker.apply(Fleet.batch(Fleet.removed(2, 1)));
    assertThat(worker.blocks()).isZero();
    assertThat(heard.skipped).isEqualTo(Map.of(SkipReason.OPAQUE, 2));
  }

  @Test
  void offloadedBlocksExtendTheMatchInAnyTierButNotOnTheGpu() {
    WorkerBlocks worker = open(0);
    int[] ids = Fleet.ids(1, 65);
    cache(worker, ids, 16, 0);
    worker.apply(
        Fleet.batch(offloaded(Tier.CPU, 2, 3), offloaded(Tier.STORAGE, 4), Fleet.removed(2, 3, 4)));

    assertThat(cached(worker, ids)).isEqualTo(16);
    assertThat(match.cachedTokensAnyTier(worker.worker())).isEqualTo(64);

    worker.apply(Fleet.batch(new KvEvent.BlockRemoved(new long[] {3}, Tier.CPU, KvEvent.NO_GROUP)));
    assertThat(cached(worker, ids)).isEqualTo(16);
    assertThat(match.cachedTokensAnyTier(worker.worker())).isEqualTo(32);
    assertThat(heard.skipped).isEmpty();
  }

  private static KvEvent offloaded(Tier tier, long... hashes) {
    return new KvEvent.BlockStored(
        hashes,
        false,
        0,
        new int[0],
        0,
        null,
        null,
        null,
        List.of(),
        tier,
        KvEvent.NO_GROUP,
        GroupKind.UNSTATED,
        0);
  }

  @Test
  void keyToWhichTwoHashesLeadStaysUntilBothAreGone() {
    WorkerBlocks worker = open(0);
    int[] ids = Fleet.ids(1, 17);
    cache(worker, ids, 16, 0); // before vLLM 0.17 a salt changes the hash but is not told
    cache(worker, ids, 16, 100);

    worker.apply(Fleet.batch(Fleet.removed(1)));
    assertThat(cached(worker, ids)).isEqualTo(16);
    worker.apply(Fleet.batch(Fleet.removed(101)));
    assertThat(cached(worker, ids)).isZero();
  }

  @Test
  void IDX_02_endedLifeIsNeverFoundAgainWhateverItsLateEventsSay() {
    int[] ids = Fleet.ids(1, 33);
    WorkerBlocks first = open(5);
    cache(first, ids, 16, 0);
    assertThat(cached(first, ids)).isEqualTo(32);

    first.close();
    assertThat(cached(first, ids)).isZero();
    assertThat(match.view(first.worker())).isEqualTo(KvViewState.DEAD);

    WorkerBlocks second = index.open(Fleet.worker(5, 2), KvViewState.LIVE, heard);
    for (int i = 0; i < 1_000; i++) {
      cache(first, ids, 16, 0); // still queued
    }
    assertThat(cached(first, ids)).isZero();
    assertThat(cached(second, ids)).isZero();
    while (index.sweep(10)) {
      assertThat(cached(second, ids)).isZero();
    }
    cache(second, ids, 16, 0);
    assertThat(cached(second, ids)).isEqualTo(32);
    assertThat(cached(first, ids)).isZero();
    assertThat(index.blocks()).isEqualTo(2);
  }

  @Test
  void clearedViewIsEmptyAtOnceAndItsMemoryComesBackWithTheSweep() {
    WorkerBlocks worker = open(0);
    long bytesBefore = index.sharedBytes();
    int[] ids = Fleet.ids(1, 16 * 20_000);
    cache(worker, ids, 16, 0);
    assertThat(index.sharedBytes()).isGreaterThan(bytesBefore + 150_000);

    worker.clear();

    assertThat(cached(worker, ids)).isZero();
    assertThat(worker.blocks()).isZero();
    while (index.sweep(1_000)) {
      assertThat(cached(worker, Fleet.ids(1, 33))).isZero();
    }
    assertThat(index.blocks()).isZero();
    assertThat(index.keys()).isZero();
    assertThat(index.sharedBytes()).isLessThan(2 * bytesBefore);
    cache(worker, Fleet.ids(1, 32), 16, 0);
    assertThat(cached(worker, Fleet.ids(1, 33))).isEqualTo(32);
  }

  @Test
  void fullIndexLeavesBlocksOutAndSaysSo() {
    PrefixIndex small = new PrefixIndex(new PrefixIndexConfig(16, 3));
    WorkerBlocks worker = small.open(Fleet.worker(0, 1), KvViewState.LIVE, heard);
    int[] ids = Fleet.ids(1, 81);
    cache(worker, ids, 16, 0);

    small.lookup(BlockKeys.of(CacheIdentity.PLAIN, ids, 16), match);

    assertThat(match.cachedTokens(worker.worker())).isEqualTo(48);
    assertThat(heard.skipped).isEqualTo(Map.of(SkipReason.INDEX_FULL, 2));
  }

  @Test
  void silentWorkersMatchNothingAndComeBackWhole() {
    WorkerBlocks worker = open(0);
    int[] ids = Fleet.ids(1, 33);
    cache(worker, ids, 16, 0);

    worker.setState(KvViewState.SILENT);
    assertThat(cached(worker, ids)).isZero();
    worker.setState(KvViewState.LIVE);
    assertThat(cached(worker, ids)).isEqualTo(32);
  }

  @Test
  void lookupOfCandidatesLeavesOthersOut() {
    WorkerBlocks a = open(0);
    WorkerBlocks b = open(70);
    int[] ids = Fleet.ids(1, 33);
    cache(a, ids, 16, 0);
    cache(b, ids, 16, 0);
    Worker unknown = Fleet.worker(70, 9);

    index.lookup(BlockKeys.of(CacheIdentity.PLAIN, ids, 16), List.of(b.worker(), unknown), match);

    assertThat(match.cachedTokens(b.worker())).isEqualTo(32);
    assertThat(match.cachedTokens(a.worker())).isZero();
    assertThat(match.cachedTokens(unknown)).isZero();
  }

  @Test
  void lookupAllocatesNothing() {
    Worker a = Fleet.worker(0, 1);
    WorkerBlocks blocks = index.open(a, KvViewState.LIVE, KvCacheListener.NONE);
    long[] hashes = new long[500];
    Arrays.setAll(hashes, i -> i + 1);
    blocks.apply(Fleet.batch(Fleet.stored(hashes, 0, Fleet.ids(1, 500 * 16), 16)));
    BlockKeys keys = BlockKeys.of(CacheIdentity.PLAIN, Fleet.ids(1, 500 * 16 + 1), 16);
    List<Worker> candidates = List.of(a);
    PrefixMatch match = new PrefixMatch();
    var threads =
        (com.sun.management.ThreadMXBean) java.lang.management.ManagementFactory.getThreadMXBean();
    long self = Thread.currentThread().threadId();
    for (int i = 0; i < 20_000; i++) {
      index.lookup(keys, candidates, match);
    }

    long before = threads.getThreadAllocatedBytes(self);
    for (int i = 0; i < 1_000; i++) {
      index.lookup(keys, candidates, match);
    }
    long allocated = threads.getThreadAllocatedBytes(self) - before;

    assertThat(match.cachedTokens(a)).isEqualTo(500 * 16);
    // An iterator of the candidates, if the compiler did not get rid of it.
    assertThat(allocated / 1_000).isLessThanOrEqualTo(48);
  }

  @Test
  void KVE_07_ranksOfAWorkerCountWithTheirMeanSinceItChoosesTheRankItself() {
    Worker a = Fleet.worker(0, 1);
    List<WorkerBlocks> ranks = new ArrayList<>();
    for (int rank = 0; rank < 4; rank++) {
      ranks.add(index.open(a, rank, KvViewState.LIVE, KvCacheListener.NONE));
    }
    KvEvent chain = Fleet.stored(new long[] {1, 2, 3, 4}, 0, Fleet.ids(1, 64), 16);
    BlockKeys keys = BlockKeys.of(CacheIdentity.PLAIN, Fleet.ids(1, 65), 16);
    PrefixMatch match = new PrefixMatch();

    ranks.get(2).apply(Fleet.batch(chain));
    index.lookup(keys, match);
    assertThat(match.cachedTokens(a)).isEqualTo(16);
    assertThat(match.blockTokens(a)).isEqualTo(16);

    ranks.forEach(rank -> rank.apply(Fleet.batch(chain)));
    index.lookup(keys, match);
    assertThat(match.cachedTokens(a)).isEqualTo(64);

    ranks.get(0).setState(KvViewState.SILENT);
    index.lookup(keys, match);
    assertThat(match.cachedTokens(a)).isEqualTo(48);
    assertThat(match.view(a)).isEqualTo(KvViewState.SILENT);

    ranks.get(1).apply(new KvBatch(0, List.of(new KvEvent.AllBlocksCleared()), 1));
    index.lookup(keys, match);
    assertThat(match.cachedTokens(a)).isEqualTo(32);
  }

  @Test
  void KVE_07_promptOnItsWayIsExpectedAtOneRank() {
    SpeculativePrefixes speculative = new SpeculativePrefixes(1024, () -> 0);
    PrefixIndex ranked = new PrefixIndex(PrefixIndexConfig.DEFAULT, speculative);
    Worker a = Fleet.worker(0, 1);
    for (int rank = 0; rank < 4; rank++) {
      ranked.open(a, rank, KvViewState.LIVE, KvCacheListener.NONE);
    }
    BlockKeys keys = BlockKeys.of(CacheIdentity.PLAIN, Fleet.ids(1, 129), 16);
    PrefixMatch match = new PrefixMatch();
    ranked.lookup(keys, match);
    speculative.routed(a, keys, match, 1000);

    ranked.lookup(keys, match);
    speculative.merge(keys, match);

    assertThat(match.expectedTokens(a)).isEqualTo(128 / 4);
  }

  @Test
  void tokensAreToldByTheTierThatTheyComeFromAndPricedByIt() {
    Worker a = Fleet.worker(0, 1);
    WorkerBlocks blocks = index.open(a, KvViewState.LIVE, KvCacheListener.NONE);
    blocks.apply(
        Fleet.batch(
            Fleet.stored(new long[] {1, 2, 3, 4, 5, 6}, 0, Fleet.ids(1, 96), 16),
            placeholders(Tier.CPU, 3, 4),
            placeholders(Tier.STORAGE, 5),
            Fleet.removed(6, 5, 4, 3)));
    BlockKeys keys = BlockKeys.of(CacheIdentity.PLAIN, Fleet.ids(1, 97), 16);
    PrefixMatch match = new PrefixMatch();

    index.lookup(keys, match);

    assertThat(match.cachedTokens(a)).isEqualTo(32);
    assertThat(match.cachedTokens(a, Tier.GPU)).isEqualTo(32);
    assertThat(match.cachedTokens(a, Tier.CPU)).isEqualTo(32);
    assertThat(match.cachedTokens(a, Tier.STORAGE)).isEqualTo(16);
    assertThat(match.cachedTokensAnyTier(a)).isEqualTo(80);
    assertThat(match.savedTokens(a, new TierShares(0.75, 0.5))).isEqualTo(32 + 24 + 8);
  }

  private static KvEvent placeholders(Tier tier, long... hashes) {
    return new KvEvent.BlockStored(
        hashes,
        false,
        0,
        new int[0],
        0,
        null,
        null,
        null,
        List.of(),
        tier,
        KvEvent.NO_GROUP,
        GroupKind.UNSTATED,
        0);
  }

  @Test
  void storingAndClearingInTurnWithinOneBatchTakesNoNewMembers() {
    Worker many = Fleet.worker(7, 1);
    WorkerBlocks blocks = index.open(many, KvViewState.LIVE, KvCacheListener.NONE);
    List<KvEvent> events = new ArrayList<>();
    for (int i = 0; i < 20_000; i++) {
      events.add(Fleet.stored(new long[] {i + 1}, 0, Fleet.ids(1, 16), 16));
      events.add(new KvEvent.AllBlocksCleared());
    }
    int before = index.newId();

    blocks.apply(new KvBatch(1.0, events, 0));

    assertThat(index.newId()).isEqualTo(before + 1);
    assertThat(blocks.blocks()).isZero();
    assertThat(index.keys()).isZero();
    assertThat(index.blocks()).isZero();
    assertThat(index.sweep(1)).isFalse();
  }

  @Test
  void membersGetShorterWhenTheFleetDoes() {
    Members members = Members.NONE;
    Members.Member member =
        index.open(Fleet.worker(8, 1), KvViewState.LIVE, KvCacheListener.NONE).member();
    for (int id = 0; id < 100; id++) {
      members = members.with(id, member);
    }
    for (int id = 99; id > 3; id--) {
      members = members.with(id, null);
    }

    assertThat(members.size()).isEqualTo(4);
    assertThat(members.get(50)).isNull();
  }

  @Test
  void blocksWithoutAPlaceCountAgainstTheBound() {
    PrefixIndex small = new PrefixIndex(new PrefixIndexConfig(16, 10));
    Fleet.Heard heard = new Fleet.Heard();
    WorkerBlocks blocks = small.open(Fleet.worker(0, 1), KvViewState.LIVE, heard);
    long[] hashes = java.util.stream.LongStream.range(1, 101).toArray();
    blocks.apply(
        Fleet.batch(
            Fleet.stored(new long[] {1_000}, 0, Fleet.ids(1, 16), 16),
            new KvEvent.BlockStored(
                hashes,
                false,
                0,
                Fleet.ids(1, 1600),
                16,
                null,
                null,
                null,
                List.of(),
                Tier.GPU,
                1,
                GroupKind.WINDOW,
                64)));

    assertThat(small.blocks()).isEqualTo(10);
    assertThat(heard.skipped).containsEntry(KvCacheListener.SkipReason.INDEX_FULL, 91);
    blocks.apply(Fleet.batch(new KvEvent.BlockRemoved(hashes, Tier.GPU, 1)));
    assertThat(small.blocks()).isOne();
    blocks.clear();
    assertThat(small.blocks()).isZero();
  }
}
