// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import java.util.OptionalLong;

/**
 * Token counts of one answer in one meaning for all APIs. Each count is empty when the answer did
 * not report it, which is not zero: a worker without {@code --enable-prompt-tokens-details} never
 * reports {@code cachedTokens}.
 *
 * @param promptTokens the whole prompt, cached part included (Anthropic reports the uncached part
 *     only; the sum is here)
 * @param cachedTokens the part of the prompt that came from the prefix cache
 * @param completionTokens generated tokens
 */
public record TokenUsage(
    OptionalLong promptTokens, OptionalLong cachedTokens, OptionalLong completionTokens) {

  /** Nothing reported. */
  public static final TokenUsage NOT_REPORTED =
      new TokenUsage(OptionalLong.empty(), OptionalLong.empty(), OptionalLong.empty());
}
