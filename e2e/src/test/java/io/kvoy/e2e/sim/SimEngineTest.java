// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** The scheduler's rules, each alone, on a machine without time. */
class SimEngineTest {
  private static final int BLOCK = 4;

  /** Prefill 1 ms per token, decode 10 ms alone and 1 ms per further sequence, 2 ms per step. */
  private static final EngineOptions OPTIONS =
      EngineOptions.DEFAULTS.withCache(10, BLOCK, 40).withBatch(3, 16).withSpeed(1000, 100, 0.1, 2);

  /** An engine, its clock and all that came out of it. */
  private static final class Bench {
    private final EngineMetrics metrics;
    private final SimEngine engine;
    private final List<List<KvEvent>> batches = new ArrayList<>();
    private final Map<String, List<EngineOutput.Token>> outputs = new HashMap<>();
    private long nowNanos;

    Bench(EngineOptions options) {
      this(options, 1);
    }

    Bench(EngineOptions options, long seed) {
      metrics = new EngineMetrics("m", 0, options, 0, () -> 0.0);
      // A text ends only by its limit; the token says which position it has.
      TokenSource counting =
          new TokenSource() {
            @Override
            public int next(long promptSeed, int index, boolean mayEnd) {
              return 900 + index;
            }

            @Override
            public boolean isEnd(int tokenId) {
              return false;
            }
          };
      engine = new SimEngine(options, counting, metrics, seed);
    }

    void add(String id, int[] prompt, int maxTokens) {
      engine.add(
          new EngineRequest(
              id, prompt, null, null, null, false, maxTokens, 0, true, 0, this::heard),
          nowNanos);
    }

    private void heard(EngineOutput output) {
      if (output instanceof EngineOutput.Token token) {
        outputs.computeIfAbsent(token.requestId(), _ -> new ArrayList<>()).add(token);
      }
    }

    SimEngine.Step step() {
      SimEngine.Step step = engine.schedule(nowNanos);
      nowNanos += step.durationNanos();
      engine.complete(step, nowNanos, batches::add);
      return step;
    }

    void runAll() {
      while (engine.hasWork()) {
        step();
      }
    }

    int cached(String id) {
      return tokens(id).getFirst().cachedTokens();
    }

    int count(String id) {
      return tokens(id).size();
    }

    List<EngineOutput.Token> tokens(String id) {
      return outputs.getOrDefault(id, List.of());
    }
  }

  private static int[] prompt(int from, int length) {
    return IntStream.range(from, from + length).toArray();
  }

  @ParameterizedTest
  @CsvSource({"3,0", "4,0", "5,4", "7,4", "8,4", "9,8", "12,8"})
  void aHitCoversWholeBlocksAndNeverTheLastToken(int length, int expectedCached) {
    Bench bench = new Bench(OPTIONS);
    bench.add("first", prompt(0, length), 1);
    bench.runAll();
    bench.add("second", prompt(0, length), 1);
    bench.runAll();
    assertThat(bench.cached("second")).isEqualTo(expectedCached);
  }

  @Test
  void generatedTokensFillBlocksThatTheNextTurnFinds() {
    Bench bench = new Bench(OPTIONS);
    bench.add("turn1", prompt(0, 6), 7);
    bench.runAll();
    int[] nextTurn =
        IntStream.concat(
                IntStream.concat(IntStream.range(0, 6), IntStream.range(900, 907)),
                IntStream.of(50, 51))
            .toArray();
    bench.add("turn2", nextTurn, 1);
    bench.runAll();
    // 6 + 7 tokens; the last one was never computed: three whole blocks.
    assertThat(bench.cached("turn2")).isEqualTo(12);
  }

  @Test
  void twoRequestsOfOneStepShareWhatTheFirstOneStores() {
    Bench bench = new Bench(OPTIONS);
    bench.add("a", prompt(0, 9), 1);
    bench.add("b", prompt(0, 9), 1);
    SimEngine.Step step = bench.step();
    assertThat(step.prefillTokens()).isEqualTo(9 + 1);
    assertThat(bench.cached("b")).isEqualTo(8);
  }

  @Test
  void longPromptsAreComputedInChunksWithinTheTokenBudget() {
    Bench bench = new Bench(OPTIONS);
    bench.add("long", prompt(0, 35), 1);
    assertThat(bench.step().prefillTokens()).isEqualTo(16);
    assertThat(bench.step().prefillTokens()).isEqualTo(16);
    assertThat(bench.count("long")).isZero();
    assertThat(bench.step().prefillTokens()).isEqualTo(3);
    assertThat(bench.count("long")).isEqualTo(1);
  }

  @Test
  void runningSequencesComeBeforeNewPrompts() {
    Bench bench = new Bench(OPTIONS);
    bench.add("old", prompt(0, 4), 5);
    bench.step();
    bench.add("new", prompt(100, 20), 1);
    SimEngine.Step step = bench.step();
    assertThat(step.decodeSequences()).isEqualTo(1);
    assertThat(step.prefillTokens()).as("what the budget leaves").isEqualTo(15);
  }

