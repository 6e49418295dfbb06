// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.bench.lab.Workloads.SharedPrefix;
import io.kvoy.scoring.pick.PickSettings;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToDoubleFunction;
import org.junit.jupiter.api.Test;

/** What the lab must keep showing, on shorter runs than {@link Lab}'s. */
class LabTest {
  private static final double MINUTE = 60_000;
  private static final int SEEDS = 3;

  private static Scenario shortened(Scenario scenario) {
    return new Scenario(
        scenario.name(),
        scenario.profiles(),
        scenario.workload(),
        scenario.sloMillis(),
        2 * MINUTE,
        3 * MINUTE,
        scenario.plot());
  }

  private static double median(
      Scenario scenario, String policy, ToDoubleFunction<LabRun.Result> of) {
    return Lab.median(results(scenario, policy), of);
  }

  private static List<LabRun.Result> results(Scenario scenario, String policy) {
    LabRun.PolicyMaker maker = requireNonNull(Lab.policies().get(policy), policy);
    var results = new ArrayList<LabRun.Result>();
    for (int seed = 1; seed <= SEEDS; seed++) {
      results.add(new LabRun(shortened(scenario), maker, seed).run());
    }
    return results;
  }

  @Test
  void theSameSeedGivesTheSameNumbers() {
    Scenario scenario = shortened(Scenarios.heterogeneous());
    LabRun.PolicyMaker kvoy = run -> Lab.kvoy(run, PickSettings.DEFAULTS, 0);

    assertThat(new LabRun(scenario, kvoy, 7).run()).isEqualTo(new LabRun(scenario, kvoy, 7).run());
  }

  @Test
  void sharedPrefixesTakeAtMostAThirdOfRoundRobinsTime() {
    Scenario scenario = Scenarios.sharedPrefix();
    double kvoy = median(scenario, "kvoy", LabRun.Result::medianMillis);

    assertThat(kvoy).isLessThan(median(scenario, "round-robin", LabRun.Result::medianMillis) / 3);
    assertThat(median(scenario, "kvoy", LabRun.Result::goodPerMinute))
        .isGreaterThan(2 * median(scenario, "round-robin", LabRun.Result::goodPerMinute));
  }

  @Test
  void uniquePromptsAreNoWorseThanWithoutThinking() {
    Scenario scenario = Scenarios.unique();
    double kvoy = median(scenario, "kvoy", LabRun.Result::medianMillis);

    assertThat(kvoy)
        .isLessThan(1.05 * median(scenario, "round-robin", LabRun.Result::medianMillis))
        .isLessThan(1.05 * median(scenario, "least-request", LabRun.Result::medianMillis));
  }

  @Test
  void anEmptyWorkerIsWarmedUpInsteadOfLeftAlone() {
    Scenario scenario = Scenarios.rollingRestart();

    assertThat(median(scenario, "kvoy", LabRun.Result::p90Millis))
        .isLessThan(1.1 * median(scenario, "round-robin", LabRun.Result::p90Millis));
  }

  @Test
  void aWorkerThatFailsFastCostsAFewRequestsOnly() {
    Scenario scenario = Scenarios.failingWorker();

    assertThat(median(scenario, "kvoy", LabRun.Result::failed)).isLessThan(15);
    assertThat(median(scenario, "least-request", LabRun.Result::failed)).isGreaterThan(100);
  }

  @Test
  void withALimitAnOverloadedPoolStillServesWhatItCan() {
    Scenario scenario = Scenarios.overload();
    double limited = median(scenario, "kvoy+limit", LabRun.Result::goodPerMinute);

    assertThat(limited)
        .isGreaterThan(1.3 * median(scenario, "prefix-hash", LabRun.Result::goodPerMinute))
        .isGreaterThan(1.3 * median(scenario, "oracle", LabRun.Result::goodPerMinute));
    assertThat(median(scenario, "kvoy+limit", LabRun.Result::late))
        .as("hardly any request that was taken waits past the target")
        .isLessThan(0.02);
  }

  @Test
  void after200RequestsPredictionsAreWithin10PercentInTheMedianAnd30InNineOfTen() {
    List<Double> medians = new ArrayList<>();
    List<Double> p90s = new ArrayList<>();
    for (int seed = 1; seed <= SEEDS; seed++) {
      var run =
          new LabRun(
              shortened(Scenarios.heterogeneous()),
              r -> Lab.kvoy(r, PickSettings.DEFAULTS, 0),
              seed);
      run.run();
      if (!(run.policy() instanceof KvoyPolicy kvoy)) {
        throw new AssertionError("not ours");
      }
      List<Double> errors = kvoy.predictionErrors().stream().skip(200).sorted().toList();
      medians.add(errors.get(errors.size() / 2));
      p90s.add(errors.get(errors.size() * 9 / 10));
    }

    assertThat(medians).allSatisfy(m -> assertThat(m).isLessThan(0.10));
    assertThat(p90s).allSatisfy(p -> assertThat(p).isLessThan(0.30));
  }

  @Test
  void anEngineKeepsItsBlocksAndTheirSum() {
    var workload = new SharedPrefix(40, 0, 30, 8000, 2000, 800, 0.5);
    var scenario =
        new Scenario(
            "tight",
            Scenarios.same(2, Scenarios.LARGE_MODEL.withKvBlocks(900)),
            workload,
            8000,
            0,
            3 * MINUTE,
            _ -> {});
    var run = new LabRun(scenario, r -> SimplePolicies.random(r.policyRandom), 3);
    LabRun.Result result = run.run();

    assertThat(result.requests()).isGreaterThan(40);
    for (SimWorker worker : run.workers) {
      assertThat(worker.cache.available()).isBetween(0, 900);
      assertThat(worker.preemptions()).as("blocks ran out").isPositive();
      worker.stop();
      assertThat(worker.cache.available()).isEqualTo(900);
    }
  }
}
