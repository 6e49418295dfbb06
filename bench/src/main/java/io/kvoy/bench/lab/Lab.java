// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import io.kvoy.scoring.pick.PickSettings;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import java.util.stream.IntStream;

/**
 * Compares policies on the same seeded fleets and prints one table per scenario: medians over the
 * seeds, of which scenarios with few users get four times as many.
 *
 * <p>{@code Lab [--seeds N] [--notes] [--policies a,b] [--plots FOLDER] [scenario…]}; no scenario
 * means all. With all policies each table ends with a {@link Verdict}.
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
  public static void main(String[] args) throws IOException {
    int seeds = DEFAULT_SEEDS;
    boolean notes = false;
    Path plots = null;
    var tables = new LinkedHashMap<String, Map<String, List<LabRun.Result>>>();
    var names = new ArrayList<String>();
    var only = new ArrayList<String>();
    for (int i = 0; i < args.length; i++) {
      switch (args[i]) {
        case "--seeds" -> seeds = Integer.parseInt(args[++i]);
        case "--notes" -> notes = true;
        case "--plots" -> plots = Path.of(args[++i]);
        case "--policies" -> only.addAll(List.of(args[++i].split(",")));
        default -> names.add(args[i]);
      }
    }
    for (Scenario scenario : Scenarios.all()) {
      if (names.isEmpty() || names.contains(scenario.name())) {
        int runs = scenario.seeds(seeds);
        Map<String, List<LabRun.Result>> table = run(scenario, runs, notes, only, System.out);
        tables.put(scenario.name(), table);
        print(scenario, table, runs, System.out);
      }
    }
    if (plots != null) {
      Charts.write(plots, tables, seeds);
    }
  }

  private static Map<String, List<LabRun.Result>> run(
      Scenario scenario, int seeds, boolean notes, List<String> only, PrintStream out) {
    var all = new LinkedHashMap<String, List<LabRun.Result>>();
    for (var policy : policies().entrySet()) {
      if (!only.isEmpty() && !only.contains(policy.getKey())) {
        continue;
      }
      var runs =
          IntStream.rangeClosed(1, seeds)
              .parallel()
              .mapToObj(
                  seed -> {
                    var run = new LabRun(scenario, policy.getValue(), seed);
                    return new Done(run.run(), notes ? run.policy().note() : "");
                  })
              .toList();
      all.put(policy.getKey(), runs.stream().map(Done::result).toList());
      if (notes) {
        out.printf("%s%n%s", policy.getKey(), runs.getLast().note());
      }
    }
    return all;
  }

  private record Done(LabRun.Result result, String note) {}

  private static void print(
      Scenario scenario, Map<String, List<LabRun.Result>> all, int seeds, PrintStream out) {
    out.printf(
        Locale.ROOT,
        "%n%s (%d workers, first token within %.0f ms is good, medians over %d seeds)%n",
        scenario.name(),
        scenario.profiles().size(),
        scenario.sloMillis(),
        seeds);
    out.printf(
        Locale.ROOT,
        "%-14s %9s %9s %9s %6s %9s %9s %7s %8s %7s%n",
        "policy",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "hit",
        "good/min",
        "done/min",
        "failed",
        "refused",
        "late %");
    all.forEach(
        (policy, results) ->
            out.printf(
                Locale.ROOT,
                "%-14s %9.0f %9.0f %9.0f %6.3f %9.1f %9.1f %7.0f %8.0f %7.1f%n",
                policy,
                median(results, LabRun.Result::medianMillis),
                median(results, LabRun.Result::p90Millis),
                median(results, LabRun.Result::p99Millis),
                median(results, LabRun.Result::hitShare),
                median(results, LabRun.Result::goodPerMinute),
                median(results, LabRun.Result::donePerMinute),
                median(results, LabRun.Result::failed),
                median(results, LabRun.Result::refused),
                100 * median(results, LabRun.Result::late)));
    if (all.size() == policies().size()) {
      out.println(Verdict.of(scenario.name(), all).line());
    }
  }

  static double median(List<LabRun.Result> results, ToDoubleFunction<LabRun.Result> of) {
    double[] values = results.stream().mapToDouble(of).sorted().toArray();
    return values[values.length / 2];
  }
}
