// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.jinja.RenderResult;
import java.time.Clock;

/**
 * Renders conversations with one model's chat template, to the text that a vLLM 0.32 worker of that
 * model tokenizes.
 *
 * <p>Immutable and thread-safe; called on CPU threads of the routing pipeline. Never throws for any
 * request.
 */
@SuppressWarnings("UnusedVariable")
public final class ChatRenderer {
  private final ChatTemplates templates;
  private final SpecialTokens specialTokens;
  private final ChatTemplateOptions options;
  private final Clock clock;

  /**
   * @param clock time and zone that templates see through {@code strftime_now}; the workers' own
   *     zone, UTC in their images
   */
  public ChatRenderer(
      ChatTemplates templates,
      SpecialTokens specialTokens,
      ChatTemplateOptions options,
      Clock clock) {
    this.templates = templates;
    this.specialTokens = specialTokens;
    this.options = options;
    this.clock = clock;
  }

  /** The worker's text for this conversation. */
  public RenderResult render(Prompt.Chat chat) {
    return new RenderResult.Unsupported("template_engine");
  }
}
