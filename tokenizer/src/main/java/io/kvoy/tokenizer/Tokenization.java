// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.InferenceRequest.Truncation;
import io.kvoy.inference.TokenIds;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiFunction;
import org.jspecify.annotations.Nullable;

/** Token ids of a request's prompts, or an honest word why there are none. */
public sealed interface Tokenization {

  /**
   * Ids equal to those that the worker computes.
   *
   * @param ids of each prompt, in order
   * @param growth how the only prompt goes on from an earlier one; null when that is not known
   */
  record Exact(List<TokenIds> ids, @Nullable Growth growth) implements Tokenization {
    public Exact {
      ids = List.copyOf(ids);
    }

    /**
     * @param prompts one id array per prompt, in order; not to be modified any more
     */
    public Exact(List<int[]> prompts) {
      this(prompts.stream().map(TokenIds::of).toList(), null);
    }

    /** One id array per prompt, in order; not to be modified. */
    public List<int[]> prompts() {
      return ids.stream().map(TokenIds::toArray).toList();
    }

    /** Tokens of all prompts together. */
    public int totalTokens() {
      int total = 0;
      for (TokenIds prompt : ids) {
        total += prompt.length();
      }
      return total;
    }
  }

  /**
   * What somebody who computes something along the ids of a prompt, one after the other, can take
   * over from a prompt that began alike.
   *
   * @param sharedTokens ids in front that both have
   * @param before what was kept for the earlier prompt, empty for none
   * @param now keeps something for this one
   */
  record Growth(
      int sharedTokens,
      AtomicReference<@Nullable Object> before,
      AtomicReference<@Nullable Object> now) {

    /** Computes it from what was kept for the earlier prompt, and keeps it for this one. */
    public <T> T grown(Class<T> kind, BiFunction<@Nullable T, Integer, T> compute) {
      Object earlier = before.get();
      T grown = compute.apply(kind.isInstance(earlier) ? kind.cast(earlier) : null, sharedTokens);
      now.set(grown);
      return grown;
    }
  }

  /**
   * Only a size is known, and maybe how the prompt begins.
   *
   * @param tokens estimated prompt tokens, non-negative, never fewer than are known
   * @param reason short metric-safe word, such as {@code image_part} or {@code template_feature}
   * @param prefix the first ids, equal to those that the worker computes; empty when none are
   *     known. Not to be modified
   */
  @SuppressWarnings("ArrayRecordComponent") // handed over, compared nowhere
  record Estimated(int tokens, String reason, int[] prefix) implements Tokenization {

    private static final int[] NOTHING = new int[0];

    public Estimated(int tokens, String reason) {
      this(tokens, reason, NOTHING);
    }
  }

  /**
   * Nothing is known.
   *
   * @param reason short metric-safe word, such as {@code no_tokenizer}
   */
  record Unavailable(String reason) implements Tokenization {}

  /**
   * What stays of the prompts when a request has them cut.
   *
   * @param before ids in front that the cut keeps, such as a BOS
   * @param after ids behind that it keeps
   */
  default Tokenization truncated(Truncation truncation, int before, int after) {
    return switch (this) {
      case Exact exact ->
          truncation.maxTokens() < before + after
              // Also -1, as many as the worker's model length leaves: not known here.
              ? new Estimated(exact.totalTokens(), "truncation")
              : new Exact(
                  exact.prompts().stream().map(ids -> truncation.of(ids, before, after)).toList());
      case Estimated(int tokens, String reason, int[] _) -> new Estimated(tokens, reason);
      case Unavailable _ -> this;
    };
  }
}