  @Test
  void batchPlacesLimitTheRunningSequences() {
    Bench bench = new Bench(OPTIONS);
    for (int i = 0; i < 5; i++) {
      bench.add("r" + i, prompt(i * 100, 2), 3);
    }
    bench.step();
    assertThat(bench.engine.runningCount()).isEqualTo(3);
    assertThat(bench.engine.waitingCount()).isEqualTo(2);
    assertThat(bench.metrics.running()).isEqualTo(3);
    assertThat(bench.metrics.waiting()).isEqualTo(2);
    bench.runAll();
    assertThat(bench.count("r4")).isEqualTo(3);
  }

  @Test
  void aPromptThatDoesNotFitWaitsEvenIfItsFirstChunkWould() {
    Bench bench = new Bench(OPTIONS);
    bench.add("holder", prompt(0, 16), 4);
    bench.step();
    // 10 blocks, 4 in use (16 tokens, next one not yet written): 28 tokens need 7.
    bench.add("wide", prompt(100, 28), 1);
    bench.step();
    assertThat(bench.engine.waitingCount()).isEqualTo(1);
    bench.runAll();
    assertThat(bench.count("wide")).isEqualTo(1);
  }

  @Test
  void theYoungestIsDrivenOutWhenBlocksRunOutAndStartsAgainFromItsCachedBlocks() {
    Bench bench = new Bench(OPTIONS);
    bench.add("old", prompt(0, 16), 12);
    bench.add("young", prompt(100, 15), 12);
    bench.runAll();
    assertThat(bench.count("old")).isEqualTo(12);
    assertThat(bench.count("young")).isEqualTo(12);
    assertThat(bench.metrics.page())
        .contains("vllm:num_preemptions_total{engine=\"0\",model_name=\"m\"} 1.0")
        // Looked up once per request: the second start of the young one is not counted.
        .contains("vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m\"} 31.0");
    assertThat(bench.tokens("young"))
        .extracting(EngineOutput.Token::tokenId)
        .doesNotHaveDuplicates();
  }

  @Test
  void evictionTakesTheTailOfTheLeastRecentlyUsedPromptFirst() {
    Bench bench = new Bench(OPTIONS);
    bench.add("a", prompt(0, 16), 1);
    bench.runAll();
    bench.add("b", prompt(100, 16), 1);
    bench.runAll();
    List<Digest> ofA = ((KvEvent.Stored) bench.batches.get(0).getFirst()).hashes();
    bench.batches.clear();
    bench.add("c", prompt(200, 16), 1);
    bench.runAll();
    List<KvEvent> events = bench.batches.getFirst();
    // Ten blocks: four each for a and b, two never used; c takes those and the last two of a.
    assertThat(events.subList(0, 2))
        .containsExactly(new KvEvent.Removed(ofA.get(3)), new KvEvent.Removed(ofA.get(2)));
    assertThat(events).hasSize(3);
    assertThat(events.getLast()).isInstanceOf(KvEvent.Stored.class);
  }

  @Test
  void usingAPromptAgainMovesItToTheSafeEnd() {
    Bench bench = new Bench(OPTIONS);
    bench.add("a", prompt(0, 16), 1);
    bench.runAll();
    bench.add("b", prompt(100, 16), 1);
    bench.runAll();
    bench.add("a again", prompt(0, 16), 1);
    bench.runAll();
    bench.add("c", prompt(200, 16), 1);
    bench.runAll();
    bench.add("a third", prompt(0, 16), 1);
    bench.runAll();
    assertThat(bench.cached("a third")).isEqualTo(12);
  }

  @Test
  void abortFreesBlocksAtOnceAndKeepsThemCached() {
    Bench bench = new Bench(OPTIONS);
    bench.add("gone", prompt(0, 9), 20);
    bench.step();
    assertThat(bench.engine.abort("gone")).isTrue();
    assertThat(bench.engine.pool().usage()).isZero();
    assertThat(bench.metrics.running()).isZero();
    assertThat(bench.engine.hasWork()).isFalse();
    assertThat(bench.engine.abort("gone")).isFalse();
    bench.add("next", prompt(0, 9), 1);
    bench.runAll();
    assertThat(bench.cached("next")).isEqualTo(8);
    assertThat(bench.metrics.page())
        .contains("finished_reason=\"abort\",model_name=\"m\"} 0.0")
        .contains("finished_reason=\"length\",model_name=\"m\"} 1.0");
  }

  @Test
  void abortInTheMiddleOfAStepLeavesTheOthersAlone() {
    Bench bench = new Bench(OPTIONS);
    bench.add("a", prompt(0, 5), 2);
    bench.add("b", prompt(100, 5), 2);
    SimEngine.Step step = bench.engine.schedule(0);
    bench.engine.abort("a");
    bench.engine.complete(step, 1, bench.batches::add);
    assertThat(bench.count("a")).isZero();
    assertThat(bench.count("b")).isEqualTo(1);
  }

