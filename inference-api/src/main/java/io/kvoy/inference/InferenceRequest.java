// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

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
 * @param maxTokens output limit as the worker understands it ({@code max_completion_tokens} wins), clamped to be
 *     non-negative; empty when not given or unusable
 * @param cacheSalt {@code cache_salt} as sent, null when absent
 * @param promptCount number of prompts in one request (completions may carry several), at least 1
 */
public record InferenceRequest(
    ApiKind api,
    String model,
    Prompt prompt,
    boolean stream,
    boolean includeUsage,
    OptionalLong maxTokens,
    @Nullable String cacheSalt,
    int promptCount) {}
