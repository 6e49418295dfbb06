// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;

/**
 * What each worker has of one prompt. Filled by {@link PrefixIndex#lookup}, extended by {@link
 * SpeculativePrefixes#merge}; reusable, owned by one thread at a time.
 */
@SuppressWarnings("DoNotCallSuggester")
public final class PrefixMatch {

  /** Tokens of the prompt that the worker can take from its GPU cache, a multiple of its own block size. */
  public int cachedTokens(Worker worker) {
    throw new UnsupportedOperationException();
  }

  /** Tokens that it can take from any tier, GPU included; at least {@link #cachedTokens}. */
  public int cachedTokensAnyTier(Worker worker) {
    throw new UnsupportedOperationException();
  }

  /**
   * Tokens that it has, or will have once requests which we routed to it have been read; at least {@link #cachedTokens}.
   */
  public int expectedTokens(Worker worker) {
    throw new UnsupportedOperationException();
  }

  /** How well the worker's cache is known; {@link KvViewState#DEAD} when the index has never heard of this life. */
  public KvViewState view(Worker worker) {
    throw new UnsupportedOperationException();
  }
}
