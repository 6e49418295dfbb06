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
 *       + capacityShare · capacity wait              no room: others must end first
 *       + adapter                                    loading a LoRA adapter
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
 * @param capacityShare how much of the reckoned wait for room really comes
 * @param roomNoise by how much that share is typically wrong
 * @param noiseShare typical absolute error as a share of the prediction
 * @param source whose experience this is
 */
public record Coefficients(
    double fixedMillis,
    double perTokenMillis,
    double queueExtraMillis,
    double perAttentionMillis,
    double perDecodeStepMillis,
    double capacityShare,
    double roomNoise,
    double noiseShare,
    Source source) {

  /** Predicted milliseconds, without making an object. */
  public double totalMillis(
      double uncachedTokens,
      double cachedTokens,
      double aheadTokens,
      double decoding,
      double capacityMillis) {
    return fixedMillis
        + (perTokenMillis + queueExtraMillis) * aheadTokens
        + perTokenMillis * uncachedTokens
        + perAttentionMillis * Features.attention(uncachedTokens, cachedTokens)
        + perDecodeStepMillis * Features.decodeSteps(uncachedTokens, aheadTokens, decoding)
        + capacityShare * capacityMillis;
  }

  /** These, moved a share of the way (0..1) to others. */
  Coefficients towards(Coefficients other, double share) {
    return new Coefficients(
        mix(fixedMillis, other.fixedMillis, share),
        mix(perTokenMillis, other.perTokenMillis, share),
        mix(queueExtraMillis, other.queueExtraMillis, share),
        mix(perAttentionMillis, other.perAttentionMillis, share),
        mix(perDecodeStepMillis, other.perDecodeStepMillis, share),
        mix(capacityShare, other.capacityShare, share),
        mix(roomNoise, other.roomNoise, share),
        mix(noiseShare, other.noiseShare, share),
        share < 0.5 ? source : other.source);
  }

  private static double mix(double own, double other, double share) {
    return own + share * (other - own);
  }

  /**
   * How much later than predicted a first token may well come: twice the usual error.
   *
   * @param totalMillis what was predicted
   * @param capacityMillis reckoned wait for room in it
   */
  public double marginMillis(double totalMillis, double capacityMillis) {
    return 2
        * (noiseShare * Math.max(0, totalMillis - capacityShare * capacityMillis)
            + roomNoise * capacityMillis);
  }

  /** Milliseconds of computing the request's own uncached tokens. */
  public double ownPrefillMillis(double uncachedTokens, double cachedTokens) {
    return perTokenMillis * uncachedTokens
        + perAttentionMillis * Features.attention(uncachedTokens, cachedTokens);
  }

  /** Predicted milliseconds with their terms. */
  public Prediction predict(Features f) {
    double queue = (perTokenMillis + queueExtraMillis) * f.aheadTokens();
    double prefill = ownPrefillMillis(f.uncachedTokens(), f.cachedTokens());
    double decode = perDecodeStepMillis * f.decodeSteps();
    double capacity = capacityShare * f.capacityMillis();
    return new Prediction(
        queue + prefill + decode + capacity + f.adapterMillis() + fixedMillis,
        queue,
        prefill,
        decode,
        capacity,
        f.adapterMillis(),
        fixedMillis,
        source);
  }

  /** Prompt tokens per second without attention and interference. */
  public double prefillTokensPerSecond() {
    return 1000 / perTokenMillis;
  }
}
