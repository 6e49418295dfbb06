// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import org.jspecify.annotations.Nullable;

/**
 * Text to token ids for one {@code tokenizer.json}. Implementations are thread-safe and pure: the
 * same text always gives the same ids, whatever other threads do.
 *
 * <p>Never truncates and never pads. Added tokens spelled out in the text become their ids, as in
 * the worker.
 */
public interface TextEncoder {

  /**
   * Encodes the whole text.
   *
   * @param addSpecialTokens whether the post-processor of the file adds its tokens (a BOS for Llama
   *     and Gemma, nothing for Qwen); vLLM says true for completions, false for chat
   * @return the ids, owned by the caller; null when the text has a lone surrogate: it cannot be
   *     written as UTF-8, so no worker computes ids for it
   */
  int @Nullable [] encode(String text, boolean addSpecialTokens);

  /** Memory that it takes at this moment, heap and native, by estimate; 0 when nobody knows. */
  default long memoryBytes() {
    return 0;
  }
}
