// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.kvoy.scoring.TestFleet;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.latency.Prediction.Source;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class TtftPredictorTest {
  private final TestFleet fleet = new TestFleet(4);
  private final TtftPredictor predictor = fleet.predictor;
  private final Random random = new Random(20261130);

  /** A worker as it really is: what the predictor has to find out. */
  private record Truth(
      double fixed, double perToken, double queueExtra, double perAttention, double perDecode) {
    double millis(Features f) {
      return fixed
          + perToken * (f.uncachedTokens() + f.aheadTokens())
          + queueExtra * f.aheadTokens()
          + perAttention * f.attention()
          + perDecode * f.decodeSteps();
    }
  }

  private static final Truth FAST = new Truth(12, 0.03, 0, 0.0006, 0.1);
  private static final Truth SLOW = new Truth(30, 0.4, -0.05, 0.008, 1.2);

  private Features features() {
    int prompt = 50 + random.nextInt(6000);
    int cached = random.nextInt(3) == 0 ? 0 : random.nextInt(prompt);
    double ahead = random.nextInt(2) == 0 ? 0 : random.nextInt(8000);
    return new Features(prompt - (double) cached, cached, ahead, random.nextInt(24), 0);
  }

  private void teach(Worker worker, Truth truth, int lessons, double noise) {
    for (int i = 0; i < lessons; i++) {
      Features f = features();
      double actual = truth.millis(f) * (1 + noise * random.nextGaussian());
      predictor.learn(
          new Lesson(worker, f, predictor.predict(worker, f).totalMillis(), actual, false));
    }
  }

  /** Median absolute error against the noiseless truth. */
  private double error(Worker worker, Truth truth) {
    double[] errors = new double[500];
    for (int i = 0; i < errors.length; i++) {
      Features f = features();
      errors[i] = Math.abs(predictor.predict(worker, f).totalMillis() / truth.millis(f) - 1);
    }
    Arrays.sort(errors);
    return errors[errors.length / 2];
  }

  @Test
  void SCORE_03_withoutSamplesThePriorIsDefinedForEveryInput() {
    for (int i = 0; i < 1000; i++) {
      Prediction prediction = predictor.predict(fleet.worker(0), features());
      assertThat(prediction.totalMillis()).isFinite().isPositive();
      assertThat(prediction.source()).isEqualTo(Source.PRIOR);
    }
  }

  @Test
  void termsAddUpToTheTotal() {
    teach(fleet.worker(0), SLOW, 50, 0.05);
    for (int i = 0; i < 100; i++) {
      Features f = features();
      Prediction p = predictor.predict(fleet.worker(0), f);
      assertThat(
              p.queueMillis()
                  + p.prefillMillis()
                  + p.decodeMillis()
                  + p.capacityMillis()
                  + p.fixedMillis())
          .isCloseTo(p.totalMillis(), within(1e-9));
      assertThat(
              predictor
                  .coefficients(fleet.worker(0))
                  .totalMillis(
                      f.uncachedTokens(), f.cachedTokens(), f.aheadTokens(), f.decoding(), 0))
          .isCloseTo(p.totalMillis(), within(1e-9));
    }
  }

  @Test
  void differentWorkersOfOnePoolAreToldApartWithinTensOfRequests() {
    for (int i = 0; i < 40; i++) {
      teach(fleet.worker(0), FAST, 1, 0.08);
      teach(fleet.worker(1), SLOW, 1, 0.08);
    }

    assertThat(error(fleet.worker(0), FAST)).isLessThan(0.12);
    assertThat(error(fleet.worker(1), SLOW)).isLessThan(0.12);
    assertThat(predictor.coefficients(fleet.worker(0)).source()).isEqualTo(Source.WORKER);
  }

  @Test
  void after200LessonsTheMedianErrorIsBelow10PercentAndP90Below30() {
    teach(fleet.worker(0), SLOW, 100, 0.08);
    teach(fleet.worker(0), SLOW, 200, 0.08);

    ErrorStats stats = predictor.errors(fleet.worker(0));
    assertThat(stats.medianShare()).isLessThan(0.10);
    assertThat(stats.p90Share()).isLessThan(0.30);
    assertThat(stats.biasShare()).isBetween(-0.05, 0.05);
    assertThat(stats.isDrifting()).isFalse();
    assertThat(stats.lessons()).isEqualTo(300);
  }

  @Test
  void aNewWorkerStartsFromItsPool() {
    teach(fleet.worker(0), SLOW, 60, 0.05);
    Worker fresh = fleet.add(4);

    assertThat(predictor.coefficients(fresh).source()).isEqualTo(Source.POOL);
    assertThat(error(fresh, SLOW)).isLessThan(0.2);
  }

  @Test
  void aNewLifeInheritsOnlyThePoolsExperience() {
    teach(fleet.worker(0), FAST, 60, 0.05);
    teach(fleet.worker(1), SLOW, 600, 0.05);
    Worker old = fleet.worker(0);
    fleet.registry.restarted(old);
    Worker reborn = fleet.worker(0);

    assertThat(predictor.coefficients(reborn)).isEqualTo(predictor.poolCoefficients("pool"));
    teach(reborn, SLOW, 5, 0.05);
    assertThat(predictor.learn(new Lesson(old, new Features(100, 0, 0, 0, 0), 10, 10, false)))
        .as("late lesson of the old life")
        .isFalse();
    assertThat(predictor.lessons(reborn)).isEqualTo(5);
  }

  @Test
  void aThrottledWorkerIsRelearnedWithinTensOfRequests() {
    var throttled = new Truth(12, 0.09, 0, 0.0018, 0.3);
    teach(fleet.worker(0), FAST, 1000, 0.08);

    teach(fleet.worker(0), throttled, 40, 0.08);

    assertThat(error(fleet.worker(0), throttled)).isLessThan(0.15);
  }

  @Test
  void outliersMoveLittle() {
    for (int i = 0; i < 400; i++) {
      Features f = features();
      double actual = i % 20 == 0 ? FAST.millis(f) * 30 : FAST.millis(f);
      predictor.learn(new Lesson(fleet.worker(0), f, 1, actual, false));
    }

    assertThat(error(fleet.worker(0), FAST)).isLessThan(0.2);
  }

  @ParameterizedTest
  @ValueSource(
      doubles = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, -1, 0, 1e12})
  void SCORE_03_impossibleTimesTeachNothing(double actual) {
    teach(fleet.worker(0), FAST, 20, 0.05);
    Coefficients before = predictor.coefficients(fleet.worker(0));

    assertThat(predictor.learn(new Lesson(fleet.worker(0), features(), 10, actual, false)))
        .isFalse();
    assertThat(predictor.coefficients(fleet.worker(0))).isEqualTo(before);
  }

  @ParameterizedTest
  @CsvSource({"0.0001, 1", "3000000, 1", "1, 1000000"})
  void coefficientsStayPhysicalWhateverIsTaught(double millis, int tokens) {
    for (int i = 0; i < 500; i++) {
      predictor.learn(
          new Lesson(
              fleet.worker(0),
              new Features(tokens, i, random.nextInt(9), i % 7, 0),
              1,
              millis,
              false));
      Coefficients c = predictor.coefficients(fleet.worker(0));
      assertThat(c.perTokenMillis()).isFinite().isPositive();
      assertThat(c.perTokenMillis() + c.queueExtraMillis()).isFinite().isPositive();
      assertThat(c.perAttentionMillis()).isFinite().isNotNegative();
      assertThat(c.perDecodeStepMillis()).isFinite().isNotNegative();
      assertThat(c.fixedMillis()).isFinite().isPositive();
      assertThat(predictor.predict(fleet.worker(0), features()).totalMillis())
          .isFinite()
          .isPositive();
    }
  }

  @Test
  void randomTimesRaiseTheDriftFlag() {
    for (int i = 0; i < 200; i++) {
      Features f = features();
      predictor.learn(
          new Lesson(
              fleet.worker(0),
              f,
              predictor.predict(fleet.worker(0), f).totalMillis(),
              Math.exp(10 * random.nextDouble()),
              false));
    }

    assertThat(predictor.errors(fleet.worker(0)).isDrifting()).isTrue();
  }

  @Test
  void waitsForRoomTeachHowLongSuchWaitsAreAndNothingAboutSpeed() {
    teach(fleet.worker(0), FAST, 100, 0.05);
    Coefficients before = predictor.coefficients(fleet.worker(0));
    for (int i = 0; i < 100; i++) {
      var f = new Features(500, 0, 0, 4, 1000);
      double actual = FAST.millis(f) + 2.5 * 1000;
      predictor.learn(
          new Lesson(
              fleet.worker(0),
              f,
              predictor.predict(fleet.worker(0), f).totalMillis(),
              actual,
              true));
    }

    Coefficients after = predictor.coefficients(fleet.worker(0));
    assertThat(after.perTokenMillis()).isEqualTo(before.perTokenMillis());
    assertThat(after.fixedMillis()).isEqualTo(before.fixedMillis());
    assertThat(after.capacityShare()).isCloseTo(2.5, within(0.1));
  }

  @Test
  void promptsThatAreAllAlikeDoNotMisleadAboutLongOnes() {
    for (int i = 0; i < 300; i++) {
      var f = new Features(1400 + random.nextInt(200), 0, 0, random.nextInt(6), 0);
      double actual = FAST.millis(f) * (1 + 0.05 * random.nextGaussian());
      predictor.learn(
          new Lesson(
              fleet.worker(0),
              f,
              predictor.predict(fleet.worker(0), f).totalMillis(),
              actual,
              false));
    }

    var longPrompt = new Features(10_000, 0, 0, 3, 0);
    assertThat(predictor.predict(fleet.worker(0), longPrompt).totalMillis())
        .isCloseTo(FAST.millis(longPrompt), within(0.25 * FAST.millis(longPrompt)));
  }

  @Test
  void aBeliefWithoutFreshLessonsGoesBackToThePools() {
    teach(fleet.worker(0), FAST, 300, 0.02);
    teach(fleet.worker(1), SLOW, 30, 0.02);
    teach(fleet.worker(0), FAST, 300, 0.02);
    double own = predictor.coefficients(fleet.worker(1)).perTokenMillis();
    double pool = predictor.poolCoefficients("pool").perTokenMillis();
    assertThat(own).isGreaterThan(2 * pool);

    fleet.clock.advanceMillis(29_000);
    assertThat(predictor.coefficients(fleet.worker(1)).perTokenMillis()).isEqualTo(own);
    fleet.clock.advanceMillis(61_000);
    assertThat(predictor.coefficients(fleet.worker(1)).perTokenMillis())
        .isCloseTo((own + pool) / 2, within(0.02 * own));
    fleet.clock.advanceMillis(600_000);
    assertThat(predictor.coefficients(fleet.worker(1)).perTokenMillis())
        .isCloseTo(pool, within(0.05 * pool));
  }

  @Test
  void theSlowFirstRequestsOfAnEngineAreNotItsSpeed() {
    Worker worker = fleet.worker(2);
    Features f = new Features(100, 0, 0, 0, 0);
    double before = predictor.predict(worker, f).totalMillis();
    for (int i = 0; i < 2; i++) {
      predictor.learn(new Lesson(worker, f, before, 1200, false));
    }
    assertThat(predictor.predict(worker, f).totalMillis()).isEqualTo(before);

    // It goes on: so it is its speed.
    for (int i = 0; i < 30; i++) {
      predictor.learn(
          new Lesson(worker, f, predictor.predict(worker, f).totalMillis(), 1200, false));
    }
    assertThat(predictor.predict(worker, f).totalMillis()).isGreaterThan(10 * before);
  }
}
