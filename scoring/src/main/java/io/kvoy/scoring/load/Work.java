// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

/**
 * What a request will cost the worker that takes it.
 *
 * @param uncachedTokens prompt tokens that the worker must compute
 * @param promptTokens prompt tokens in all; they hold KV blocks until the end
 * @param expectedOutputTokens output tokens expected, 0 when there is no idea
 * @param ttlNanos after this time the reservation is taken back even if nobody reports an end
 * @param prefillEstimateNanos predicted time to first token, used to release the prefill share when
 *     no first token will be reported
 * @param reportsFirstToken whether the caller will report the first token (a streamed answer); if
 *     not, the prefill share is released after the estimate
 * @param prefixKey names the leading tokens that other requests may have in common with this one:
 *     they take room once, however many requests use them; 0 = nothing in common
 * @param prefixTokens how many those are, 0 without a key
 */
public record Work(
    int uncachedTokens,
    int promptTokens,
    int expectedOutputTokens,
    long ttlNanos,
    long prefillEstimateNanos,
    boolean reportsFirstToken,
    long prefixKey,
    int prefixTokens) {
  public Work {
    if (uncachedTokens < 0 || promptTokens < uncachedTokens || expectedOutputTokens < 0) {
      throw new IllegalArgumentException(
          "expected 0 <= uncached <= prompt and output >= 0, were "
              + uncachedTokens
              + ", "
              + promptTokens
              + ", "
              + expectedOutputTokens);
    }
    if (ttlNanos <= 0) {
      throw new IllegalArgumentException("time to live must be positive, was " + ttlNanos);
    }
    if (prefixTokens < 0 || prefixTokens > promptTokens || (prefixKey == 0 && prefixTokens > 0)) {
      throw new IllegalArgumentException(
          "expected 0 <= prefix <= prompt, and none without a key, was " + prefixTokens);
    }
  }

  /** A request that has nothing in common with others. */
  public Work(
      int uncachedTokens,
      int promptTokens,
      int expectedOutputTokens,
      long ttlNanos,
      long prefillEstimateNanos,
      boolean reportsFirstToken) {
    this(
        uncachedTokens,
        promptTokens,
        expectedOutputTokens,
        ttlNanos,
        prefillEstimateNanos,
        reportsFirstToken,
        0,
        0);
  }

  /** Prompt tokens whose room no other request shares. */
  int privateTokens() {
    return promptTokens - prefixTokens;
  }
}
