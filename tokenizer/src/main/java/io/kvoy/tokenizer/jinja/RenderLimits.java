// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/**
 * Bounds of one render, so that no template and no request can hold a thread or the heap.
 *
 * @param maxWork work units: one for each loop pass, call and filter, one more for each 32
 *     characters or 4 items copied
 * @param maxTextChars longest text that may come into being, output included
 * @param maxItems longest list, range or other collection that may come into being
 * @param maxDepth deepest nesting of macro calls, recursive loops and values
 */
public record RenderLimits(long maxWork, int maxTextChars, int maxItems, int maxDepth) {

  /**
   * Room for prompts of a few million characters; this much work takes well under a second, where
   * vLLM 0.32 gives a render up after 30 s ({@code vllm/envs.py}). 100 000 items is the limit of
   * Jinja2's own sandbox for {@code range}.
   */
  public static final RenderLimits DEFAULTS = new RenderLimits(20_000_000, 32 << 20, 100_000, 100);
}
