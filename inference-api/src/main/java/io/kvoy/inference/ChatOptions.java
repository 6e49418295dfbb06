// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Request fields that reach the chat template (vLLM 0.32 {@code
 * entrypoints/openai/chat_completion/protocol.py}).
 *
 * @param addGenerationPrompt null when the request does not say; vLLM's default is true
 * @param continueFinalMessage null when the request does not say; vLLM's default is false
 * @param addSpecialTokens null when the request does not say; vLLM's default is false for chat
 * @param reasoningEffort as sent, null when absent
 * @param chatTemplateKwargs {@code chat_template_kwargs} as sent, null when absent
 * @param documents {@code documents} as sent, null when absent
 * @param chatTemplate a template in the request itself; vLLM refuses it unless told to trust
 *     requests
 * @param toolChoice as sent, null when absent
 * @param source the API that the request was written for. It matters to a renderer in three places:
 *     for {@link ApiKind#MESSAGES} and {@link ApiKind#COUNT_TOKENS} vLLM moves every system message
 *     to the front, joined without separator, when the template refuses a system message further
 *     back, and turns the effort {@code none} into {@code low} when the template ignores {@code
 *     none} ({@code entrypoints/anthropic/serving.py}); for {@link ApiKind#RESPONSES} messages
 *     reach the template without the field order that the chat request's schema gives them ({@code
 *     entrypoints/openai/responses/utils.py})
 * @param responses the parts of a {@code /v1/responses} request as sent, for models whose prompt is
 *     made from them and not from a conversation (gpt-oss); null for every other API
 */
public record ChatOptions(
    @Nullable Boolean addGenerationPrompt,
    @Nullable Boolean continueFinalMessage,
    @Nullable Boolean addSpecialTokens,
    @Nullable String reasoningEffort,
    Json.@Nullable Obj chatTemplateKwargs,
    Json.@Nullable Arr documents,
    @Nullable String chatTemplate,
    @Nullable Json toolChoice,
    ApiKind source,
    @Nullable Responses responses) {

  /**
   * What a {@code /v1/responses} request says, unconverted.
   *
   * @param instructions {@code instructions} as sent, null when absent
   * @param input {@code input} as sent: a string or an array of items
   * @param tools {@code tools} as sent, empty when none
   */
  public record Responses(@Nullable String instructions, Json input, List<Json> tools) {
    public Responses {
      tools = List.copyOf(tools);
    }
  }

  /** Options of any API but the responses one. */
  public ChatOptions(
      @Nullable Boolean addGenerationPrompt,
      @Nullable Boolean continueFinalMessage,
      @Nullable Boolean addSpecialTokens,
      @Nullable String reasoningEffort,
      Json.@Nullable Obj chatTemplateKwargs,
      Json.@Nullable Arr documents,
      @Nullable String chatTemplate,
      @Nullable Json toolChoice,
      ApiKind source) {
    this(
        addGenerationPrompt,
        continueFinalMessage,
        addSpecialTokens,
        reasoningEffort,
        chatTemplateKwargs,
        documents,
        chatTemplate,
        toolChoice,
        source,
        null);
  }

  /** Options of a chat completion request. */
  public ChatOptions(
      @Nullable Boolean addGenerationPrompt,
      @Nullable Boolean continueFinalMessage,
      @Nullable Boolean addSpecialTokens,
      @Nullable String reasoningEffort,
      Json.@Nullable Obj chatTemplateKwargs,
      Json.@Nullable Arr documents,
      @Nullable String chatTemplate,
      @Nullable Json toolChoice) {
    this(
        addGenerationPrompt,
        continueFinalMessage,
        addSpecialTokens,
        reasoningEffort,
        chatTemplateKwargs,
        documents,
        chatTemplate,
        toolChoice,
        ApiKind.CHAT_COMPLETIONS);
  }

  /** Nothing said: every default of vLLM applies. */
  public static final ChatOptions DEFAULTS =
      new ChatOptions(null, null, null, null, null, null, null, null);
}
