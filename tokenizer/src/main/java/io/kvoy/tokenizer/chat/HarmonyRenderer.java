// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.chat.HarmonyResult.Segment;
import java.time.Clock;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Renders conversations the way vLLM 0.32 does for gpt-oss, which has no chat template there:
 * messages become Harmony messages ({@code vllm/entrypoints/openai/parser/harmony_utils.py}), those
 * become tokens (oss-harmony 0.0.11).
 *
 * <p>A prompt is a system message of fixed wording with the date in it, a developer message with
 * the first system or developer message's text and the tools, then the conversation, then the start
 * of the assistant's answer. Reasoning of turns before the last answer is left out. Template
 * variables, documents and {@code add_generation_prompt} have no effect.
 *
 * <p>Immutable and thread-safe; called on CPU threads of the routing pipeline. Never throws for any
 * request.
 */
public final class HarmonyRenderer {
  private static final Segment START = new Segment.Marker("<|start|>");
  private static final Segment CHANNEL = new Segment.Marker("<|channel|>");
  private static final Segment MESSAGE = new Segment.Marker("<|message|>");
  private static final Segment END = new Segment.Marker("<|end|>");
  private static final Segment CALL = new Segment.Marker("<|call|>");

  private final boolean excludeToolsWhenToolChoiceNone;
  private final Clock clock;

  /**
   * @param excludeToolsWhenToolChoiceNone the worker's {@code
   *     --exclude-tools-when-tool-choice-none}
   * @param clock date and zone of the workers; their prompts hold the date of the day, unless they
   *     are started with {@code VLLM_SYSTEM_START_DATE}, which a fixed clock stands for
   */
  public HarmonyRenderer(boolean excludeToolsWhenToolChoiceNone, Clock clock) {
    this.excludeToolsWhenToolChoiceNone = excludeToolsWhenToolChoiceNone;
    this.clock = clock;
  }

  /**
   * A Harmony message.
   *
   * @param author the role, or a tool's name
   * @param recipient as it stands in the header, null without one
   * @param channel null without one
   * @param isCall whether this is a tool call: recipient in front of the channel, arguments marked
   *     as JSON
   */
  private record Message(
      String author,
      @Nullable String recipient,
      @Nullable String channel,
      boolean isCall,
      List<String> contents) {

    static Message of(String author, @Nullable String channel, List<String> contents) {
      return new Message(author, null, channel, false, contents);
    }

    boolean isOn(String name) {
      return name.equals(channel);
    }

    void render(List<Segment> out) {
      out.add(START);
      out.add(new Segment.Text(isCall ? author + " to=" + recipient : author));
      if (channel != null) {
        String header = channel;
        if (isCall) {
          header += " json";
        } else if (recipient != null) {
          header += " to=" + recipient;
        }
        out.add(CHANNEL);
        out.add(new Segment.Text(header));
      }
      out.add(MESSAGE);
      for (String content : contents) {
        if (!content.isEmpty()) {
          out.add(new Segment.Text(content));
        }
      }
      out.add(isCall ? CALL : END);
    }
  }

  /** The worker's prompt for this conversation. */
  public HarmonyResult render(Prompt.Chat chat) {
    try {
      List<Segment> segments = new ArrayList<>();
      ChatOptions.Responses responses = chat.options().responses();
      for (Message message : responses == null ? messages(chat) : messages(responses, chat)) {
        message.render(segments);
      }
      segments.add(START);
      segments.add(new Segment.Text("assistant"));
      return new HarmonyResult.Rendered(segments);
    } catch (ChatNormalizer.Stop stop) {
      return stop.isRefused()
          ? new HarmonyResult.Refused(stop.reason())
          : new HarmonyResult.Unsupported(stop.reason());
    }
  }

