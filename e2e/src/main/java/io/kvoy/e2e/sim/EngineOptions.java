// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

/**
 * Size and speed of the simulated machine. Times are those of the machine, before any time scale.
 *
 * <p>One engine step with {@code p} prompt tokens and {@code d} decoding sequences takes {@code
 * stepOverheadMillis + p / prefillTokensPerSecond + decode(d)}, where {@code decode(1)} fills the
 * step up to {@code 1 / decodeTokensPerSecond} and every further sequence adds {@code
 * decodeSlowdown} of that.
 *
 * @param usableBlocks cache blocks that requests can hold (vLLM's {@code num_gpu_blocks} less its
 *     null block)
 * @param blockSize tokens per block
 * @param maxModelLen longest prompt plus answer, in tokens
 * @param maxNumSeqs most sequences in one batch
 * @param maxBatchedTokens most tokens of one step; longer prompts are computed in chunks
 * @param prefillTokensPerSecond prompt tokens computed per second, alone
 * @param decodeTokensPerSecond tokens generated per second by a sequence that has the machine for
 *     itself
 * @param decodeSlowdown share of a lone decode step that each further decoding sequence adds
 * @param stepOverheadMillis fixed time of a step
 * @param jitter half-width of a seeded random factor on each step's time: 0.1 means 0.9 to 1.1
 * @param hashSeed {@code PYTHONHASHSEED} of the worker
 */
public record EngineOptions(
    int usableBlocks,
    int blockSize,
    int maxModelLen,
    int maxNumSeqs,
    int maxBatchedTokens,
    double prefillTokensPerSecond,
    double decodeTokensPerSecond,
    double decodeSlowdown,
    double stepOverheadMillis,
    double jitter,
    String hashSeed) {

  /** About an 8B model on one data-centre GPU with 64 Ki tokens of cache. */
  public static final EngineOptions DEFAULTS =
      new EngineOptions(
          4096, 16, 32_768, 64, 2048, 12_000, 60, 0.02, 4, 0, BlockHasher.DEFAULT_SEED);

  public EngineOptions {
    if (usableBlocks < 1 || blockSize < 1 || maxNumSeqs < 1 || maxBatchedTokens < 1) {
      throw new IllegalArgumentException(
          "sizes must be positive: usableBlocks=%d blockSize=%d maxNumSeqs=%d maxBatchedTokens=%d"
              .formatted(usableBlocks, blockSize, maxNumSeqs, maxBatchedTokens));
    }
    // As vLLM refuses to start: a lone request of full length must fit.
    if (maxModelLen < 2 || (long) usableBlocks * blockSize < maxModelLen) {
      throw new IllegalArgumentException(
          "maxModelLen must be 2..usableBlocks*blockSize=%d, was %d"
              .formatted((long) usableBlocks * blockSize, maxModelLen));
    }
    if (!(prefillTokensPerSecond > 0) || !(decodeTokensPerSecond > 0)) {
      throw new IllegalArgumentException(
          "rates must be positive: prefill=%s decode=%s"
              .formatted(prefillTokensPerSecond, decodeTokensPerSecond));
    }
    if (!(decodeSlowdown >= 0) || !(stepOverheadMillis >= 0) || !(jitter >= 0 && jitter < 1)) {
      throw new IllegalArgumentException(
          "decodeSlowdown and stepOverheadMillis must be >= 0, jitter 0..1: %s %s %s"
              .formatted(decodeSlowdown, stepOverheadMillis, jitter));
    }
  }

  public EngineOptions withCache(int newUsableBlocks, int newBlockSize, int newMaxModelLen) {
    return new EngineOptions(
        newUsableBlocks,
        newBlockSize,
        newMaxModelLen,
        maxNumSeqs,
        maxBatchedTokens,
        prefillTokensPerSecond,
        decodeTokensPerSecond,
        decodeSlowdown,
        stepOverheadMillis,
        jitter,
        hashSeed);
  }

  public EngineOptions withBatch(int newMaxNumSeqs, int newMaxBatchedTokens) {
    return new EngineOptions(
        usableBlocks,
        blockSize,
        maxModelLen,
        newMaxNumSeqs,
        newMaxBatchedTokens,
        prefillTokensPerSecond,
        decodeTokensPerSecond,
        decodeSlowdown,
        stepOverheadMillis,
        jitter,
        hashSeed);
  }

  public EngineOptions withSpeed(
      double newPrefillTokensPerSecond,
      double newDecodeTokensPerSecond,
      double newDecodeSlowdown,
      double newStepOverheadMillis) {
    return new EngineOptions(
        usableBlocks,
        blockSize,
        maxModelLen,
        maxNumSeqs,
        maxBatchedTokens,
        newPrefillTokensPerSecond,
        newDecodeTokensPerSecond,
        newDecodeSlowdown,
        newStepOverheadMillis,
        jitter,
        hashSeed);
  }

  public EngineOptions withJitter(double newJitter) {
    return new EngineOptions(
        usableBlocks,
        blockSize,
        maxModelLen,
        maxNumSeqs,
        maxBatchedTokens,
        prefillTokensPerSecond,
        decodeTokensPerSecond,
        decodeSlowdown,
        stepOverheadMillis,
        newJitter,
        hashSeed);
  }

  public EngineOptions withHashSeed(String newHashSeed) {
    return new EngineOptions(
        usableBlocks,
        blockSize,
        maxModelLen,
        maxNumSeqs,
        maxBatchedTokens,
        prefillTokensPerSecond,
        decodeTokensPerSecond,
        decodeSlowdown,
        stepOverheadMillis,
        jitter,
        newHashSeed);
  }
}
