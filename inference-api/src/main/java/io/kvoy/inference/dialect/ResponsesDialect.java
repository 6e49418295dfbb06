// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.json.PythonJson;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/**
 * OpenAI {@code /v1/responses}, turned into the chat conversation that vLLM 0.32 makes of it
 * ({@code entrypoints/openai/responses/utils.py}).
 *
 * <ul>
 *   <li>{@code instructions} is a system message, a string {@code input} a user message;
 *   <li>reasoning, text and function calls of one assistant turn come as separate items and are
 *       gathered into one message;
 *   <li>of an assistant item only the first content part counts;
 *   <li>{@code function_call_output} is a tool message.
 * </ul>
 *
 * <p>A {@code previous_response_id} names state that only one worker holds: the prompt is not known
 * here.
 */
final class ResponsesDialect {
  private ResponsesDialect() {}

  static InferenceRequest read(Envelope envelope) {
    Json.Obj root = envelope.root();
    List<Json.Obj> messages = new ArrayList<>();
    String instructions = envelope.stringOption(root, "instructions");
    if (instructions != null && !instructions.isEmpty()) {
      messages.add(message("system", new Json.Str(envelope.text(instructions))));
    }
    boolean continueFinal = input(envelope, messages);
    List<Json> tools = tools(envelope);
    String previousResponseId = envelope.stringOption(root, "previous_response_id");
    if (previousResponseId != null) {
      envelope.doubt("previous_response_id");
    }
    if (envelope.get("previous_input_messages") != null) {
      envelope.doubt("previous_input_messages");
    }
    if (envelope.get("prompt") != null) {
      envelope.doubt("prompt_template");
    }
    Json.Obj reasoning = envelope.objectOption(root, "reasoning");
    ChatOptions options =
        new ChatOptions(
            !continueFinal,
            continueFinal,
            null,
            reasoning == null ? null : envelope.stringOption(reasoning, "effort"),
            envelope.objectOption(root, "chat_template_kwargs"),
            null,
            null,
            envelope.get("tool_choice"),
            ApiKind.RESPONSES,
            new ChatOptions.Responses(
                instructions,
                Objects.requireNonNullElse(envelope.get("input"), Json.Null.NULL),
                envelope.get("tools") instanceof Json.Arr(List<Json> sent) ? sent : List.of()));
    Prompt forwarded = envelope.forwardedTokens();
    return envelope.request(
        forwarded != null ? forwarded : new Prompt.Chat(messages, tools, options),
        true,
        envelope.outputTokens("max_output_tokens"),
        1,
        previousResponseId);
  }

  /** Adds the input's messages; whether the last one is to be continued. */
  private static boolean input(Envelope envelope, List<Json.Obj> out) {
    switch (envelope.get("input")) {
      case null -> envelope.mistake("field input is required", "missing_field");
      case Json.Str(String text) -> out.add(message("user", new Json.Str(envelope.text(text))));
      case Json.Arr(List<Json> items) -> {
        Items converted = new Items(envelope);
        for (int i = 0; i < items.size(); i++) {
          if (items.get(i) instanceof Json.Obj item) {
            converted.add(item);
          } else {
            envelope.mistake("field input[" + i + "] must be an object", "field_type");
          }
        }
        if (items.isEmpty()) {
          envelope.doubt("empty_messages");
        }
        converted.messages.forEach(fields -> out.add(new Json.Obj(fields)));
        return !items.isEmpty() && items.getLast() instanceof Json.Obj last && isPartial(last);
      }
      case Json _ -> envelope.mistake("field input must be a string or an array", "field_type");
    }
    return false;
  }

  private static boolean isPartial(Json.Obj item) {
    String type = text(item, "type");
    String status = text(item, "status");
    return (type == null || type.equals("message") || type.equals("reasoning"))
        && ("in_progress".equals(status) || "incomplete".equals(status));
  }

  /**
   * Items gathered into messages; an assistant message stays open for what the next item adds to
   * it.
   */
  private static final class Items {
    private final Envelope envelope;
    private final List<SequencedMap<String, Json>> messages = new ArrayList<>();

