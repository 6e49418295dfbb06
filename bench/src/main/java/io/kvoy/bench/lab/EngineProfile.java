// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

/**
 * How fast a simulated worker is and how much it holds. Time of one engine step:
 *
 * <pre>
 * step + perPrefillToken · tokens + perAttention · tokens · context / 1000
 *      + perDecode · decodes + perContext · context of decodes / 1000
 * </pre>
 *
 * @param stepMillis what every step costs
 * @param perPrefillTokenMillis one prompt token
 * @param perAttentionMillis 1 000 prompt token × context token
 * @param perDecodeMillis one decoding request
 * @param perContextMillis 1 000 context tokens of decoding requests
 * @param stepTokens token budget of a step (vLLM {@code max_num_batched_tokens})
 * @param maxRequests requests in a batch (vLLM {@code max_num_seqs})
 * @param kvBlocks blocks of {@link BlockCache#BLOCK_TOKENS} tokens
 */
record EngineProfile(
    double stepMillis,
    double perPrefillTokenMillis,
    double perAttentionMillis,
    double perDecodeMillis,
    double perContextMillis,
    int stepTokens,
    int maxRequests,
    int kvBlocks) {

  /** The same engine on a GPU of another speed: 0.4 takes 2.5 times as long. */
  EngineProfile atSpeed(double speed) {
    return new EngineProfile(
        stepMillis / speed,
        perPrefillTokenMillis / speed,
        perAttentionMillis / speed,
        perDecodeMillis / speed,
        perContextMillis / speed,
        stepTokens,
        maxRequests,
        kvBlocks);
  }

  EngineProfile withKvBlocks(int blocks) {
    return new EngineProfile(
        stepMillis,
        perPrefillTokenMillis,
        perAttentionMillis,
        perDecodeMillis,
        perContextMillis,
        stepTokens,
        maxRequests,
        blocks);
  }

  double stepMillis(double prefillTokens, double attention, int decodes, double context) {
    return stepMillis
        + perPrefillTokenMillis * prefillTokens
        + perAttentionMillis * attention
        + perDecodeMillis * decodes
        + perContextMillis * context / 1000;
  }
}
