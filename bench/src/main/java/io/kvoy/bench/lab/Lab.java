// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import io.kvoy.scoring.pick.PickSettings;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.ToDoubleFunction;

/**
 * Compares policies on the same seeded fleets and prints one table per scenario: medians over the
 * seeds.
 *
 * <p>{@code Lab [--seeds N] [--notes] [scenario…]}; no scenario means all.
 */
public final class Lab {
  private static final int DEFAULT_SEEDS = 5;

  private Lab() {}

  static Map<String, LabRun.PolicyMaker> policies() {
    var policies = new LinkedHashMap<String, LabRun.PolicyMaker>();
    policies.put("random", run -> SimplePolicies.random(run.policyRandom));
    policies.put("round-robin", _ -> SimplePolicies.roundRobin());
    policies.put(
        "least-request", run -> SimplePolicies.leastRequest(run.workers.size(), run.policyRandom));
    policies.put("prefix-hash", _ -> SimplePolicies.prefixHash(16));
    policies.put("warmest", run -> SimplePolicies.warmest(run.mirror, run.policyRandom));
    policies.put(
        "weighted",
        run -> SimplePolicies.weightedScores(run.mirror, run.workers, run.policyRandom));
    policies.put(
        "block-cost", run -> SimplePolicies.blockCost(run.mirror, run.workers, run.policyRandom));
    policies.put("oracle", run -> SimplePolicies.oracle(run.workers, run.policyRandom));
    policies.put("kvoy", run -> kvoy(run, PickSettings.DEFAULTS, 0));
    policies.put("kvoy+limit", run -> kvoy(run, PickSettings.DEFAULTS, run.scenario.sloMillis()));
    return policies;
  }

  static KvoyPolicy kvoy(LabRun run, PickSettings settings, double limitMillis) {
    return new KvoyPolicy(run.time, run.workers, run.mirror, settings, limitMillis);
  }

  /** Runs the lab; see the class. */
  public static void main(String[] args) {
    int seeds = DEFAULT_SEEDS;
    boolean notes = false;
    var names = new ArrayList<String>();
    for (int i = 0; i < args.length; i++) {
      switch (args[i]) {
        case "--seeds" -> seeds = Integer.parseInt(args[++i]);
        case "--notes" -> notes = true;
        default -> names.add(args[i]);
      }
    }
    for (Scenario scenario : Scenarios.all()) {
      if (names.isEmpty() || names.contains(scenario.name())) {
        print(scenario, seeds, notes, System.out);
      }
    }
  }

  private static void print(Scenario scenario, int seeds, boolean notes, PrintStream out) {
    out.printf(
        Locale.ROOT,
        "%n%s (%d workers, first token within %.0f ms is good, medians over %d seeds)%n",
        scenario.name(),
        scenario.profiles().size(),
        scenario.sloMillis(),
        seeds);
    out.printf(
        Locale.ROOT,
        "%-14s %9s %9s %9s %6s %9s %9s %7s %8s%n",
        "policy",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "hit",
        "good/min",
        "done/min",
        "failed",
        "refused");
    for (var policy : policies().entrySet()) {
      var results = new ArrayList<LabRun.Result>();
      String note = "";
      for (int seed = 1; seed <= seeds; seed++) {
        var run = new LabRun(scenario, policy.getValue(), seed);
        results.add(run.run());
        note = run.policy().note();
      }
      out.printf(
          Locale.ROOT,
          "%-14s %9.0f %9.0f %9.0f %6.3f %9.1f %9.1f %7.0f %8.0f%n",
          policy.getKey(),
          median(results, LabRun.Result::medianMillis),
          median(results, LabRun.Result::p90Millis),
          median(results, LabRun.Result::p99Millis),
          median(results, LabRun.Result::hitShare),
          median(results, LabRun.Result::goodPerMinute),
          median(results, LabRun.Result::donePerMinute),
          median(results, LabRun.Result::failed),
          median(results, LabRun.Result::refused));
      if (notes) {
        out.print(note);
      }
    }
  }

  static double median(List<LabRun.Result> results, ToDoubleFunction<LabRun.Result> of) {
    double[] values = results.stream().mapToDouble(of).sorted().toArray();
    return values[values.length / 2];
  }
}