    Items(Envelope envelope) {
      this.envelope = envelope;
    }

    void add(Json.Obj item) {
      String type = text(item, "type");
      switch (type == null ? "message" : type) {
        case "message" -> message(item);
        case "function_call" -> functionCall(item);
        case "custom_tool_call" -> customToolCall(item);
        case "function_call_output", "custom_tool_call_output" -> toolOutput(item);
        case "reasoning" -> reasoning(item);
        default -> envelope.doubt("unknown_item");
      }
    }

    private void message(Json.Obj item) {
      String role = text(item, "role");
      if (role == null) {
        envelope.doubt("message_role");
        return;
      }
      Json content = item.get("content");
      if (role.equals("assistant")) {
        assistant(content);
        return;
      }
      SequencedMap<String, Json> message = new LinkedHashMap<>();
      message.put("role", new Json.Str(role));
      if (content != null) {
        ChatParts.note(content, envelope);
        message.put("content", content);
      } else {
        envelope.doubt("content_type");
      }
      messages.add(message);
    }

    private void assistant(@Nullable Json content) {
      Json text =
          content instanceof Json.Arr(List<Json> parts) && !parts.isEmpty()
              ? (parts.getFirst() instanceof Json.Obj part ? part.get("text") : null)
              : content;
      if (text instanceof Json.Str(String words)) {
        envelope.text(words);
        gather("content", text);
      } else {
        envelope.doubt("content_type");
      }
    }

    private void functionCall(Json.Obj item) {
      String id = text(item, "call_id");
      String name = text(item, "name");
      String arguments = text(item, "arguments");
      if (id == null || name == null || arguments == null) {
        envelope.doubt("item_shape");
        return;
      }
      String namespace = text(item, "namespace");
      toolCall(id, flatName(namespace == null ? "" : namespace, name), arguments);
    }

    private void customToolCall(Json.Obj item) {
      String id = text(item, "call_id");
      String name = text(item, "name");
      String input = text(item, "input");
      if (id == null || name == null || input == null) {
        envelope.doubt("item_shape");
        return;
      }
      Json.Obj shim = Json.Obj.of(Map.of("input", new Json.Str(input)));
      toolCall(id, name, PythonJson.dumps(shim, PythonJson.Style.UNICODE));
    }

    private void toolCall(String id, String name, String arguments) {
      SequencedMap<String, Json> function = new LinkedHashMap<>();
      function.put("name", new Json.Str(envelope.text(name)));
      function.put("arguments", new Json.Str(envelope.text(arguments)));
      SequencedMap<String, Json> call = new LinkedHashMap<>();
      call.put("id", new Json.Str(id));
      call.put("function", new Json.Obj(function));
      call.put("type", new Json.Str("function"));
      SequencedMap<String, Json> open = openAssistant();
      if (open == null) {
        open = new LinkedHashMap<>();
        open.put("role", new Json.Str("assistant"));
        messages.add(open);
      }
      List<Json> calls = new ArrayList<>();
      if (open.get("tool_calls") instanceof Json.Arr(List<Json> earlier)) {
        calls.addAll(earlier);
      }
      calls.add(new Json.Obj(call));
      open.put("tool_calls", new Json.Arr(calls));
    }

    private void toolOutput(Json.Obj item) {
      Json output = item.get("output");
      Json id = item.get("call_id");
      if (output == null || !(id instanceof Json.Str)) {
        envelope.doubt("item_shape");
        return;
      }
      ChatParts.note(output, envelope);
      SequencedMap<String, Json> message = new LinkedHashMap<>();
      message.put("role", new Json.Str("tool"));
      message.put("content", output);
      message.put("tool_call_id", id);
      messages.add(message);
    }

