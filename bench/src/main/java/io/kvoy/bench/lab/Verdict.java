// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.ToDoubleFunction;

/**
 * Whether Kvoy did as well as it promises in one scenario: the median time to first token within 10
 * % of the greedy oracle's; 90th percentile, good requests and hit share within 3 % of the best of
 * all other policies in that figure, whichever that is.
 *
 * @param scenario name
 * @param checks one per figure
 */
record Verdict(String scenario, List<Check> checks) {
  /** The policy that is judged: with the pool's target as its limit. */
  static final String JUDGED = "kvoy+limit";

  /** Ours, which are no rivals. */
  private static final List<String> OURS = List.of("kvoy", JUDGED);

  private static final double MEDIAN_SLACK = 0.10;
  private static final double SLACK = 0.03;

  /** Hit shares nearer than this are the same: half a percent of all prompt tokens. */
  private static final double SAME_HIT_SHARE = 0.005;

  /**
   * One figure.
   *
   * @param figure its name
   * @param ours our value
   * @param rival the best other policy in it, or the oracle
   * @param theirs that policy's value
   * @param holds whether ours is good enough
   */
  record Check(String figure, double ours, String rival, double theirs, boolean holds) {
    String words() {
      return String.format(
          Locale.ROOT,
          "%s %s (%.4g, %s %.4g)",
          figure,
          holds ? "ok" : "BEHIND",
          ours,
          rival,
          theirs);
    }
  }

  static Verdict of(String scenario, Map<String, List<LabRun.Result>> results) {
    var checks = new ArrayList<Check>();
    double p50 = median(results, JUDGED, LabRun.Result::medianMillis);
    double oracle = median(results, "oracle", LabRun.Result::medianMillis);
    checks.add(new Check("p50", p50, "oracle", oracle, p50 <= oracle * (1 + MEDIAN_SLACK)));
    String quickest = best(results, r -> -r.p90Millis());
    double p90 = median(results, JUDGED, LabRun.Result::p90Millis);
    double theirP90 = median(results, quickest, LabRun.Result::p90Millis);
    checks.add(new Check("p90", p90, quickest, theirP90, p90 <= theirP90 * (1 + SLACK)));
    checks.add(atLeast("good", results, LabRun.Result::goodPerMinute, 0));
    checks.add(atLeast("hit", results, LabRun.Result::hitShare, SAME_HIT_SHARE));
    return new Verdict(scenario, List.copyOf(checks));
  }

  private static Check atLeast(
      String figure,
      Map<String, List<LabRun.Result>> results,
      ToDoubleFunction<LabRun.Result> of,
      double same) {
    String best = best(results, of);
    double ours = median(results, JUDGED, of);
    double theirs = median(results, best, of);
    return new Check(figure, ours, best, theirs, ours >= theirs * (1 - SLACK) - same);
  }

  private static String best(
      Map<String, List<LabRun.Result>> results, ToDoubleFunction<LabRun.Result> of) {
    String best = "";
    double most = Double.NEGATIVE_INFINITY;
    for (String policy : results.keySet()) {
      double value = median(results, policy, of);
      if (!OURS.contains(policy) && value > most) {
        most = value;
        best = policy;
      }
    }
    return best;
  }

  private static double median(
      Map<String, List<LabRun.Result>> results, String policy, ToDoubleFunction<LabRun.Result> of) {
    return Lab.median(results.getOrDefault(policy, List.of()), of);
  }

  boolean holds() {
    return checks.stream().allMatch(Check::holds);
  }

  String line() {
    var text =
        new StringBuilder("verdict ").append(scenario).append(holds() ? ": met" : ": NOT met");
    for (Check check : checks) {
      text.append(", ").append(check.words());
    }
    return text.toString();
  }
}
