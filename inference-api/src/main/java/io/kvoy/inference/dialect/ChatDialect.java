// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * {@code /v1/chat/completions} (vLLM 0.32 {@code entrypoints/openai/chat_completion/protocol.py}).
 * Messages and tools go through as sent; only what cannot be a text prompt is looked for.
 */
final class ChatDialect {
  private ChatDialect() {}

  static InferenceRequest read(Envelope envelope) {
    List<Json.Obj> messages = messages(envelope);
    List<Json> tools = tools(envelope);
    Boolean addGenerationPrompt = envelope.option("add_generation_prompt");
    Boolean continueFinalMessage = envelope.option("continue_final_message");
    if (Boolean.TRUE.equals(addGenerationPrompt) && Boolean.TRUE.equals(continueFinalMessage)) {
      envelope.doubt("generation_prompt_conflict");
    }
    ChatOptions options =
        new ChatOptions(
            addGenerationPrompt,
            continueFinalMessage,
            envelope.option("add_special_tokens"),
            envelope.stringOption(envelope.root(), "reasoning_effort"),
            envelope.objectOption(envelope.root(), "chat_template_kwargs"),
            documents(envelope),
            envelope.stringOption(envelope.root(), "chat_template"),
            envelope.get("tool_choice"),
            ApiKind.CHAT_COMPLETIONS);
    Prompt forwarded = envelope.forwardedTokens();
    return envelope.request(
        forwarded != null ? forwarded : new Prompt.Chat(messages, tools, options),
        StreamOptions.includeUsage(envelope),
        outputTokens(envelope),
        1,
        null);
  }

  /** {@code max_completion_tokens} wins over {@code max_tokens}, as in {@code build_tok_params}. */
  private static OptionalLong outputTokens(Envelope envelope) {
    return envelope.get("max_completion_tokens") != null
        ? envelope.outputTokens("max_completion_tokens")
        : envelope.outputTokens("max_tokens");
  }

  private static List<Json.Obj> messages(Envelope envelope) {
    List<Json.Obj> messages = new ArrayList<>();
    switch (envelope.get("messages")) {
      case null -> envelope.mistake("field messages is required", "missing_field");
      case Json.Arr(List<Json> items) -> {
        for (int i = 0; i < items.size(); i++) {
          if (items.get(i) instanceof Json.Obj message) {
            noteMessage(message, envelope);
            messages.add(message);
          } else {
            envelope.mistake("field messages[" + i + "] must be an object", "field_type");
          }
        }
        if (items.isEmpty()) {
          envelope.doubt("empty_messages");
        }
      }
      case Json _ -> envelope.mistake("field messages must be an array", "field_type");
    }
    return messages;
  }

  private static void noteMessage(Json.Obj message, Envelope envelope) {
    if (!(message.get("role") instanceof Json.Str)) {
      envelope.doubt("message_role");
    }
    message
        .fields()
        .forEach(
            (key, value) -> {
              switch (key) {
                case "content" -> ChatParts.note(value, envelope);
                case "role", "name", "tool_call_id" -> {}
                default -> envelope.textOf(value);
              }
            });
  }

  private static List<Json> tools(Envelope envelope) {
    return switch (envelope.get("tools")) {
      case null -> List.of();
      case Json.Arr(List<Json> items) -> {
        if (items.isEmpty()) {
          envelope.doubt("empty_tools");
        }
        for (Json tool : items) {
          noteTool(tool, envelope);
        }
        yield items;
      }
      case Json _ -> {
        envelope.doubt("option_type");
        yield List.of();
      }
    };
  }

  private static void noteTool(Json tool, Envelope envelope) {
    boolean function =
        tool instanceof Json.Obj object
            && object.get("function") instanceof Json.Obj definition
            && definition.get("name") instanceof Json.Str;
    if (!function) {
      envelope.doubt("tool_shape");
    }
    envelope.textOf(tool);
  }

  private static Json.@Nullable Arr documents(Envelope envelope) {
    Json value = envelope.get("documents");
    if (value == null) {
      return null;
    }
    if (value instanceof Json.Arr documents) {
      envelope.textOf(documents);
      return documents;
    }
    envelope.doubt("option_type");
    return null;
  }
}