  private List<Message> messages(Prompt.Chat chat) throws ChatNormalizer.Stop {
    ChatOptions options = chat.options();
    List<Json.Obj> rest = chat.messages();
    String effort = options.reasoningEffort();
    if (ChatRenderer.isAnthropic(options)) {
      // No word for no thinking here, and no template that would take a late system message.
      rest = ChatNormalizer.systemMessagesMerged(rest);
      effort = "none".equals(effort) ? "low" : effort;
    }
    String instructions = null;
    if (!rest.isEmpty() && isInstruction(rest.getFirst())) {
      instructions = flatText(rest.getFirst().get("content"));
      rest = rest.subList(1, rest.size());
    }
    boolean excluded =
        excludeToolsWhenToolChoiceNone
            && options.toolChoice() instanceof Json.Str(String choice)
            && choice.equals("none");
    List<Json> tools = excluded ? List.of() : chat.tools();
    List<Message> messages = new ArrayList<>();
    messages.add(system(effort, !tools.isEmpty()));
    if ((instructions != null && !instructions.isEmpty()) || !tools.isEmpty()) {
      messages.add(developer(instructions, tools));
    }
    Map<String, String> toolNames = toolNames(rest);
    for (Json.Obj message : rest) {
      add(message, toolNames, messages);
    }
    return withoutOldReasoning(messages);
  }

  /**
   * The responses API has a way of its own from items to messages ({@code
   * vllm/entrypoints/openai/responses/harmony.py} response_input_to_harmony).
   */
  private static List<Message> itemsAsMessages(List<Json> items) throws ChatNormalizer.Stop {
    List<Message> messages = new ArrayList<>();
    Map<String, String> toolNames = new HashMap<>();
    for (Json one : items) {
      if (!(one instanceof Json.Obj item)) {
        throw ChatNormalizer.Stop.unsupported("item_shape");
      }
      Json type = item.get("type");
      switch (type == null ? "message" : String.valueOf(type.asString())) {
        case "message" -> addItem(item, messages);
        case "reasoning" -> {
          String thought = joinedTexts(item.get("content"));
          if (thought != null) {
            messages.add(Message.of("assistant", "analysis", List.of(thought)));
          }
        }
        case "function_call" -> {
          String name = text(item, "name");
          toolNames.put(text(item, "call_id"), name);
          messages.add(
              new Message(
                  "assistant",
                  "functions." + name,
                  "commentary",
                  true,
                  List.of(text(item, "arguments"))));
        }
        case "function_call_output" -> {
          String name = toolNames.get(text(item, "call_id"));
          if (name == null) {
            throw ChatNormalizer.Stop.refused("No call message found");
          }
          messages.add(
              new Message(
                  "functions." + name,
                  "assistant",
                  "commentary",
                  false,
                  List.of(text(item, "output"))));
        }
        default -> throw ChatNormalizer.Stop.unsupported("item_type");
      }
    }
    return messages;
  }

  private static void addItem(Json.Obj item, List<Message> out) throws ChatNormalizer.Stop {
    Json content = item.get("content");
    String role = text(item, "role");
    switch (role) {
      case "system", "developer" -> {
        String instructions = flatText(content);
        if (instructions != null && !instructions.isEmpty()) {
          out.add(developer(instructions, List.of()));
        }
      }
      case "user" -> out.add(Message.of("user", null, texts(content)));
      case "assistant" -> out.add(Message.of("assistant", "final", texts(content)));
      default -> throw ChatNormalizer.Stop.unsupported("harmony_role");
    }
  }

  private static String text(Json.Obj item, String field) throws ChatNormalizer.Stop {
    if (item.get(field) instanceof Json.Str(String text)) {
      return text;
    }
    throw ChatNormalizer.Stop.unsupported("item_shape");
  }

  /** The texts of a reasoning item in one, null without any. */
  private static @Nullable String joinedTexts(@Nullable Json content) throws ChatNormalizer.Stop {
    if (content == null || content == Json.Null.NULL) {
      return null;
    }
    if (!(content instanceof Json.Arr(var parts))) {
      throw ChatNormalizer.Stop.unsupported("item_shape");
    }
    List<String> texts = new ArrayList<>(parts.size());
    for (Json part : parts) {
      if (!(part instanceof Json.Obj object)) {
        throw ChatNormalizer.Stop.unsupported("item_shape");
      }
      texts.add(text(object, "text"));
    }
    return texts.isEmpty() ? null : String.join("\n", texts);
  }

