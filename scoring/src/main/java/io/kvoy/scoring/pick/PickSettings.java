// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import java.time.Duration;

/**
 * How the pick weighs.
 *
 * @param tieShare predictions that differ by less than this share of the best are equal
 * @param tieFloorMillis or by less than this
 * @param exploreEvery one pick of so many may go to a worker without recent history, 0 = never
 * @param exploreAfter a worker without a pick for so long has no recent history
 * @param exploreCostShare how much slower than the best such a worker may be predicted, as a share
 * @param exploreCostMillis and in addition in milliseconds
 */
public record PickSettings(
    double tieShare,
    double tieFloorMillis,
    int exploreEvery,
    Duration exploreAfter,
    double exploreCostShare,
    double exploreCostMillis) {
  /** Defaults; see {@code docs/adr/0004-prediction-and-pick.md} for the measurements. */
  public static final PickSettings DEFAULTS =
      new PickSettings(0.05, 1.0, 16, Duration.ofSeconds(60), 0.5, 200);

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
