// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.kvoy.scoring.TestFleet;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.Outcome;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.latency.Features;
import io.kvoy.scoring.latency.Lesson;
import io.kvoy.scoring.load.OwnShare;
import io.kvoy.scoring.load.PrometheusText;
import io.kvoy.scoring.pick.Considered.Standing;
import io.kvoy.scoring.pick.PickRequest.CacheKnowledge;
import io.kvoy.scoring.pick.PickRequest.Tokens;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class PickerTest {
  private static PickRequest request(
      TestFleet fleet, int prompt, CachedTokens cached, @Nullable Worker preferred, int fallbacks) {
    return new PickRequest(
        fleet.workers(),
        prompt,
        Tokens.EXACT,
        cached,
        CacheKnowledge.EVENTS,
        100,
        true,
        PickRequest.DEFAULT_TTL,
        0,
        preferred,
        fallbacks,
        null);
  }

  /** Makes every worker known and recently used, so that nothing is left to explore. */
  private static void settle(TestFleet fleet) {
    for (Worker worker : fleet.workers()) {
      fleet
          .pick(PickRequest.of(List.of(worker), 10, CachedTokens.NONE))
          .flight()
          .ended(Outcome.SUCCESS);
    }
  }

  @Test
  void SCORE_01_spillsWhenTheQueueOnTheWarmWorkerCostsMoreThanComputingElsewhere()
      throws Exception {
    // Values of score-herd.json: 200 requests at 20/s, 8000 of 8192 tokens shared, 200 out.
    String input = new String(TestFleet.resource("/pick/score-herd.json"), StandardCharsets.UTF_8);
    assertThat(input).contains("\"prefill_tokens_per_s\": 8000", "\"rate_per_s\": 20");
    var toy = new ToyFleet(4, 8000);
    toy.warm(0);
    for (int i = 0; i < 200; i++) {
      toy.at(i * 50.0, () -> toy.request(8192, 8000, 200));
    }
    toy.run();

    assertThat(toy.served).hasSize(200);
    double worst = toy.served.stream().mapToDouble(ToyFleet.Served::ttftMillis).max().orElseThrow();
    assertThat(worst)
        .as("never longer than computing the prefix anew would take, and some")
        .isLessThan(1.3 * (10 + 8192 / 8.0));
    List<Double> sorted = toy.served.stream().map(ToyFleet.Served::ttftMillis).sorted().toList();
    assertThat(sorted.get(100)).as("median stays warm").isLessThan(150);
  }

  @Test
  void SCORE_02_64RequestsAtOnceSpreadEvenlyOverEqualWorkers() {
    var fleet = new TestFleet(4);
    int[] share = new int[4];
    for (int i = 0; i < 64; i++) {
      fleet.clock.advanceMillis(20.0 / 64);
      share[fleet.pick(1000).worker().slot()]++;
    }

    assertThat(IntStream.of(share)).allSatisfy(n -> assertThat(n).isBetween(12, 20));
  }

  @Test
  void SCORE_02_manyThreadsAtOnceSpreadAsEvenly() throws Exception {
    var fleet = new TestFleet(4);
    int threads = 8;
    var barrier = new CyclicBarrier(threads);
    var picked = new ArrayList<Future<List<Integer>>>();
    try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
      for (int t = 0; t < threads; t++) {
        picked.add(
            pool.submit(
                () -> {
                  barrier.await();
                  var slots = new ArrayList<Integer>();
                  for (int i = 0; i < 200; i++) {
                    slots.add(fleet.pick(1000).worker().slot());
                  }
                  return slots;
                }));
      }
    }
    int[] share = new int[4];
    for (Future<List<Integer>> slots : picked) {
      slots.get().forEach(slot -> share[slot]++);
    }

    assertThat(IntStream.of(share)).allSatisfy(n -> assertThat(n).isBetween(390, 410));
  }

  @Test
  void SCORE_03_aNewWorkerAmongTrainedOnesGetsTrafficWithin20Requests() {
    var toy = new ToyFleet(3, 8000);
    for (int i = 0; i < 300; i++) {
      toy.at(i * 500.0, () -> toy.request(1200, 1000, 20));
    }
    toy.run();
    toy.served.clear();
    Worker fresh = toy.fleet.add(3);
    for (int i = 0; i < 20; i++) {
      toy.at(151_000 + i * 500.0, () -> toy.request(1200, 1000, 20));
    }
    toy.run();

    assertThat(toy.share(fresh)).isPositive();
  }

  @Test
  void SCORE_05_aWorkerThatFailsFastIsLeftAloneAndComesBackWhenItWorks() {
    var toy = new ToyFleet(2, 8000);
    toy.failing[0] = true;
    for (int i = 0; i < 100; i++) {
      toy.at(i * 100.0, () -> toy.request(800, 0, 10));
    }
    toy.run();
    Worker bad = toy.fleet.worker(0);

    assertThat(toy.share(bad)).as("a few failures and one trial after 5 s").isBetween(3L, 6L);
    assertThat(toy.fleet.predictor.lessons(bad)).as("failures teach no latency").isZero();

    toy.failing[0] = false;
    toy.served.clear();
    for (int i = 0; i < 400; i++) {
      toy.at(10_000 + i * 100.0, () -> toy.request(800, 0, 10));
    }
    toy.run();
    assertThat(toy.share(bad)).isGreaterThan(100);
  }

  @Test
  void SCORE_06_equalWorkersShareUnrelatedPromptsEvenly() {
    var toy = new ToyFleet(4, 8000);
    var random = new Random(6);
    double at = 0;
    for (int i = 0; i < 400; i++) {
      at += -Math.log(random.nextDouble()) * 100;
      int prompt = 100 + random.nextInt(1000);
      toy.at(at, () -> toy.request(prompt, 0, 20));
    }
    toy.run();

    for (Worker worker : toy.fleet.workers()) {
      assertThat(toy.share(worker)).isBetween(80L, 120L);
    }
  }

  @Test
  void SCORE_06_oneAfterTheOtherTheyTakeTurns() {
    var fleet = new TestFleet(4);
    int[] share = new int[4];
    for (int i = 0; i < 400; i++) {
      Pick.Picked picked = fleet.pick(500);
      share[picked.worker().slot()]++;
      picked.flight().ended(Outcome.SUCCESS);
      fleet.clock.advanceMillis(10);
    }

    assertThat(share).containsOnly(100);
  }

  @Test
  void warmWorkerWinsWhileItsQueueCostsLessThanTheCache() {
    var fleet = new TestFleet(2);
    settle(fleet);
    CachedTokens warm = worker -> worker.slot() == 1 ? 4000 : 0;
    Pick.Picked first = fleet.pick(request(fleet, 4100, warm, null, 0));

    assertThat(first.worker().slot()).isEqualTo(1);
    assertThat(first.reason()).isEqualTo(Pick.Reason.LOWEST_PREDICTION);
    assertThat(first.why()).startsWith("prefix 4,000/4,100 cached; ").contains(" ms next");
    assertThat(first.degradations()).containsExactly(Degradation.NO_GAUGES);
  }

  @Test
  void MET_02_aSilentWorkerIsNoBetterThanTheBestThatSpeaks() {
    var fleet = new TestFleet(3);
    fleet.gauges(fleet.worker(2), 0, 0);
    fleet.clock.advance(Duration.ofSeconds(60));
    fleet.gauges(fleet.worker(0), 8, 4);
    fleet.gauges(fleet.worker(1), 12, 6);
    int silent = 0;
    for (int i = 0; i < 60; i++) {
      Pick.Picked picked = fleet.pick(500);
      assertThat(picked.degradations()).contains(Degradation.SOME_GAUGES_UNKNOWN);
      assertThat(picked.considered().at(2).predictedMillis())
          .isGreaterThanOrEqualTo(picked.considered().at(0).predictedMillis() - 1e-9);
      silent += picked.worker().slot() == 2 ? 1 : 0;
      picked.flight().ended(Outcome.SUCCESS);
    }

    assertThat(silent).as("gets its share, not all").isBetween(1, 40);
  }

  @Test
  void MET_04_nonsenseGaugesLeaveThePickValid() throws Exception {
    var fleet = new TestFleet(2);
    byte[] page = TestFleet.resource("/load/met-nan.txt");
    for (Worker worker : fleet.workers()) {
      fleet.book.put(
          worker, PrometheusText.parse(page, page.length, fleet.clock.getAsLong()), OwnShare.NONE);
    }

    Pick.Picked picked = fleet.pick(500);

    assertThat(picked.prediction().totalMillis()).isFinite().isPositive();
    assertThat(picked.degradations()).contains(Degradation.NO_GAUGES);
    assertThat(fleet.book.invalidSamples()).isEqualTo(6);
  }

  @Test
  void foreignWorkSeenInGaugesPushesTrafficAway() {
    var fleet = new TestFleet(2);
    settle(fleet);
    fleet.gauges(fleet.worker(0), 10, 10);
    fleet.gauges(fleet.worker(1), 0, 0);
    int[] share = new int[2];
    for (int i = 0; i < 6; i++) {
      Pick.Picked picked = fleet.pick(500);
      assertThat(picked.degradations()).isEmpty();
      share[picked.worker().slot()]++;
    }

    assertThat(share[1]).isEqualTo(6);
  }

  @Test
  void EXTP_05_whatARetryServesIsBookedWhereItWasServed() {
    var fleet = new TestFleet(3);
    settle(fleet);
    Pick.Picked picked =
        fleet.pick(request(fleet, 2000, worker -> worker.slot() == 0 ? 1500 : 0, null, 2));
    assertThat(picked.worker().slot()).isZero();
    assertThat(picked.fallbacks()).hasSize(2).doesNotContain(picked.worker());
    Worker second = picked.fallbacks().getFirst();

    picked.flight().attemptFailed(picked.worker(), Outcome.CONNECT_FAILED);
    picked.flight().servedBy(second, 0);

    assertThat(fleet.ledger.load(picked.worker()).isIdle()).isTrue();
    assertThat(fleet.ledger.load(second).queuedPrefillTokens()).isEqualTo(2000);
    fleet.clock.advanceMillis(900);
    picked.flight().firstToken();
    assertThat(fleet.predictor.lessons(second)).as("the prediction was for another").isZero();
    assertThat(fleet.ledger.load(second).decoding()).isEqualTo(1);
    picked.flight().ended(Outcome.SUCCESS);
    assertThat(fleet.ledger.load(second).isIdle()).isTrue();
    assertThat(fleet.ledger.live()).isZero();
  }

  @Test
  void STREAM_02_aClientThatLeavesIsReleasedOnceAndNobodysFault() {
    var fleet = new TestFleet(2);
    for (int i = 0; i < 50; i++) {
      Pick.Picked picked = fleet.pick(500);
      picked.flight().ended(Outcome.CLIENT_ABORT);
      picked.flight().ended(Outcome.FAILURE);
      picked.flight().firstToken();
    }

    assertThat(fleet.workers())
        .allMatch(w -> fleet.ledger.load(w).isIdle())
        .allMatch(w -> fleet.registry.fleet().health(w).isReady())
        .allMatch(w -> fleet.predictor.lessons(w) == 0);
  }

  @Test
  void DISC_01_noReadyWorkerIsAnAnswerNotAHang() {
    var fleet = new TestFleet(0);
    assertThat(fleet.picker.pick(PickRequest.of(List.of(), 10, CachedTokens.NONE), Fleet.EMPTY))
        .isEqualTo(new Pick.NoCandidate(Pick.Absence.NO_WORKERS, Considered.NOBODY));

    fleet.add(0);
    WorkerSpec spec =
        WorkerSpec.ready("pool", "w0", fleet.worker(0).endpoint())
            .with(WorkerSpec.Readiness.NOT_READY);
    fleet.registry.put(spec);
    Pick pick =
        fleet.picker.pick(
            PickRequest.of(fleet.workers(), 10, CachedTokens.NONE), fleet.registry.fleet());

    assertThat(pick)
        .isInstanceOfSatisfying(
            Pick.NoCandidate.class,
            none -> {
              assertThat(none.reason()).isEqualTo(Pick.Absence.NONE_READY);
              assertThat(none.considered().at(0).standing()).isEqualTo(Standing.NOT_READY);
            });
  }

  @Test
  void DISC_03_aDrainingWorkerGetsNoNewPicksFromTheNextSnapshotOn() {
    var fleet = new TestFleet(2);
    Worker leaving = fleet.worker(0);
    fleet.registry.put(
        WorkerSpec.ready("pool", "w0", leaving.endpoint()).with(WorkerSpec.Readiness.DRAINING));

    for (int i = 0; i < 40; i++) {
      assertThat(fleet.pick(500).worker().slot()).isEqualTo(1);
    }
  }

  @Test
  void neverAnEmptyAnswerWhileAWorkerIsAlive() {
    var fleet = new TestFleet(2);
    for (int i = 0; i < 3; i++) {
      fleet.registry.ended(fleet.worker(0), Outcome.FAILURE);
    }
    Pick.Picked onlyEjected =
        fleet.pick(PickRequest.of(List.of(fleet.worker(0)), 10, CachedTokens.NONE));
    assertThat(onlyEjected.degradations()).contains(Degradation.ALL_EJECTED);

    fleet.registry.ended(fleet.worker(1), Outcome.BACK_PRESSURE);
    Pick.Picked onlyHeldOff = fleet.pick(10);
    assertThat(onlyHeldOff.worker().slot()).isEqualTo(1);
    assertThat(onlyHeldOff.degradations()).contains(Degradation.ALL_HELD_OFF);
  }

  @Test
  void aWorkerWithoutRoomIsLeftAloneForAMoment() {
    var fleet = new TestFleet(2);
    settle(fleet);
    fleet.registry.ended(fleet.worker(0), Outcome.BACK_PRESSURE);
    for (int i = 0; i < 5; i++) {
      assertThat(fleet.pick(500).worker().slot()).isEqualTo(1);
    }
    fleet.clock.advanceMillis(250);

    assertThat(fleet.pick(500).worker().slot()).isZero();
  }

  @Test
  void theSessionsWorkerWinsTiesAndOnlyTies() {
    var fleet = new TestFleet(3);
    settle(fleet);
    Pick.Picked tie = fleet.pick(request(fleet, 500, CachedTokens.NONE, fleet.worker(2), 0));
    assertThat(tie.worker().slot()).isEqualTo(2);
    assertThat(tie.reason()).isEqualTo(Pick.Reason.SESSION);

    Pick.Picked clear =
        fleet.pick(request(fleet, 5000, w -> w.slot() == 1 ? 4900 : 0, fleet.worker(2), 0));
    assertThat(clear.worker().slot()).isEqualTo(1);
  }

  @Test
  void withoutTokensTheLoadDecides() {
    var fleet = new TestFleet(2);
    settle(fleet);
    fleet.pick(PickRequest.of(List.of(fleet.worker(0)), 5000, CachedTokens.NONE));

    Pick.Picked picked = fleet.pick(PickRequest.unknown(fleet.workers()));

    assertThat(picked.worker().slot()).isEqualTo(1);
    assertThat(picked.degradations())
        .contains(Degradation.NO_TOKENS, Degradation.NO_CACHE_KNOWLEDGE);
    picked.flight().firstToken();
    assertThat(fleet.predictor.lessons(fleet.worker(1))).isZero();
  }

  @Test
  void withNeitherGaugesNorReportsItIsRoundRobin() {
    var fleet = new TestFleet(4);
    for (int round = 0; round < 3; round++) {
      for (int i = 0; i < 64; i++) {
        fleet.pick(100);
      }
      fleet.clock.advance(PickRequest.DEFAULT_TTL);
      fleet.ledger.sweep();
    }
    int before = fleet.pick(100).worker().slot();
    for (int i = 0; i < 12; i++) {
      Pick.Picked picked = fleet.pick(100 + 1000 * (i % 3));
      assertThat(picked.worker().slot()).isEqualTo((before + 1 + i) % 4);
      assertThat(picked.reason()).isEqualTo(Pick.Reason.TURN);
      assertThat(picked.degradations()).contains(Degradation.ROUND_ROBIN);
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {-5, Integer.MAX_VALUE})
  void cachedTokensOutsideThePromptAreCut(int cached) {
    var fleet = new TestFleet(2);

    Pick.Picked picked = fleet.pick(PickRequest.of(fleet.workers(), 100, _ -> cached));

    assertThat(picked.considered().at(0).cachedTokens()).isEqualTo(cached < 0 ? 0 : 100);
  }

  @Test
  void explorationNeverCostsMoreThanItsBound() {
    var fleet = new TestFleet(2);
    // Worker 1 is known to be far slower and has not been used for a while.
    for (int i = 0; i < 50; i++) {
      fleet.predictor.learn(
          new Lesson(fleet.worker(0), new Features(1000, 0, 0, 0, 0), 50, 50, false));
      fleet.predictor.learn(
          new Lesson(fleet.worker(1), new Features(1000, 0, 0, 0, 0), 50, 9000, false));
    }
    for (int i = 0; i < 100; i++) {
      Pick.Picked picked = fleet.pick(1000);
      assertThat(picked.worker().slot()).isZero();
      picked.flight().ended(Outcome.SUCCESS);
    }
  }

  @Test
  void aPrefixIsNotLeftForALeadWithinThePredictionsNoise() {
    var fleet = new TestFleet(2);
    settle(fleet);
    // Worker 1 seems a little quicker, with errors as large as its lead.
    for (int i = 0; i < 60; i++) {
      double noise = i % 2 == 0 ? 1.3 : 0.7;
      fleet.predictor.learn(
          new Lesson(fleet.worker(0), new Features(100, 0, 0, 0, 0), 100, 100 * noise, false));
      fleet.predictor.learn(
          new Lesson(fleet.worker(1), new Features(100, 0, 0, 0, 0), 90, 90 * noise, false));
    }
    for (int i = 0; i < 20; i++) {
      Pick.Picked picked =
          fleet.pick(PickRequest.of(fleet.workers(), 100, worker -> worker.slot() == 0 ? 64 : 0));
      assertThat(picked.worker().slot()).isZero();
      picked.flight().ended(Outcome.SUCCESS);
    }
  }

  @Test
  void anIdleHolderIsNotLeftForASmallDifferenceInLearnedSpeed() {
    var fleet = new TestFleet(2);
    settle(fleet);
    for (int i = 0; i < 60; i++) {
      fleet.predictor.learn(
          new Lesson(fleet.worker(0), new Features(100, 0, 0, 0, 0), 40, 40, false));
      fleet.predictor.learn(
          new Lesson(fleet.worker(1), new Features(100, 0, 0, 0, 0), 25, 25, false));
    }
    for (int i = 0; i < 20; i++) {
      Pick.Picked picked =
          fleet.pick(PickRequest.of(fleet.workers(), 100, worker -> worker.slot() == 0 ? 64 : 0));
      assertThat(picked.worker().slot()).isZero();
      picked.flight().ended(Outcome.SUCCESS);
    }
  }

  @Test
  void aPrefixIsLeftWhenItsHolderHasAQueue() {
    var fleet = new TestFleet(2);
    settle(fleet);
    CachedTokens onTheFirst = worker -> worker.slot() == 0 ? 960 : 0;
    fleet.pick(PickRequest.of(List.of(fleet.worker(0)), 20_000, CachedTokens.NONE));

    assertThat(fleet.pick(PickRequest.of(fleet.workers(), 1000, onTheFirst)).worker().slot())
        .isEqualTo(1);
  }

  @Test
  void inATieTheWorkerThatHoldsMoreOfThePromptWins() {
    var fleet = new TestFleet(3);
    settle(fleet);
    for (int i = 0; i < 9; i++) {
      Pick.Picked picked =
          fleet.pick(PickRequest.of(fleet.workers(), 20, worker -> worker.slot() == 1 ? 16 : 0));
      assertThat(picked.worker().slot()).isEqualTo(1);
      picked.flight().ended(Outcome.SUCCESS);
    }
  }

  @Test
  void predictionOfThePickIsWhatTheLessonIsHeldAgainst() {
    var fleet = new TestFleet(1);
    Pick.Picked picked = fleet.pick(1000);
    double predicted = picked.prediction().totalMillis();
    fleet.clock.advanceMillis(2 * predicted);
    picked.flight().firstToken();

    assertThat(fleet.predictor.errors(picked.worker()).medianShare()).isCloseTo(0.5, within(0.01));
  }

  @Test
  void overTheLimitNothingIsBookedAndTheTimeToComeBackIsTold() {
    var fleet = new TestFleet(2);
    settle(fleet);
    for (int i = 0; i < 20; i++) {
      fleet.pick(5000);
    }
    PickRequest plain = PickRequest.of(fleet.workers(), 5000, CachedTokens.NONE);
    var limited =
        new PickRequest(
            plain.candidates(),
            plain.promptTokens(),
            plain.tokens(),
            plain.cached(),
            plain.cacheKnowledge(),
            0,
            true,
            plain.ttl(),
            3000,
            null,
            0,
            null);
    Pick guessed = fleet.picker.pick(limited, fleet.registry.fleet());
    assertThat(guessed).as("nothing learned yet").isInstanceOf(Pick.Picked.class);
    for (int i = 0; i < 20; i++) {
      double tokens = 1000 + 100.0 * i;
      fleet.predictor.learn(
          new Lesson(
              fleet.worker(i % 2), new Features(tokens, 0, 0, 0, 0), 1, 15 + 0.1 * tokens, false));
    }

    int before = fleet.ledger.live();
    Pick pick = fleet.picker.pick(limited, fleet.registry.fleet());

    assertThat(pick)
        .isInstanceOfSatisfying(
            Pick.Saturated.class,
            late -> {
              assertThat(late.bestMillis()).isGreaterThan(3000);
              // Until the backlog has gone down to the limit, and what predictions are wrong by.
              assertThat(late.retryAfter().toMillis())
                  .isBetween(
                      (long) late.bestMillis() - 3001, (long) (2 * late.bestMillis() - 3000));
            });
    assertThat(fleet.ledger.live()).isEqualTo(before);
    assertThat(fleet.pick(plain).worker()).isNotNull();
  }

  @Test
  void aWorkerWithoutRoomForThePromptCostsTheWaitForRoom() {
    var fleet = new TestFleet(2);
    settle(fleet);
    for (Worker worker : fleet.workers()) {
      String usage = worker.slot() == 0 ? "0.95" : "0.20";
      byte[] page =
          """
          vllm:num_requests_running 4
          vllm:num_requests_waiting 0
          vllm:kv_cache_usage_perc %s
          vllm:cache_config_info{block_size="16",num_gpu_blocks="4000"} 1
          """
              .formatted(usage)
              .getBytes(StandardCharsets.UTF_8);
      fleet.book.put(
          worker, PrometheusText.parse(page, page.length, fleet.clock.getAsLong()), OwnShare.NONE);
    }

    Pick.Picked picked = fleet.pick(request(fleet, 8000, w -> w.slot() == 0 ? 2000 : 0, null, 0));

    assertThat(picked.worker().slot()).isEqualTo(1);
    assertThat(picked.considered().at(0).predictedMillis())
        .isGreaterThan(2 * picked.prediction().totalMillis());
  }

  /** Predicted wait for room of a cached prompt on a worker that is half in use by others. */
  private static double waitForRoom(long keyInUse, long key) {
    var fleet = new TestFleet(1);
    settle(fleet);
    cacheOf(fleet, 100);
    fleet.pick(PickRequest.of(fleet.workers(), 1000, onTheFirst(keyInUse)));
    return fleet
        .pick(PickRequest.of(fleet.workers(), 1000, onTheFirst(key)))
        .prediction()
        .capacityMillis();
  }

  @Test
  void aCachedPromptNeedsRoomTooUnlessARequestInFlightUsesItsPrefix() {
    // 1 600 tokens of room, 160 in use, 1 000 placed: another prompt of 1 000 does not fit although
    // all but 40 tokens of it are cached, because cached blocks in use cannot be evicted.
    assertThat(waitForRoom(7, 8)).isPositive();
    assertThat(waitForRoom(7, 7)).isZero();
  }

  /** A prompt of 1 000 tokens of which worker 0 holds 960, with a key for that prefix. */
  private static CachedTokens onTheFirst(long key) {
    return new CachedTokens() {
      @Override
      public int on(Worker worker) {
        return worker.slot() == 0 ? 960 : 0;
      }

      @Override
      public long prefixKey(int tokens) {
        return key;
      }
    };
  }

  private static void cacheOf(TestFleet fleet, int blocks) {
    byte[] page =
        """
        vllm:num_requests_running 0
        vllm:num_requests_waiting 0
        vllm:kv_cache_usage_perc 0.1
        vllm:cache_config_info{block_size="16",num_gpu_blocks="%d"} 1
        """
            .formatted(blocks)
            .getBytes(StandardCharsets.UTF_8);
    for (Worker worker : fleet.workers()) {
      fleet.book.put(
          worker, PrometheusText.parse(page, page.length, fleet.clock.getAsLong()), OwnShare.NONE);
    }
  }

  /** Workers who hold the prefix of one request after the other, each with another key. */
  private static List<Integer> slots(TestFleet fleet, boolean sameKey) {
    settle(fleet);
    // A queue on the holder whose wait is a little more than computing the prefix elsewhere.
    fleet.pick(PickRequest.of(List.of(fleet.worker(0)), 1300, CachedTokens.NONE));
    var slots = new ArrayList<Integer>();
    for (int i = 1; i <= 3; i++) {
      Pick.Picked picked =
          fleet.pick(PickRequest.of(fleet.workers(), 1000, onTheFirst(sameKey ? 7 : i)));
      slots.add(picked.worker().slot());
      picked.flight().ended(Outcome.CLIENT_ABORT);
    }
    return slots;
  }

  @Test
  void aSharedPrefixGetsACopyForASmallGainWhileCachesHaveRoomForAll() {
    var fleet = new TestFleet(2);
    cacheOf(fleet, 4000);

    assertThat(slots(fleet, true)).as("the first use is not shared yet").containsExactly(0, 1, 1);
  }

  @Test
  void aPrefixOfOneConversationIsNotCopiedForASmallGain() {
    var fleet = new TestFleet(2);
    cacheOf(fleet, 4000);

    assertThat(slots(fleet, false)).containsExactly(0, 0, 0);
  }

  @Test
  void aSharedPrefixIsNotCopiedForASmallGainWhenItWouldPushOthersOut() {
    var fleet = new TestFleet(2);
    cacheOf(fleet, 170);

    assertThat(slots(fleet, true)).containsExactly(0, 0, 0);
  }

  @Test
  void inAnOverloadedPoolWithFullCachesALateRequestIsRefusedRatherThanMoved() {
    var fleet = new TestFleet(2);
    settle(fleet);
    for (int i = 0; i < 40; i++) {
      double tokens = 1000 + 100.0 * i;
      for (Worker worker : fleet.workers()) {
        fleet.predictor.learn(
            new Lesson(
                worker,
                new Features(tokens, 0, 0, 0, 0),
                15 + 0.1 * tokens,
                15 + 0.1 * tokens,
                false));
      }
    }
    CachedTokens most = worker -> worker.slot() == 0 ? 19_968 : 0;
    for (int i = 0; i < 3; i++) {
      fleet.pick(PickRequest.of(List.of(fleet.worker(0)), 5000, CachedTokens.NONE));
    }
    PickRequest plain = PickRequest.of(fleet.workers(), 20_000, most);
    // The holder owes 1.5 s of prefill, the other worker would take 2 s: 1.2 s are too few for
    // both,
    // and 2.5 s are enough for the holder.
    assertThat(limited(fleet, plain, 1200)).isInstanceOf(Pick.Saturated.class);
    assertThat(limited(fleet, plain, 2500))
        .isInstanceOfSatisfying(
            Pick.Picked.class, picked -> assertThat(picked.worker().slot()).isZero());
  }

  private static Pick limited(TestFleet fleet, PickRequest plain, double limitMillis) {
    return fleet.picker.pick(
        new PickRequest(
            plain.candidates(),
            plain.promptTokens(),
            plain.tokens(),
            plain.cached(),
            plain.cacheKnowledge(),
            0,
            true,
            plain.ttl(),
            limitMillis,
            null,
            0,
            null),
        fleet.registry.fleet());
  }

  private static PickRequest withAdapter(TestFleet fleet, String adapter) {
    return new PickRequest(
        fleet.workers(),
        100,
        Tokens.EXACT,
        CachedTokens.NONE,
        CacheKnowledge.EVENTS,
        0,
        true,
        PickRequest.DEFAULT_TTL,
        0,
        null,
        0,
        adapter);
  }

  private static void adapters(TestFleet fleet, Worker worker, String running) {
    byte[] page =
        """
        vllm:num_requests_running 1
        vllm:num_requests_waiting 0
        vllm:lora_requests_info{max_lora="2",running_lora_adapters="%s",waiting_lora_adapters=""} 1.7e9
        """
            .formatted(running)
            .getBytes(StandardCharsets.UTF_8);
    fleet.book.put(
        worker,
        PrometheusText.parse(page, page.length, fleet.clock.getAsLong()),
        new OwnShare(1, 0, 0, 0));
  }

  @Test
  void MET_05_aWorkerThatRunsTheAdapterIsPreferredToOneThatMustLoadIt() {
    var fleet = new TestFleet(2);
    settle(fleet);
    adapters(fleet, fleet.worker(0), "");
    adapters(fleet, fleet.worker(1), "sql");

    Pick.Picked picked = fleet.pick(withAdapter(fleet, "sql"));

    assertThat(picked.worker().slot()).isEqualTo(1);
    assertThat(picked.prediction().adapterMillis()).isZero();
    assertThat(picked.considered().at(0).predictedMillis())
        .isGreaterThan(picked.prediction().totalMillis() + 50);
  }

  @Test
  void MET_05_anAdapterThatThePageDoesNotNameIsStillLoadedWhereWeSentItOfLate() {
    var fleet = new TestFleet(2);
    settle(fleet);
    Pick.Picked first = fleet.pick(withAdapter(fleet, "sql"));
    assertThat(first.prediction().adapterMillis()).isPositive();
    first.flight().ended(Outcome.SUCCESS);
    for (Worker worker : fleet.workers()) {
      adapters(fleet, worker, "");
    }

    for (int i = 0; i < 5; i++) {
      Pick.Picked next = fleet.pick(withAdapter(fleet, "sql"));
      assertThat(next.worker()).isEqualTo(first.worker());
      assertThat(next.prediction().adapterMillis()).isZero();
      next.flight().ended(Outcome.SUCCESS);
    }
    fleet.clock.advanceMillis(120_000);
    assertThat(fleet.pick(withAdapter(fleet, "sql")).prediction().adapterMillis()).isPositive();
  }

  @Test
  void aBatchWithoutAPlaceForAnotherAdapterCostsTheWaitForOne() {
    var fleet = new TestFleet(2);
    settle(fleet);
    adapters(fleet, fleet.worker(0), "a,b");
    adapters(fleet, fleet.worker(1), "a");

    Pick.Picked picked = fleet.pick(withAdapter(fleet, "sql"));

    assertThat(picked.worker().slot()).isEqualTo(1);
    assertThat(picked.considered().at(0).predictedMillis())
        .isGreaterThan(picked.prediction().totalMillis() + 400);
  }

  private static PickRequest knowing(TestFleet fleet, Tokens tokens, CacheKnowledge caches) {
    return new PickRequest(
        fleet.workers(),
        100,
        tokens,
        CachedTokens.NONE,
        caches,
        0,
        true,
        Duration.ofSeconds(1),
        0,
        null,
        0,
        null);
  }

  /** Requests of which nobody reports an end. */
  private static void losesReports(TestFleet fleet) {
    for (int i = 0; i < 200; i++) {
      fleet.pick(knowing(fleet, Tokens.EXACT, CacheKnowledge.EVENTS));
    }
    fleet.clock.advance(Duration.ofSeconds(2));
    fleet.ledger.sweep();
    assertThat(fleet.ledger.isBlind()).isTrue();
  }

  /** Brings about what the word stands for; the switch makes a new one be thought of. */
  private static Pick.Picked without(Degradation degradation) {
    var fleet = new TestFleet(2);
    PickRequest all = knowing(fleet, Tokens.EXACT, CacheKnowledge.EVENTS);
    return switch (degradation) {
      case NO_TOKENS -> fleet.pick(knowing(fleet, Tokens.UNKNOWN, CacheKnowledge.EVENTS));
      case ESTIMATED_TOKENS -> fleet.pick(knowing(fleet, Tokens.ESTIMATED, CacheKnowledge.EVENTS));
      case NO_CACHE_EVENTS -> fleet.pick(knowing(fleet, Tokens.EXACT, CacheKnowledge.OWN_ROUTING));
      case NO_CACHE_KNOWLEDGE -> fleet.pick(knowing(fleet, Tokens.EXACT, CacheKnowledge.NONE));
      case SOME_GAUGES_UNKNOWN -> {
        fleet.gauges(fleet.worker(0), 0, 0);
        yield fleet.pick(all);
      }
      case NO_GAUGES -> fleet.pick(all);
      case LEDGER_BLIND -> {
        losesReports(fleet);
        fleet.gauges(fleet.worker(0), 0, 0);
        fleet.gauges(fleet.worker(1), 0, 0);
        yield fleet.pick(all);
      }
      case ROUND_ROBIN -> {
        losesReports(fleet);
        yield fleet.pick(all);
      }
      case ALL_EJECTED -> {
        fleet.workers().forEach(worker -> fail(fleet, worker, Outcome.FAILURE));
        var only = List.of(fleet.worker(0));
        yield fleet.pick(PickRequest.of(only, 100, CachedTokens.NONE));
      }
      case ALL_HELD_OFF -> {
        fleet.workers().forEach(worker -> fail(fleet, worker, Outcome.BACK_PRESSURE));
        yield fleet.pick(all);
      }
    };
  }

  private static void fail(TestFleet fleet, Worker worker, Outcome outcome) {
    for (int i = 0; i < 20; i++) {
      fleet.registry.ended(worker, outcome);
    }
  }

  @ParameterizedTest
  @EnumSource
  void whatAPickHadToDoWithoutIsSaidAndAWorkerIsFoundAllTheSame(Degradation degradation) {
    assertThat(without(degradation).degradations()).contains(degradation);
  }
}
