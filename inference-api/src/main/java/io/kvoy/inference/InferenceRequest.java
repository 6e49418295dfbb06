// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import java.util.Arrays;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * One parsed inference request, whichever dialect it came in.
 *
 * @param api the API that it was written for
 * @param model the model as named by the client, never empty
 * @param prompt what the model reads
 * @param stream whether the answer is streamed
 * @param includeUsage whether a streamed answer will carry usage without our doing
 * @param maxTokens output limit as the worker understands it ({@code max_completion_tokens} wins),
 *     clamped to be non-negative; empty when not given or unusable
 * @param cacheSalt {@code cache_salt} as sent, null when absent
 * @param promptCount number of prompts in one request (completions may carry several), at least 1
 * @param previousResponseId the response that this one continues ({@code /v1/responses}); its state
 *     lives on the worker that made it. Null when the request stands alone
 * @param truncation cut of the prompt's token ids asked for by the client, null when none
 */
public record InferenceRequest(
    ApiKind api,
    String model,
    Prompt prompt,
    boolean stream,
    boolean includeUsage,
    OptionalLong maxTokens,
    @Nullable String cacheSalt,
    int promptCount,
    @Nullable String previousResponseId,
    @Nullable Truncation truncation) {

  /** A request that stands alone and is not cut. */
  public InferenceRequest(
      ApiKind api,
      String model,
      Prompt prompt,
      boolean stream,
      boolean includeUsage,
      OptionalLong maxTokens,
      @Nullable String cacheSalt,
      int promptCount) {
    this(api, model, prompt, stream, includeUsage, maxTokens, cacheSalt, promptCount, null, null);
  }

  /**
   * {@code truncate_prompt_tokens} and {@code truncation_side} (vLLM 0.32 {@code
   * renderers/params.py}).
   *
   * @param maxTokens token ids to keep; -1 means as many as the model's length leaves for the
   *     prompt
   * @param side which end is kept
   */
  public record Truncation(long maxTokens, Side side) {

    /** Which end of the prompt survives. */
    public enum Side {
      /**
       * The tokenizer's own {@code truncation_side}; vLLM sets it to left, so the last ids stay.
       */
      TOKENIZER_DEFAULT,
      /** {@code truncation_side: left}: the last ids stay. */
      KEEP_LAST,
      /** {@code truncation_side: right}: the first ids stay. */
      KEEP_FIRST
    }

    /** {@link #of(int[], int, int)} where the cut takes no care of special tokens. */
    public int[] of(int[] ids) {
      return of(ids, 0, 0);
    }

    /**
     * The ids that survive; the array itself when all do. Only for {@code maxTokens} of at least
     * {@code before} and {@code after} together: below 0 the worker's model length decides.
     *
     * @param before special tokens in front of the text. The tokenizer's own cut (no side given) is
     *     made before they are put there, so they stay; a cut at a given side is made last
     * @param after special tokens behind the text
     */
    public int[] of(int[] ids, int before, int after) {
      if (maxTokens >= ids.length) {
        return ids;
      }
      int kept = (int) maxTokens;
      return switch (side) {
        case TOKENIZER_DEFAULT -> {
          int[] cut = new int[kept];
          System.arraycopy(ids, 0, cut, 0, before);
          System.arraycopy(ids, ids.length - kept + before, cut, before, kept - before);
          yield cut;
        }
        case KEEP_LAST -> Arrays.copyOfRange(ids, ids.length - kept, ids.length);
        case KEEP_FIRST -> Arrays.copyOf(ids, kept);
      };
    }
  }
}
