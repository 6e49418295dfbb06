// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

/**
 * What one scrape of a worker's metrics page said.
 *
 * @param scrapedAtNanos monotonic time when the answer was complete
 * @param running requests in the batch
 * @param waiting requests queued
 * @param kvUsage share of KV blocks held by running requests, 0..1; cached but free blocks do not
 *     count
 * @param blockSizeTokens tokens per KV block, 0 when not reported
 * @param kvBlocks KV blocks in all, 0 when not reported
 * @param prefixQueriedTokens counter, tokens looked up in the prefix cache
 * @param prefixHitTokens counter, tokens found there
 * @param promptTokens counter, prompt tokens processed
 * @param generatedTokens counter, tokens generated
 * @param preemptions counter, requests put back into the queue for lack of blocks
 * @param adapters LoRA adapters in use
 * @param invalidSamples samples that were there but made no sense
 * @param usedOldName whether a number came from a name that newer engines have dropped
 */
public record WorkerGauges(
    long scrapedAtNanos,
    Reading running,
    Reading waiting,
    Reading kvUsage,
    int blockSizeTokens,
    long kvBlocks,
    Reading prefixQueriedTokens,
    Reading prefixHitTokens,
    Reading promptTokens,
    Reading generatedTokens,
    Reading preemptions,
    AdapterLoad adapters,
    int invalidSamples,
    boolean usedOldName) {

  /** Tokens that the KV cache can hold, 0 when not reported. */
  public long kvCapacityTokens() {
    return kvBlocks * blockSizeTokens;
  }

  /** Whether the page says how many requests the worker has: without it its load is unknown. */
  public boolean tellsLoad() {
    return running.isKnown() && waiting.isKnown();
  }
}