    private void reasoning(Json.Obj item) {
      if (Envelope.present(item, "encrypted_content") != null) {
        envelope.doubt("encrypted_reasoning");
        return;
      }
      Json thought = firstText(item, "content");
      if (thought == null) {
        thought = firstText(item, "summary");
      }
      if (!(item.get("summary") instanceof Json.Arr)) {
        envelope.doubt("item_shape");
      }
      Json text = thought == null ? new Json.Str("") : thought;
      envelope.textOf(text);
      gather("reasoning", text);
    }

    private @Nullable Json firstText(Json.Obj item, String field) {
      Json value = Envelope.present(item, field);
      if (value == null) {
        return null;
      }
      if (value instanceof Json.Arr(List<Json> parts)) {
        if (parts.isEmpty()) {
          return null;
        }
        if (parts.getFirst() instanceof Json.Obj part && part.get("text") instanceof Json.Str s) {
          return s;
        }
      }
      envelope.doubt("item_shape");
      return null;
    }

    /**
     * Puts the value into the assistant message that is still open and lacks it, else begins a new
     * one.
     */
    private void gather(String field, Json value) {
      SequencedMap<String, Json> open = openAssistant();
      if (open == null || open.containsKey(field)) {
        open = new LinkedHashMap<>();
        open.put("role", new Json.Str("assistant"));
        messages.add(open);
      }
      open.put(field, value);
    }

    private @Nullable SequencedMap<String, Json> openAssistant() {
      if (messages.isEmpty()) {
        return null;
      }
      SequencedMap<String, Json> last = messages.getLast();
      return last.get("role") instanceof Json.Str(String role) && role.equals("assistant")
          ? last
          : null;
    }
  }

  private static List<Json> tools(Envelope envelope) {
    List<Json> tools = new ArrayList<>();
    switch (envelope.get("tools")) {
      case null -> {}
      case Json.Arr(List<Json> items) -> items.forEach(item -> tool(item, "", envelope, tools));
      case Json _ -> envelope.doubt("option_type");
    }
    return tools;
  }

  private static void tool(Json item, String namespace, Envelope envelope, List<Json> out) {
    if (!(item instanceof Json.Obj tool)) {
      envelope.doubt("tool_shape");
      return;
    }
    String type = text(tool, "type");
    String name = text(tool, "name");
    switch (type == null ? "" : type) {
      case "function" -> {
        if (name == null) {
          envelope.doubt("tool_shape");
          return;
        }
        Json.Str shown = new Json.Str(flatName(namespace, name));
        Json.Obj function = FunctionTools.of(tool, shown, tool.get("parameters"));
        envelope.textOf(function);
        out.add(function);
      }
      case "namespace" -> {
        if (name == null || !(tool.get("tools") instanceof Json.Arr(List<Json> inner))) {
          envelope.doubt("tool_shape");
          return;
        }
        for (Json one : inner) {
          if (one instanceof Json.Obj object && "function".equals(text(object, "type"))) {
            tool(one, name, envelope, out);
          }
        }
      }
      case "custom" -> {
        boolean grammar =
            tool.get("format") instanceof Json.Obj format && "grammar".equals(text(format, "type"));
        if (name == null || grammar) {
          envelope.doubt("tool_shape");
          return;
        }
        Json.Obj function = FunctionTools.ofFreeText(tool, new Json.Str(name));
        envelope.textOf(function);
        out.add(function);
      }
      // Run by the worker itself, in several turns, or shown to the model in a form of the worker's
      // own.
      default -> envelope.doubt("hosted_tool");
    }
  }

  /** {@code flat_namespace_tool_name} in vLLM 0.32 {@code tool_parsers/utils.py}. */
  private static String flatName(String namespace, String name) {
    return namespace.isEmpty() ? name : namespace + "__" + name;
  }

  private static Json.Obj message(String role, Json content) {
    SequencedMap<String, Json> message = new LinkedHashMap<>();
    message.put("role", new Json.Str(role));
    message.put("content", content);
    return new Json.Obj(message);
  }

  private static @Nullable String text(Json.Obj item, String field) {
    return item.get(field) instanceof Json.Str(String value) ? value : null;
  }
}
