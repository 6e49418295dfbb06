// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

import java.util.OptionalLong;

/** What a wrong prediction was most likely wrong about. */
public enum ErrorCause {
  /** The worker had more or less of the prompt cached than was thought. */
  CACHE,
  /** Most of the prediction was waiting: for prompts ahead, for room, for an adapter. */
  QUEUE,
  /** Neither: how fast the worker computes, and what the network adds. */
  RATE;

  /**
   * Cached tokens that may differ without being the cause: a block or a twentieth of the prompt.
   */
  private static final double SAME_SHARE = 0.05;

  private static final int SAME_TOKENS = 16;

  /**
   * Names the cause.
   *
   * @param prediction what was predicted
   * @param promptTokens prompt tokens, 0 when not known
   * @param cachedTokens how many of them were thought to be cached
   * @param reportedCachedTokens how many the worker says were, empty when it does not say
   */
  public static ErrorCause of(
      Prediction prediction,
      int promptTokens,
      int cachedTokens,
      OptionalLong reportedCachedTokens) {
    if (reportedCachedTokens.isPresent()
        && Math.abs(reportedCachedTokens.getAsLong() - cachedTokens)
            > Math.max(SAME_TOKENS, SAME_SHARE * promptTokens)) {
      return CACHE;
    }
    double waiting =
        prediction.queueMillis() + prediction.capacityMillis() + prediction.adapterMillis();
    return waiting > prediction.totalMillis() / 2 ? QUEUE : RATE;
  }
}
