// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import org.jspecify.annotations.Nullable;

/** What an API handler hears of its request, in order. */
sealed interface EngineOutput {

  /** Why a sequence ended by itself. */
  enum Finish {
    /** The end-of-text token came. */
    STOP("stop"),
    /** The token limit came first. */
    LENGTH("length");

    private final String wire;

    Finish(String wire) {
      this.wire = wire;
    }

    /** As OpenAI's {@code finish_reason} spells it. */
    String wire() {
      return wire;
    }
  }

  /**
   * One generated token.
   *
   * @param requestId which sequence
   * @param tokenId its id
   * @param cachedTokens prompt tokens that were found in the cache
   * @param createdCacheTokens prompt tokens newly put into the cache
   * @param finish why the sequence ends with this token, null while it goes on
   */
  record Token(
      String requestId,
      int tokenId,
      int cachedTokens,
      int createdCacheTokens,
      @Nullable Finish finish)
      implements EngineOutput {}

  /** The worker died or the request was aborted: nothing more will come. */
  record Gone(String requestId) implements EngineOutput {}
}
