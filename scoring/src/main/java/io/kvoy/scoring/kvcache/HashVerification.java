// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher.Algorithm;
import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher.Layout;

/**
 * Whether a worker's engine hashes are those that vLLM would compute for the tokens in its events.
 *
 * <p>Routing does not depend on it: keys are our own. It tells people which worker runs with which
 * algorithm and seed, and that tokens, block size and salt in its events are what was really
 * hashed.
 */
public sealed interface HashVerification {

  /** No chain's first block seen yet that could be recomputed, or too few. */
  record Pending(int chainsTried) implements HashVerification {}

  /**
   * Recomputed and found equal.
   *
   * @param layout of the extra keys; {@link Layout#TAGGED} also when no block had any
   */
  record HashesVerified(Algorithm algorithm, String seed, Layout layout)
      implements HashVerification {}

  /**
   * None of the known algorithms and seeds gives them: a random seed, a seed that is not
   * configured, another engine.
   */
  record Unmatched(int chainsTried) implements HashVerification {}
}
