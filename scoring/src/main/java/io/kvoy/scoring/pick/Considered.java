// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The candidates of one pick with what was computed for each; kept as arrays, because most are
 * never looked at. Immutable once the pick is out.
 */
public final class Considered {
  /** Nobody. */
  static final Considered NOBODY = new Considered(List.of());

  /** Why a candidate was in or out. */
  public enum Standing {
    /** In the running. */
    OPEN,
    /** Unready or draining. */
    NOT_READY,
    /** Ejected for failures. */
    EJECTED,
    /** Said a moment ago that it has no room. */
    HELD_OFF
  }

  /**
   * One candidate.
   *
   * @param worker who
   * @param standing in or out
   * @param cachedTokens prompt tokens that it holds
   * @param predictedMillis predicted time to first token, not a number when out
   * @param priceMillis what it would cost others, added to the prediction for the choice
   */
  public record Candidate(
      Worker worker,
      Standing standing,
      int cachedTokens,
      double predictedMillis,
      double priceMillis) {}

  final List<Worker> workers;
  final Standing[] standings;
  final int[] cachedTokens;
  final double[] predictedMillis;
  final double[] priceMillis;

  Considered(List<Worker> workers) {
    int n = workers.size();
    this.workers = workers;
    this.standings = new Standing[n];
    this.cachedTokens = new int[n];
    this.predictedMillis = new double[n];
    this.priceMillis = new double[n];
  }

  /** How many were looked at. */
  public int size() {
    return workers.size();
  }

  /** The candidate at an index of the request's list. */
  public Candidate at(int index) {
    return new Candidate(
        workers.get(index),
        standings[index],
        cachedTokens[index],
        standings[index] == Standing.OPEN ? predictedMillis[index] : Double.NaN,
        priceMillis[index]);
  }

  /** All of them, those in the running first, best first. */
  public List<Candidate> ranked() {
    var all = new ArrayList<Candidate>(size());
    for (int i = 0; i < size(); i++) {
      all.add(at(i));
    }
    all.sort(
        Comparator.comparing(Candidate::standing)
            .thenComparingDouble(c -> c.predictedMillis() + c.priceMillis()));
    return List.copyOf(all);
  }
}
