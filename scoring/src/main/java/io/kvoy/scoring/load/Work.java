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
 */
public record Work(
    int uncachedTokens,
    int promptTokens,
    int expectedOutputTokens,
    long ttlNanos,
    long prefillEstimateNanos,
    boolean reportsFirstToken) {
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
  }
}
