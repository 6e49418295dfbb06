// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

import io.kvoy.scoring.latency.Prediction.Source;

/**
 * Immutable coefficients of one worker's (or pool's) time to first token:
 *
 * <pre>
 * total = fixed
 *       + (perToken + queueExtra) · tokens ahead     queue wait
 *       + perToken · uncached                        own prefill
 *       + perAttention · attention                   own prefill, part that grows with context
 *       + perDecodeStep · decodes · steps            decode interference
 * </pre>
 *
 * {@code queueExtra} says by how much a token ahead costs more or less than an own one: batching
 * and half-done work make it differ a little.
 *
 * @param fixedMillis gateway, network, tokenizing, one engine step
 * @param perTokenMillis one uncached prompt token
 * @param queueExtraMillis see above; the sum with {@code perTokenMillis} is not negative
 * @param perAttentionMillis 1 000 token·context
 * @param perDecodeStepMillis one running request in one engine step
 * @param noiseShare typical absolute error as a share of the prediction
 * @param source whose experience this is
 */
public record Coefficients(
    double fixedMillis,
    double perTokenMillis,
    double queueExtraMillis,
    double perAttentionMillis,
    double perDecodeStepMillis,
    double noiseShare,
    Source source) {

  /** Predicted milliseconds, without making an object. */
  public double totalMillis(
      double uncachedTokens, double cachedTokens, double aheadTokens, double decoding) {
    return fixedMillis
        + (perTokenMillis + queueExtraMillis) * aheadTokens
        + perTokenMillis * uncachedTokens
        + perAttentionMillis * Features.attention(uncachedTokens, cachedTokens)
        + perDecodeStepMillis * Features.decodeSteps(uncachedTokens, aheadTokens, decoding);
  }

  /** Predicted milliseconds with their terms. */
  public Prediction predict(Features f) {
    double queue = (perTokenMillis + queueExtraMillis) * f.aheadTokens();
    double prefill = perTokenMillis * f.uncachedTokens() + perAttentionMillis * f.attention();
    double decode = perDecodeStepMillis * f.decodeSteps();
    return new Prediction(
        queue + prefill + decode + fixedMillis, queue, prefill, decode, fixedMillis, source);
  }

  /** Prompt tokens per second without attention and interference. */
  public double prefillTokensPerSecond() {
    return 1000 / perTokenMillis;
  }
}