  private List<Message> messages(ChatOptions.Responses request, Prompt.Chat chat)
      throws ChatNormalizer.Stop {
    List<Json> tools = chat.tools();
    for (Json tool : request.tools()) {
      if (!(tool instanceof Json.Obj object) || !text(object, "type").equals("function")) {
        throw ChatNormalizer.Stop.unsupported("harmony_tool");
      }
    }
    String instructions = request.instructions();
    List<Json> items;
    if (request.input() instanceof Json.Arr(var given)) {
      items = given;
      if (instructions == null
          && !items.isEmpty()
          && items.getFirst() instanceof Json.Obj first
          && isInstruction(first)) {
        instructions = flatText(first.get("content"));
        items = items.subList(1, items.size());
      }
    } else {
      items = List.of();
    }
    List<Message> messages = new ArrayList<>();
    messages.add(system(chat.options().reasoningEffort(), !tools.isEmpty()));
    if ((instructions != null && !instructions.isEmpty()) || !tools.isEmpty()) {
      messages.add(developer(instructions, tools));
    }
    if (request.input() instanceof Json.Str(String text)) {
      messages.add(Message.of("user", null, List.of(text)));
    }
    messages.addAll(itemsAsMessages(items));
    return withoutOldReasoning(messages);
  }

  private static boolean isInstruction(Json.Obj message) {
    return ChatNormalizer.hasRole(message, "system")
        || ChatNormalizer.hasRole(message, "developer");
  }

  private Message system(@Nullable String effort, boolean hasTools) throws ChatNormalizer.Stop {
    if (effort != null
        && !effort.equals("low")
        && !effort.equals("medium")
        && !effort.equals("high")) {
      throw ChatNormalizer.Stop.refused(
          effort.equals("none")
              ? "Harmony does not support reasoning_effort='none'"
              : "reasoning_effort='"
                  + effort
                  + "' is not supported by Harmony. Supported values are: high, medium, low.");
    }
    String text =
        "You are ChatGPT, a large language model trained by OpenAI.\n"
            + "Knowledge cutoff: 2024-06\n"
            + "Current date: "
            + LocalDate.now(clock)
            + "\n\nReasoning: "
            + (effort == null ? "medium" : effort)
            + "\n\n# Valid channels: analysis, commentary, final."
            + " Channel must be included for every message."
            + (hasTools
                ? "\nCalls to these tools must go to the commentary channel: 'functions'."
                : "");
    return Message.of("system", null, List.of(text));
  }

  private static Message developer(@Nullable String instructions, List<Json> tools)
      throws ChatNormalizer.Stop {
    StringBuilder text = new StringBuilder();
    if (instructions != null) {
      text.append("# Instructions\n\n").append(instructions);
    }
    if (!tools.isEmpty()) {
      text.append(text.isEmpty() ? "" : "\n\n");
      HarmonyTools.write(ChatNormalizer.tools(tools), text);
    }
    return Message.of("developer", null, List.of(text.toString()));
  }

  private static Map<String, String> toolNames(List<Json.Obj> messages) {
    Map<String, String> names = new HashMap<>();
    for (Json.Obj message : messages) {
      if (message.get("tool_calls") instanceof Json.Arr(var calls)) {
        for (Json item : calls) {
          if (item instanceof Json.Obj call
              && call.get("id") instanceof Json.Str(String id)
              && call.get("function") instanceof Json.Obj function
              && function.get("name") instanceof Json.Str(String name)) {
            names.put(id, name);
          }
        }
      }
    }
    return names;
  }

  private static void add(Json.Obj message, Map<String, String> toolNames, List<Message> out)
      throws ChatNormalizer.Stop {
    if (!(message.get("role") instanceof Json.Str(String role))) {
      throw ChatNormalizer.Stop.unsupported("message_shape");
    }
    Json content = message.get("content");
    switch (role) {
      case "assistant" -> addAssistant(message, out);
      case "tool" -> {
        String id = message.get("tool_call_id") instanceof Json.Str(String given) ? given : "";
        String text = flatText(content);
        out.add(
            new Message(
                "functions." + toolNames.getOrDefault(id, ""),
                "assistant",
                "commentary",
                false,
                List.of(text == null ? "" : text)));
      }
      case "system", "developer" -> {
        String instructions = flatText(content);
        if (instructions != null) {
          out.add(developer(instructions, List.of()));
        }
      }
      case "user" -> out.add(Message.of("user", null, texts(content)));
      default -> throw ChatNormalizer.Stop.unsupported("harmony_role");
    }
  }

