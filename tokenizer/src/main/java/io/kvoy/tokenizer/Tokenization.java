// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import java.util.List;

/** Token ids of a request's prompts, or an honest word why there are none. */
public sealed interface Tokenization {

  /**
   * Ids equal to those that the worker computes.
   *
   * @param prompts one id array per prompt, in order; not to be modified
   */
  record Exact(List<int[]> prompts) implements Tokenization {
    public Exact {
      prompts = List.copyOf(prompts);
    }

    /** Tokens of all prompts together. */
    public int totalTokens() {
      int total = 0;
      for (int[] ids : prompts) {
        total += ids.length;
      }
      return total;
    }
  }

  /**
   * Only a size is known.
   *
   * @param tokens estimated prompt tokens, non-negative
   * @param reason short metric-safe word, such as {@code image_part} or {@code template_feature}
   */
  record Estimated(int tokens, String reason) implements Tokenization {}

  /**
   * Nothing is known.
   *
   * @param reason short metric-safe word, such as {@code no_tokenizer}
   */
  record Unavailable(String reason) implements Tokenization {}
}
