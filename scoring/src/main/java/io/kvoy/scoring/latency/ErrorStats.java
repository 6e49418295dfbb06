// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

/**
 * How well predictions of late came true.
 *
 * @param lessons lessons since the worker's life began
 * @param medianShare median absolute error over the latest window, as a share of the actual time
 * @param p90Share 90th percentile of the same
 * @param biasShare median signed error: positive when first tokens come later than predicted
 * @param isDrifting whether the model is wrong at present
 */
public record ErrorStats(
    long lessons, double medianShare, double p90Share, double biasShare, boolean isDrifting) {
  /** No lessons. */
  public static final ErrorStats NONE = new ErrorStats(0, 0, 0, 0, false);
}
