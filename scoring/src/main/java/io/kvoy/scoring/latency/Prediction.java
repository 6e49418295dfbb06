// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

/**
 * Predicted time to first token, the sum of its terms.
 *
 * @param totalMillis the sum; finite and not negative
 * @param queueMillis wait for prompts that come first
 * @param prefillMillis computing the uncached tokens
 * @param decodeMillis running requests that share the engine's steps
 * @param capacityMillis wait for others to end, when the worker is full
 * @param adapterMillis loading the LoRA adapter
 * @param fixedMillis all that does not depend on the request
 * @param source whose experience it rests on
 */
public record Prediction(
    double totalMillis,
    double queueMillis,
    double prefillMillis,
    double decodeMillis,
    double capacityMillis,
    double adapterMillis,
    double fixedMillis,
    Source source) {

  /** Whose experience a prediction rests on. */
  public enum Source {
    /** This worker's own. */
    WORKER,
    /** That of other workers of its pool. */
    POOL,
    /** Nobody's: built-in values. */
    PRIOR
  }
}
