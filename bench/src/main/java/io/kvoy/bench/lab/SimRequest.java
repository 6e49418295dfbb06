// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import org.jspecify.annotations.Nullable;

/** One request of a workload and what became of it. */
final class SimRequest {
  /** Keys of all full blocks of prompt and answer; equal prefixes have equal keys. */
  final long[] blockKeys;

  final int promptTokens;
  final int outputTokens;

  /** Conversation, for session stickiness; -1 for none. */
  final int session;

  double arrivedMillis;
  double firstTokenMillis = Double.NaN;
  double endMillis = Double.NaN;

  /** Prompt tokens found in the cache when the worker took it into its batch. */
  int cachedTokens;

  boolean failed;
  int worker = -1;

  /** Told at the first token, the end and a failure; null until routed. */
  @Nullable Listener listener;

  /** Who wants to hear how it goes. */
  interface Listener {
    void firstToken(SimRequest request);

    void ended(SimRequest request);
  }

  SimRequest(long[] blockKeys, int promptTokens, int outputTokens, int session) {
    this.blockKeys = blockKeys;
    this.promptTokens = promptTokens;
    this.outputTokens = outputTokens;
    this.session = session;
  }

  double ttftMillis() {
    return firstTokenMillis - arrivedMillis;
  }

  /**
   * Full blocks of the prompt that may be taken from a cache: the last token is always computed.
   */
  int cacheableBlocks() {
    return (promptTokens - 1) / BlockCache.BLOCK_TOKENS;
  }

  /**
   * Keys of a token stream that starts with a shared part.
   *
   * @param sharedId identity of the shared part
   * @param sharedTokens its length
   * @param ownId identity of the rest
   * @param tokens length of all
   */
  static long[] keys(long sharedId, int sharedTokens, long ownId, int tokens) {
    long[] keys = new long[tokens / BlockCache.BLOCK_TOKENS];
    int shared = sharedTokens / BlockCache.BLOCK_TOKENS;
    for (int i = 0; i < keys.length; i++) {
      keys[i] = mix((i < shared ? sharedId : ownId) * 0x9E3779B97F4A7C15L + i);
    }
    return keys;
  }

  /** SplitMix64's finisher: spreads consecutive inputs. */
  static long mix(long z) {
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }
}
