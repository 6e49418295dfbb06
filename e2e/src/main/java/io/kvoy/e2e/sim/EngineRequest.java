// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * One sequence to compute: a prompt as token ids and how to end.
 *
 * @param id unique among requests in flight
 * @param prompt ids, at least one; not to be modified
 * @param lora adapter, null for the base model
 * @param cacheSalt {@code cache_salt} of the body, null without
 * @param sessionId {@code X-Session-ID}, null without
 * @param fullReport whether a hit is announced again ({@code kv_cache_report_mode: full})
 * @param maxTokens tokens to generate at most, at least 1
 * @param minTokens no end of text before that many tokens
 * @param ignoreEos whether the sequence runs up to {@code maxTokens} in any case
 * @param variant tells apart several answers to one prompt ({@code n} greater than 1), 0 for the
 *     first
 * @param sink receives each token on the engine thread; must not block
 */
@SuppressWarnings("ArrayRecordComponent") // Never compared; ids stay primitive.
record EngineRequest(
    String id,
    int[] prompt,
    @Nullable Lora lora,
    @Nullable String cacheSalt,
    @Nullable String sessionId,
    boolean fullReport,
    int maxTokens,
    int minTokens,
    boolean ignoreEos,
    int variant,
    Consumer<EngineOutput> sink) {
  EngineRequest {
    if (prompt.length == 0 || maxTokens < 1) {
      throw new IllegalArgumentException(
          "prompt must not be empty and maxTokens >= 1, were %d and %d"
              .formatted(prompt.length, maxTokens));
    }
  }

  /**
   * An adapter.
   *
   * @param id number that vLLM gives it, from 1 up
   */
  record Lora(int id, String name, String path) {}
}