  private static void addAssistant(Json.Obj message, List<Message> out) throws ChatNormalizer.Stop {
    String reasoning = reasoning(message);
    Json content = message.get("content");
    if (message.get("tool_calls") instanceof Json.Arr(var calls) && !calls.isEmpty()) {
      String text = flatText(content);
      if (text != null && !text.isEmpty()) {
        out.add(Message.of("assistant", "commentary", List.of(text)));
      }
      addReasoning(reasoning, out);
      for (Json call : calls) {
        out.add(call(call));
      }
      return;
    }
    addReasoning(reasoning, out);
    List<String> texts = texts(content);
    if (!texts.isEmpty() && !texts.getFirst().isEmpty()) {
      out.add(Message.of("assistant", "final", texts));
    }
  }

  private static void addReasoning(@Nullable String reasoning, List<Message> out) {
    if (reasoning != null && !reasoning.isEmpty()) {
      out.add(Message.of("assistant", "analysis", List.of(reasoning)));
    }
  }

  private static @Nullable String reasoning(Json.Obj message) throws ChatNormalizer.Stop {
    for (String key : List.of("reasoning", "reasoning_content")) {
      Json value = message.get(key);
      if (value instanceof Json.Str(String text)) {
        return text;
      }
      if (value != null && value != Json.Null.NULL) {
        throw ChatNormalizer.Stop.unsupported("message_shape");
      }
    }
    return null;
  }

  private static Message call(Json item) throws ChatNormalizer.Stop {
    if (item instanceof Json.Obj call
        && call.get("function") instanceof Json.Obj function
        && function.get("name") instanceof Json.Str(String name)
        && function.get("arguments") instanceof Json.Str(String arguments)) {
      return new Message("assistant", "functions." + name, "commentary", true, List.of(arguments));
    }
    throw ChatNormalizer.Stop.unsupported("tool_call_shape");
  }

  /** All text of a content in one, null when there is none. */
  private static @Nullable String flatText(@Nullable Json content) throws ChatNormalizer.Stop {
    if (content instanceof Json.Str(String text)) {
      return text;
    }
    if (!(content instanceof Json.Arr(var parts))) {
      return null;
    }
    StringBuilder text = new StringBuilder();
    boolean any = false;
    for (Json part : parts) {
      String piece = null;
      if (part instanceof Json.Str(String plain)) {
        piece = plain;
      } else if (part instanceof Json.Obj object) {
        Json value = object.get("text");
        if (value instanceof Json.Str(String inner)) {
          piece = inner;
        } else if (value != null && value != Json.Null.NULL) {
          throw ChatNormalizer.Stop.unsupported("content_shape");
        }
      }
      if (piece != null) {
        any = true;
        text.append(piece);
      }
    }
    return any ? text.toString() : null;
  }

  /** The texts of a content's parts, each a piece of its own. */
  private static List<String> texts(@Nullable Json content) throws ChatNormalizer.Stop {
    if (content instanceof Json.Str(String text)) {
      return List.of(text);
    }
    if (content == null || content == Json.Null.NULL) {
      return List.of("");
    }
    if (!(content instanceof Json.Arr(var parts))) {
      throw ChatNormalizer.Stop.unsupported("content_shape");
    }
    if (parts.isEmpty()) {
      return List.of("");
    }
    List<String> texts = new ArrayList<>(parts.size());
    for (Json part : parts) {
      if (!(part instanceof Json.Obj object)) {
        throw ChatNormalizer.Stop.unsupported("content_shape");
      }
      Json text = object.get("text");
      if (text != null && !(text instanceof Json.Str)) {
        throw ChatNormalizer.Stop.unsupported("content_shape");
      }
      texts.add(text instanceof Json.Str(String value) ? value : "");
    }
    return texts;
  }

  /** Reasoning stays only behind the last final answer. */
  private static List<Message> withoutOldReasoning(List<Message> messages) {
    int lastFinal = -1;
    for (int i = 0; i < messages.size(); i++) {
      Message message = messages.get(i);
      if (message.author.equals("assistant") && message.isOn("final")) {
        lastFinal = i;
      }
    }
    List<Message> kept = new ArrayList<>(messages.size());
    for (int i = 0; i < messages.size(); i++) {
      if (i >= lastFinal || !messages.get(i).isOn("analysis")) {
        kept.add(messages.get(i));
      }
    }
    return kept;
  }
}
