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
import java.util.OptionalLong;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/**
 * Anthropic {@code /v1/messages} and {@code /v1/messages/count_tokens}, turned into the chat
 * conversation that vLLM 0.32 makes of them ({@code entrypoints/anthropic/serving.py}).
 *
 * <ul>
 *   <li>system texts are joined without a separator; a block that starts with Claude Code's billing
 *       header is left out;
 *   <li>one text block is a string, several stay parts;
 *   <li>{@code thinking} blocks become {@code reasoning}, {@code tool_use} blocks {@code
 *       tool_calls} with arguments as {@code json.dumps} text;
 *   <li>a {@code tool_result} becomes a tool message in front of the user's own text, its texts
 *       joined by a line break;
 *   <li>{@code output_config.effort}, or {@code none} for disabled thinking, becomes the reasoning
 *       effort.
 * </ul>
 *
 * <p>System messages further back stay where they are; whether they move to the front depends on
 * the template, see {@link ChatOptions#source()}.
 */
final class MessagesDialect {
  /** Claude Code's attribution line, different in each request. */
  private static final String BILLING_HEADER = "x-anthropic-billing-header";

  private MessagesDialect() {}

  static InferenceRequest read(Envelope envelope) {
    List<Json.Obj> messages = new ArrayList<>();
    system(envelope, messages);
    messages(envelope, messages);
    List<Json> tools = tools(envelope);
    ChatOptions options =
        new ChatOptions(
            null,
            null,
            null,
            reasoningEffort(envelope),
            envelope.objectOption(envelope.root(), "chat_template_kwargs"),
            null,
            null,
            toolChoice(envelope, envelope.get("tools") != null),
            envelope.api());
    Prompt prompt = new Prompt.Chat(messages, tools, options);
    if (envelope.api() == ApiKind.COUNT_TOKENS) {
      return envelope.request(prompt, true, OptionalLong.empty(), 1, null);
    }
    Prompt forwarded = envelope.forwardedTokens();
    return envelope.request(
        forwarded != null ? forwarded : prompt, true, envelope.outputTokens("max_tokens"), 1, null);
  }

  private static void system(Envelope envelope, List<Json.Obj> out) {
    Json system = envelope.get("system");
    if (system == null) {
      return;
    }
    // A billing header in a plain string stays here; the chat normalisation that follows removes
    // its line.
    String text =
        system instanceof Json.Str(String s) ? envelope.text(s) : systemBlocks(system, envelope);
    if (!text.isEmpty()) {
      out.add(message("system", text));
    }
  }

  private static String systemBlocks(Json content, Envelope envelope) {
    if (!(content instanceof Json.Arr(List<Json> blocks))) {
      envelope.doubt("content_type");
      return "";
    }
    StringBuilder joined = new StringBuilder();
    for (Json block : blocks) {
      switch (block instanceof Json.Obj object ? typeOf(object) : "") {
        case "text" -> {
          if (((Json.Obj) block).get("text") instanceof Json.Str(String text)
              && !text.startsWith(BILLING_HEADER)) {
            joined.append(envelope.text(text));
          }
        }
        // Legal in a system message and without effect on it.
        case "image",
            "thinking",
            "redacted_thinking",
            "tool_use",
            "tool_result",
            "tool_reference" -> {}
        // Among others tool_addition and tool_removal, which change the tools.
        default -> envelope.doubt("unknown_block");
      }
    }
    return joined.toString();
  }

