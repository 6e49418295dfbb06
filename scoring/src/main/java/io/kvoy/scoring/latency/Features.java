// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

/**
 * What a time to first token depends on, as known at the moment of the pick. Numbers only, so that
 * the same values can be learned from when the first token has come.
 *
 * @param uncachedTokens prompt tokens that the worker must compute
 * @param cachedTokens prompt tokens that it holds
 * @param aheadTokens uncached prompt tokens of others that come first
 * @param decoding requests in the batch that are past their first token
 * @param capacityMillis wait for others to end, when the worker has no room for another request; 0
 *     while it has
 * @param adapterMillis loading the request's LoRA adapter, 0 when it is there or not wanted
 */
public record Features(
    double uncachedTokens,
    double cachedTokens,
    double aheadTokens,
    double decoding,
    double capacityMillis,
    double adapterMillis) {

  /** Without an adapter to be loaded. */
  public Features(
      double uncachedTokens,
      double cachedTokens,
      double aheadTokens,
      double decoding,
      double capacityMillis) {
    this(uncachedTokens, cachedTokens, aheadTokens, decoding, capacityMillis, 0);
  }

  /**
   * Prompt tokens that one engine step takes, for counting steps only; the true number is vLLM's
   * {@code max_num_batched_tokens} (2048 to 16384 by GPU and use, vLLM 0.32 {@code
   * vllm/engine/arg_utils.py}) and the learned coefficient absorbs the difference.
   */
  static final double NOMINAL_STEP_TOKENS = 2048;

  /**
   * Sum over the uncached tokens of the context before each, in units of 1 000 × token: attention
   * work, which grows with the context.
   */
  public double attention() {
    return attention(uncachedTokens, cachedTokens);
  }

  static double attention(double uncachedTokens, double cachedTokens) {
    return uncachedTokens * (cachedTokens + uncachedTokens / 2) / 1000;
  }

  /** Engine steps that the running decodes take part in before the first token, times decodes. */
  public double decodeSteps() {
    return decodeSteps(uncachedTokens, aheadTokens, decoding);
  }

  static double decodeSteps(double uncachedTokens, double aheadTokens, double decoding) {
    return decoding * (1 + (uncachedTokens + aheadTokens) / NOMINAL_STEP_TOKENS);
  }
}
