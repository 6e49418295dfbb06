// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import org.jspecify.annotations.Nullable;

/**
 * Request fields that reach the chat template (vLLM 0.32 {@code entrypoints/openai/chat_completion/protocol.py}).
 *
 * @param addGenerationPrompt null when the request does not say; vLLM's default is true
 * @param continueFinalMessage null when the request does not say; vLLM's default is false
 * @param addSpecialTokens null when the request does not say; vLLM's default is false for chat
 * @param reasoningEffort as sent, null when absent
 * @param chatTemplateKwargs {@code chat_template_kwargs} as sent, null when absent
 * @param documents {@code documents} as sent, null when absent
 * @param chatTemplate a template in the request itself; vLLM refuses it unless told to trust requests
 * @param toolChoice as sent, null when absent
 */
public record ChatOptions(
    @Nullable Boolean addGenerationPrompt,
    @Nullable Boolean continueFinalMessage,
    @Nullable Boolean addSpecialTokens,
    @Nullable String reasoningEffort,
    Json.@Nullable Obj chatTemplateKwargs,
    Json.@Nullable Arr documents,
    @Nullable String chatTemplate,
    @Nullable Json toolChoice) {

  /** Nothing said: every default of vLLM applies. */
  public static final ChatOptions DEFAULTS =
      new ChatOptions(null, null, null, null, null, null, null, null);
}