  @Test
  void theCacheIsEmptiedOnlyWhenNothingRunsAndToldWithTheNextStep() {
    Bench bench = new Bench(OPTIONS);
    bench.add("a", prompt(0, 9), 2);
    bench.step();
    assertThat(bench.engine.resetPrefixCache()).isFalse();
    bench.runAll();
    bench.batches.clear();
    assertThat(bench.engine.resetPrefixCache()).isTrue();
    assertThat(bench.batches).isEmpty();
    bench.add("b", prompt(0, 9), 1);
    bench.runAll();
    assertThat(bench.batches.getFirst().getFirst()).isEqualTo(new KvEvent.AllCleared());
    assertThat(bench.cached("b")).isZero();
  }

  @Test
  void stepTimesFollowTheMachineModel() {
    Bench bench = new Bench(OPTIONS);
    bench.add("a", prompt(0, 8), 3);
    assertThat(bench.step().durationNanos()).isEqualTo(10_000_000);
    assertThat(bench.step().durationNanos()).isEqualTo(10_000_000);
    bench.add("b", prompt(100, 5), 3);
    assertThat(bench.step().durationNanos()).as("decode and prefill").isEqualTo(15_000_000);
    bench.add("c", prompt(200, 2), 4);
    bench.step();
    assertThat(bench.step().durationNanos()).as("two decode").isEqualTo(11_000_000);
    assertThat(bench.metrics.page())
        .contains("vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\"} 3.0");
  }

  @Test
  void theSameSeedGivesTheSameTimes() {
    assertThat(jittered(5)).isEqualTo(jittered(5)).isNotEqualTo(jittered(6));
  }

  private static List<Long> jittered(long seed) {
    Bench bench = new Bench(OPTIONS.withJitter(0.2), seed);
    bench.add("a", prompt(0, 8), 6);
    List<Long> durations = new ArrayList<>();
    while (bench.engine.hasWork()) {
      durations.add(bench.step().durationNanos());
    }
    assertThat(durations).allSatisfy(d -> assertThat(d).isBetween(8_000_000L, 12_000_000L));
    return durations;
  }

  @Test
  void aPromptWithoutRoomForAnAnswerIsRefused() {
    Bench bench = new Bench(OPTIONS);
    assertThatThrownBy(() -> bench.add("full", prompt(0, 40), 1))
        .isInstanceOf(IllegalArgumentException.class);
  }

  @Test
  void theModelsLengthEndsAnAnswer() {
    Bench bench = new Bench(OPTIONS);
    bench.add("a", prompt(0, 38), 100);
    bench.runAll();
    assertThat(bench.count("a")).isEqualTo(2);
    assertThat(bench.tokens("a").getLast().finish()).isEqualTo(EngineOutput.Finish.LENGTH);
  }

  /**
   * Random requests, aborts and resets; a listener that counts references must agree with the cache
   * at every step.
   */
  @ParameterizedTest
  @ValueSource(longs = {1, 2, 3, 4, 5, 6, 7, 8})
  void eventsTellExactlyWhatIsCached(long seed) {
    Bench bench = new Bench(OPTIONS, seed);
    Map<Digest, Integer> seen = new HashMap<>();
    Set<String> ids = new HashSet<>();
    long noise = seed;
    int applied = 0;
    for (int i = 0; i < 400; i++) {
      noise = SeededNoise.mix(noise + 1);
      int choice = (int) Math.floorMod(noise, 10L);
      if (choice < 4) {
        String id = "r" + i;
        ids.add(id);
        bench.add(
            id,
            prompt(
                100 * (int) Math.floorMod(noise >> 8, 4L),
                1 + (int) Math.floorMod(noise >> 16, 30L)),
            1 + (int) Math.floorMod(noise >> 24, 9L));
      } else if (choice == 4 && !ids.isEmpty()) {
        String victim = ids.iterator().next();
        ids.remove(victim);
        bench.engine.abort(victim);
      } else if (choice == 5) {
        bench.engine.resetPrefixCache();
      }
      if (bench.engine.hasWork()) {
        bench.step();
      }
      for (; applied < bench.batches.size(); applied++) {
        apply(bench.batches.get(applied), seen);
      }
    }
    // One more request with its own step brings out what waits for the next step.
    bench.runAll();
    bench.add("last", prompt(5000, 4), 1);
    bench.runAll();
    for (; applied < bench.batches.size(); applied++) {
      apply(bench.batches.get(applied), seen);
    }
    assertThat(seen.values().stream().mapToInt(Integer::intValue).sum())
        .isEqualTo(bench.engine.pool().cached());
    assertThat(seen.keySet())
        .allSatisfy(d -> assertThat(bench.engine.pool().lookup(d)).isNotNull());
    assertThat(bench.engine.pool().usage()).isZero();
  }

  private static void apply(List<KvEvent> batch, Map<Digest, Integer> seen) {
    for (KvEvent event : batch) {
      switch (event) {
        case KvEvent.Stored stored ->
            stored.hashes().forEach(hash -> seen.merge(hash, 1, Integer::sum));
        case KvEvent.Removed(Digest hash) -> {
          assertThat(seen).containsKey(hash);
          seen.compute(hash, (_, n) -> n == null || n == 1 ? null : n - 1);
        }
        case KvEvent.AllCleared() -> seen.clear();
      }
    }
  }
}
