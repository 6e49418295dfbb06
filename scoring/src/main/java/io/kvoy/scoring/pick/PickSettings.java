// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

/**
 * How the pick weighs.
 *
 * @param tieShare predictions that differ by less than this share of the best are equal
 * @param tieFloorMillis or by less than this
 * @param exploreEvery one pick of so many may go to a worker that gets little, 0 = never
 * @param exploreBelowShare a worker gets little when its share of the picks is below this part of
 *     an even one: it is unknown, or its cache is cold and nobody would ever warm it
 * @param exploreCostShare how much slower than the best such a worker may be predicted, as a share
 * @param exploreCostMillis and in addition in milliseconds
 * @param workPrice what a millisecond of own prefill costs those behind, in milliseconds, on a
 *     worker whose prefill never rests; in proportion below that
 * @param pendingShare how much of a prefix that is only being computed counts as cached, 0..1
 */
public record PickSettings(
    double tieShare,
    double tieFloorMillis,
    int exploreEvery,
    double exploreBelowShare,
    double exploreCostShare,
    double exploreCostMillis,
    double workPrice,
    double pendingShare) {
  /** Defaults; see {@code docs/adr/0004-prediction-and-pick.md} for the measurements. */
  public static final PickSettings DEFAULTS = new PickSettings(0.05, 1.0, 8, 0.9, 0.5, 200, 1, 0.5);

  public PickSettings {
    if (!(tieShare >= 0 && tieShare < 1) || !(tieFloorMillis >= 0) || exploreEvery < 0) {
      throw new IllegalArgumentException(
          "expected 0 <= tie share < 1, tie floor >= 0 and explore every >= 0, were "
              + tieShare
              + ", "
              + tieFloorMillis
              + ", "
              + exploreEvery);
    }
  }
}
