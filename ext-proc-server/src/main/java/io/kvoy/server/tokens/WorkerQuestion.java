// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.json.JsonWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/**
 * A request as vLLM's {@code POST /tokenize} wants it (0.32 {@code
 * entrypoints/serve/tokenize/protocol.py}), one body per prompt.
 *
 * <p>That endpoint knows neither {@code documents} nor {@code reasoning_effort}; both reach the
 * template as arguments of it, so they are put among {@code chat_template_kwargs}, the way the chat
 * endpoint does it.
 */
final class WorkerQuestion {
  private WorkerQuestion() {}

  /** The bodies to send; empty when the endpoint cannot be asked about this request. */
  static List<byte[]> bodies(InferenceRequest request) {
    return switch (request.prompt()) {
      case Prompt.Chat chat when isPlain(request, chat) ->
          List.of(JsonWriter.bytes(chat(request.model(), chat)));
      case Prompt.Texts(List<String> texts, boolean addSpecialTokens) -> {
        List<byte[]> bodies = new ArrayList<>(texts.size());
        for (String text : texts) {
          bodies.add(JsonWriter.bytes(text(request.model(), text, addSpecialTokens)));
        }
        yield bodies;
      }
      case Prompt.Chat _, Prompt.Tokens _, Prompt.Unreadable _ -> List.of();
    };
  }

  /**
   * Requests of other APIs are converted by the worker in ways that this endpoint does not know.
   */
  private static boolean isPlain(InferenceRequest request, Prompt.Chat chat) {
    return request.api() == ApiKind.CHAT_COMPLETIONS && chat.options().chatTemplate() == null;
  }

  private static Json.Obj text(String model, String text, boolean addSpecialTokens) {
    SequencedMap<String, Json> body = new LinkedHashMap<>();
    body.put("model", new Json.Str(model));
    body.put("prompt", new Json.Str(text));
    body.put("add_special_tokens", new Json.Bool(addSpecialTokens));
    return new Json.Obj(body);
  }

  private static Json.Obj chat(String model, Prompt.Chat chat) {
    ChatOptions options = chat.options();
    SequencedMap<String, Json> body = new LinkedHashMap<>();
    body.put("model", new Json.Str(model));
    body.put("messages", new Json.Arr(List.copyOf(chat.messages())));
    if (!chat.tools().isEmpty()) {
      body.put("tools", new Json.Arr(chat.tools()));
    }
    flag(body, "add_generation_prompt", options.addGenerationPrompt());
    flag(body, "continue_final_message", options.continueFinalMessage());
    flag(body, "add_special_tokens", options.addSpecialTokens());
    Json.Obj kwargs = kwargs(options);
    if (!kwargs.fields().isEmpty()) {
      body.put("chat_template_kwargs", kwargs);
    }
    return new Json.Obj(body);
  }

  private static void flag(SequencedMap<String, Json> body, String name, @Nullable Boolean value) {
    if (value != null) {
      body.put(name, new Json.Bool(value));
    }
  }

  /** vLLM 0.32 {@code openai/chat_completion/protocol.py} build_chat_params. */
  private static Json.Obj kwargs(ChatOptions options) {
    SequencedMap<String, Json> kwargs = new LinkedHashMap<>();
    if (options.chatTemplateKwargs() != null) {
      kwargs.putAll(options.chatTemplateKwargs().fields());
    }
    if (options.documents() != null) {
      kwargs.put("documents", options.documents());
    }
    String effort = options.reasoningEffort();
    if (effort != null) {
      kwargs.put("reasoning_effort", new Json.Str(effort));
      kwargs.putIfAbsent("enable_thinking", new Json.Bool(!effort.equals("none")));
    }
    return new Json.Obj(kwargs);
  }
}