  private static void messages(Envelope envelope, List<Json.Obj> out) {
    switch (envelope.get("messages")) {
      case null -> envelope.mistake("field messages is required", "missing_field");
      case Json.Arr(List<Json> items) -> {
        for (int i = 0; i < items.size(); i++) {
          if (items.get(i) instanceof Json.Obj message) {
            convert(message, envelope, out);
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
  }

  private static void convert(Json.Obj message, Envelope envelope, List<Json.Obj> out) {
    String role = message.get("role") instanceof Json.Str(String r) ? r : "";
    Json content = Envelope.present(message, "content");
    switch (role) {
      case "system" -> {
        String text =
            content instanceof Json.Str(String s)
                ? (s.startsWith(BILLING_HEADER) ? "" : envelope.text(s))
                : content == null ? doubtfulText(envelope) : systemBlocks(content, envelope);
        if (!text.isEmpty()) {
          out.add(message("system", text));
        }
      }
      case "user", "assistant" -> {
        switch (content) {
          case Json.Str(String text) -> out.add(message(role, envelope.text(text)));
          case Json.Arr(List<Json> blocks) -> new Blocks(role, envelope, out).convert(blocks);
          case null -> envelope.doubt("content_type");
          case Json _ -> envelope.doubt("content_type");
        }
      }
      default -> envelope.doubt("message_role");
    }
  }

  private static String doubtfulText(Envelope envelope) {
    envelope.doubt("content_type");
    return "";
  }

  /** The content blocks of one user or assistant message. */
  private static final class Blocks {
    private final String role;
    private final Envelope envelope;
    private final List<Json.Obj> out;
    private final List<Json> parts = new ArrayList<>();
    private final List<Json> toolCalls = new ArrayList<>();
    private @Nullable StringBuilder reasoning;

    Blocks(String role, Envelope envelope, List<Json.Obj> out) {
      this.role = role;
      this.envelope = envelope;
      this.out = out;
    }

    void convert(List<Json> blocks) {
      for (Json block : blocks) {
        if (block instanceof Json.Obj object) {
          convert(object);
        } else {
          envelope.doubt("unknown_block");
        }
      }
      SequencedMap<String, Json> message = new LinkedHashMap<>();
      message.put("role", new Json.Str(role));
      if (reasoning != null) {
        message.put("reasoning", new Json.Str(reasoning.toString()));
      }
      if (!toolCalls.isEmpty()) {
        message.put("tool_calls", new Json.Arr(toolCalls));
      }
      if (parts.size() == 1
          && parts.getFirst() instanceof Json.Obj only
          && only.get("text") instanceof Json.Str text) {
        message.put("content", text);
      } else if (!parts.isEmpty()) {
        message.put("content", new Json.Arr(parts));
      }
      // A user message of tool results alone has nothing left to say.
      if (!role.equals("user") || !parts.isEmpty()) {
        out.add(new Json.Obj(message));
      }
    }

    private void convert(Json.Obj block) {
      switch (typeOf(block)) {
        case "text" -> {
          if (block.get("text") instanceof Json.Str(String text) && !text.isEmpty()) {
            parts.add(textPart(envelope.text(text)));
          }
        }
        case "thinking" -> {
          if (block.get("thinking") instanceof Json.Str(String thought)) {
            reasoning = reasoning == null ? new StringBuilder() : reasoning;
            reasoning.append(envelope.text(thought));
          }
        }
        // Opaque to everyone but its maker; the worker leaves it out too.
        case "redacted_thinking" -> {}
        case "tool_use" -> toolUse(block);
        case "tool_result" -> toolResult(block);
        case "image" -> media("image_part", block);
        case "document" -> media("file_part", block);
        case "tool_reference" -> envelope.doubt("tool_reference");
        default -> envelope.doubt("unknown_block");
      }
    }

    /** Stays among the parts, so that it is seen how far the text goes. */
    private void media(String reason, Json.Obj block) {
      envelope.media(reason);
      parts.add(block);
    }

    private void toolUse(Json.Obj block) {
      String id = block.get("id") instanceof Json.Str(String s) ? s : "";
      if (id.isEmpty()) {
        // The worker makes up an id from its clock.
        envelope.doubt("tool_use_without_id");
      }
      Json input = Envelope.present(block, "input");
      if (input != null && !(input instanceof Json.Obj)) {
        envelope.doubt("block_type");
      }
      Json arguments = input == null ? Json.Obj.of(Map.of()) : input;
      SequencedMap<String, Json> function = new LinkedHashMap<>();
      function.put("name", block.get("name") instanceof Json.Str name ? name : new Json.Str(""));
      function.put("arguments", new Json.Str(envelope.text(PythonJson.dumps(arguments))));
      SequencedMap<String, Json> call = new LinkedHashMap<>();
      call.put("id", new Json.Str(id));
      call.put("type", new Json.Str("function"));
      call.put("function", new Json.Obj(function));
      toolCalls.add(new Json.Obj(call));
    }

    private void toolResult(Json.Obj block) {
      Json content = Envelope.present(block, "content");
      if (!role.equals("user")) {
        // The worker writes str(content): Python's repr for anything but a string.
        String text = content instanceof Json.Str(String s) ? s : "";
        if (content != null && !(content instanceof Json.Str)) {
          envelope.doubt("tool_result_role");
        }
        parts.add(textPart(envelope.text("Tool result: " + text)));
        return;
      }
      SequencedMap<String, Json> message = new LinkedHashMap<>();
      message.put("role", new Json.Str("tool"));
      message.put(
          "tool_call_id", block.get("tool_use_id") instanceof Json.Str id ? id : new Json.Str(""));
      message.put("content", new Json.Str(envelope.text(toolResultText(content))));
      out.add(new Json.Obj(message));
    }

    private String toolResultText(@Nullable Json content) {
      return switch (content) {
        case null -> "";
        case Json.Str(String text) -> text;
        case Json.Arr(List<Json> items) -> {
          List<String> texts = new ArrayList<>();
          for (Json item : items) {
            if (item instanceof Json.Obj object) {
              addResultText(object, texts);
            } else {
              envelope.doubt("unknown_block");
            }
          }
          yield String.join("\n", texts);
        }
        case Json _ -> {
          envelope.doubt("content_type");
          yield "";
        }
      };
    }

    private void addResultText(Json.Obj item, List<String> texts) {
      switch (typeOf(item)) {
        case "text" -> {
          switch (item.get("text")) {
            case null -> texts.add("");
            case Json.Str(String text) -> texts.add(text);
            case Json _ -> envelope.doubt("block_type");
          }
        }
        case "image" -> envelope.doubt("image_part");
        case "tool_reference" -> envelope.doubt("tool_reference");
        // The worker skips what it does not know inside a result; a later one may know it.
        default -> envelope.doubt("unknown_block");
      }
    }
  }

  private static List<Json> tools(Envelope envelope) {
    List<Json> tools = new ArrayList<>();
    switch (envelope.get("tools")) {
      case null -> {}
      case Json.Arr(List<Json> items) -> {
        for (Json item : items) {
          Json.Obj tool = item instanceof Json.Obj object ? tool(object) : null;
          if (tool == null) {
            envelope.doubt("tool_shape");
          } else {
            envelope.textOf(tool);
            tools.add(tool);
          }
        }
      }
      case Json _ -> envelope.doubt("option_type");
    }
    return tools;
  }

  private static Json.@Nullable Obj tool(Json.Obj tool) {
    if (!(tool.get("name") instanceof Json.Str name)
        || !(tool.get("input_schema") instanceof Json.Obj schema)) {
      return null;
    }
    SequencedMap<String, Json> parameters = new LinkedHashMap<>(schema.fields());
    parameters.putIfAbsent("type", new Json.Str("object"));
    return FunctionTools.of(tool, name, new Json.Obj(parameters));
  }

  private static @Nullable String reasoningEffort(Envelope envelope) {
    Json.Obj thinking = envelope.objectOption(envelope.root(), "thinking");
    if (thinking != null && "disabled".equals(typeOf(thinking))) {
      return "none";
    }
    Json.Obj output = envelope.objectOption(envelope.root(), "output_config");
    return output == null ? null : envelope.stringOption(output, "effort");
  }

  private static @Nullable Json toolChoice(Envelope envelope, boolean hasTools) {
    Json.Obj choice = envelope.objectOption(envelope.root(), "tool_choice");
    if (choice == null) {
      return hasTools ? new Json.Str("auto") : null;
    }
    return switch (typeOf(choice)) {
      case "auto" -> new Json.Str("auto");
      case "any" -> new Json.Str("required");
      case "none" -> new Json.Str("none");
      case "tool" -> {
        Json name = choice.get("name");
        yield Json.Obj.of(
            Map.of(
                "type",
                new Json.Str("function"),
                "function",
                Json.Obj.of(Map.of("name", name == null ? Json.Null.NULL : name))));
      }
      default -> {
        envelope.doubt("option_type");
        yield null;
      }
    };
  }

  private static String typeOf(Json.Obj object) {
    return object.get("type") instanceof Json.Str(String type) ? type : "";
  }

  private static Json.Obj textPart(String text) {
    SequencedMap<String, Json> part = new LinkedHashMap<>();
    part.put("type", new Json.Str("text"));
    part.put("text", new Json.Str(text));
    return new Json.Obj(part);
  }

  private static Json.Obj message(String role, String content) {
    SequencedMap<String, Json> message = new LinkedHashMap<>();
    message.put("role", new Json.Str(role));
    message.put("content", new Json.Str(content));
    return new Json.Obj(message);
  }
}
