// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.PythonJsonReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SequencedMap;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Messages and tools of a request to what vLLM 0.32 hands to the template ({@code
 * vllm/renderers/chat_utils.py}, {@code vllm/renderers/hf.py} and the request models in front of
 * them). Stateless.
 *
 * <table>
 * <caption>What changes</caption>
 * <tr><td>content</td><td>one text, parts joined with a line feed, or a list of parts, by {@link ContentFormat}; null
 * becomes empty</td></tr>
 * <tr><td>system content</td><td>loses a first line starting with {@code x-anthropic-billing-header}</td></tr>
 * <tr><td>tool calls</td><td>arguments become an object, {@code {}} when they are none; an empty list goes</td></tr>
 * <tr><td>reasoning</td><td>stands under {@code reasoning} and {@code reasoning_content}</td></tr>
 * <tr><td>tools</td><td>name, description, parameters, strict, in this order; the middle two null when absent</td></tr>
 * </table>
 */
final class ChatNormalizer {
  private static final String BILLING_HEADER = "x-anthropic-billing-header";

  private static final Set<String> TEXT_PARTS =
      Set.of("text", "input_text", "output_text", "refusal", "thinking");

  /**
   * Keys of content parts that vLLM knows; any others reach the template in {@link
   * ContentFormat#OPENAI}.
   */
  private static final Set<String> PART_KEYS =
      Set.of(
          "audio_embeds",
          "audio_url",
          "closed",
          "data",
          "file",
          "image_embeds",
          "image_pil",
          "image_url",
          "input_audio",
          "name",
          "prompt_cache_breakpoint",
          "refusal",
          "text",
          "thinking",
          "type",
          "uuid",
          "video_embeds",
          "video_url");

  /** What the worker answers 400 for, or what is beyond this class. */
  static final class Stop extends Exception {
    private static final long serialVersionUID = 1;

    private final boolean refused;
    private final String reason;

    private Stop(boolean refused, String reason) {
      super(null, null, false, false);
      this.refused = refused;
      this.reason = reason;
    }

    static Stop refused(String message) {
      return new Stop(true, message);
    }

    static Stop unsupported(String feature) {
      return new Stop(false, feature);
    }

    boolean isRefused() {
      return refused;
    }

    String reason() {
      return reason;
    }
  }

  private ChatNormalizer() {}

  /**
   * @param keepsKeyOrder whether tool calls keep the order of their keys, as those of the responses
   *     API do; all others pass through a model that puts {@code arguments} first
   */
  static List<Json.Obj> messages(
      List<Json.Obj> messages, ContentFormat format, boolean keepsKeyOrder) throws Stop {
    List<Json.Obj> conversation = new ArrayList<>(messages.size());
    for (Json.Obj message : messages) {
      conversation.add(message(message, format, keepsKeyOrder));
    }
    return conversation;
  }

  /**
   * For templates that take a system message in front only, the way the messages API treats them:
   * all system texts joined without separator ({@code entrypoints/anthropic/serving.py}
   * _convert_system_message).
   */
  static List<Json.Obj> systemMessagesMerged(List<Json.Obj> messages) throws Stop {
    StringBuilder system = new StringBuilder();
    List<Json.Obj> others = new ArrayList<>(messages.size());
    for (Json.Obj message : messages) {
      if (!hasRole(message, "system")) {
        others.add(message);
      } else if (message.get("content") instanceof Json.Str(String text)) {
        system.append(text);
      } else {
        throw Stop.unsupported("message_shape");
      }
    }
    if (others.size() < messages.size()) {
      SequencedMap<String, Json> merged = new LinkedHashMap<>();
      merged.put("role", new Json.Str("system"));
      merged.put("content", new Json.Str(system.toString()));
      others.addFirst(new Json.Obj(merged));
    }
    return others;
  }

  /** One message; what comes of it depends on no other. */
  static Json.Obj message(Json.Obj message, ContentFormat format, boolean keepsKeyOrder)
      throws Stop {
    if (!(message.get("role") instanceof Json.Str(String role))) {
      throw Stop.unsupported("message_shape");
    }
    SequencedMap<String, Json> result = new LinkedHashMap<>();
    result.put("role", new Json.Str(role));
    List<Json> parts = parts(message.get("content"));
    if (role.equals("system")) {
      parts = withoutBillingHeader(parts);
    }
    result.put("content", content(parts, format));
    switch (role) {
      case "assistant" -> addAssistantFields(message, keepsKeyOrder, result);
      case "tool" -> {
        Json id = message.get("tool_call_id");
        if (id != null) {
          result.put("tool_call_id", id);
        }
        joinTextParts(result);
      }
      default -> {}
    }
    for (String key : List.of("name", "task")) {
      if (message.get(key) instanceof Json.Str value) {
        result.put(key, value);
      }
    }
    if (role.equals("developer")) {
      result.put("tools", developerTools(message.get("tools")));
    }
    return new Json.Obj(result);
  }

  /** Only their keys are put in order. */
  private static Json developerTools(@Nullable Json tools) {
    if (!(tools instanceof Json.Arr(var items))) {
      return Json.Null.NULL;
    }
    List<Json> result = new ArrayList<>(items.size());
    for (Json item : items) {
      if (item instanceof Json.Obj tool && tool.get("function") instanceof Json.Obj function) {
        Json ordered = ordered(function, List.of("name", "description", "parameters", "strict"));
        result.add(ordered(with(tool, "function", ordered), List.of("function", "type")));
      } else {
        result.add(item);
      }
    }
    return new Json.Arr(result);
  }

  private static Json.Obj ordered(Json.Obj object, List<String> first) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    for (String key : first) {
      Json value = object.get(key);
      if (value != null) {
        fields.put(key, value);
      }
    }
    object.fields().forEach(fields::putIfAbsent);
    return new Json.Obj(fields);
  }

  private static List<Json> parts(@Nullable Json content) throws Stop {
    return switch (content) {
      case null -> List.of();
      case Json.Null _ -> List.of();
      case Json.Str text -> List.of(text);
      case Json.Arr(var items) -> items;
      case Json.Bool _, Json.Int _, Json.BigInt _, Json.Real _, Json.Obj _ ->
          throw Stop.unsupported("content_shape");
    };
  }

  private static List<Json> withoutBillingHeader(List<Json> parts) {
    List<Json> kept = new ArrayList<>(parts.size());
    for (Json part : parts) {
      String text =
          switch (part) {
            case Json.Str(String plain) -> plain;
            case Json.Obj object
                when object.get("type") instanceof Json.Str(String type)
                    && type.equals("text")
                    && object.get("text") instanceof Json.Str(String inner) ->
                inner;
            default -> "";
          };
      if (!text.startsWith(BILLING_HEADER)) {
        kept.add(part);
        continue;
      }
      int lineEnd = text.indexOf('\n');
      if (lineEnd < 0 || lineEnd + 1 == text.length()) {
        continue;
      }
      Json.Str rest = new Json.Str(text.substring(lineEnd + 1));
      kept.add(part instanceof Json.Obj object ? with(object, "text", rest) : rest);
    }
    return kept;
  }

  private static Json.Obj with(Json.Obj object, String key, Json value) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>(object.fields());
    fields.put(key, value);
    return new Json.Obj(fields);
  }

  private static Json content(List<Json> parts, ContentFormat format) throws Stop {
    if (format == ContentFormat.STRING
        && parts.size() == 1
        && parts.getFirst() instanceof Json.Str) {
      return parts.getFirst();
    }
    List<Json> wrapped = new ArrayList<>(parts.size());
    List<String> texts = new ArrayList<>(parts.size());
    for (Json part : parts) {
      switch (part) {
        case Json.Str(String text) -> {
          wrapped.add(textPart(text, Map.of()));
          texts.add(text);
        }
        case Json.Obj object -> {
          String type = partType(object);
          if (type.equals("tool_reference")) {
            if (!(object.get("name") instanceof Json.Str(String name))) {
              throw Stop.unsupported("content_shape");
            }
            SequencedMap<String, Json> reference = new LinkedHashMap<>();
            reference.put("type", new Json.Str(type));
            reference.put("name", new Json.Str(name));
            wrapped.add(new Json.Obj(reference));
            texts.add(name);
            continue;
          }
          if (!TEXT_PARTS.contains(type)) {
            throw Stop.unsupported("content_part");
          }
          String key = type.equals("refusal") || type.equals("thinking") ? type : "text";
          Json value = object.get(key);
          if (value == Json.Null.NULL && (type.equals("text") || type.equals("refusal"))) {
            continue;
          }
          if (!(value instanceof Json.Str(String text))) {
            throw Stop.unsupported("content_shape");
          }
          wrapped.add(textPart(text, others(object, PART_KEYS)));
          texts.add(text);
        }
        case Json.Null _, Json.Bool _, Json.Int _, Json.BigInt _, Json.Real _, Json.Arr _ ->
            throw Stop.unsupported("content_shape");
      }
    }
    if (format == ContentFormat.OPENAI) {
      return new Json.Arr(wrapped);
    }
    // An empty part leaves no line feed behind.
    texts.removeIf(String::isEmpty);
    return new Json.Str(String.join("\n", texts));
  }

  private static String partType(Json.Obj part) throws Stop {
    Json uuid = part.get("uuid");
    if (!(part.get("type") instanceof Json.Str(String type))
        || (uuid != null && uuid != Json.Null.NULL)) {
      throw Stop.unsupported("content_part");
    }
    return type;
  }

  /** Fields with other keys than these, in their order. */
  private static Map<String, Json> others(Json.Obj object, Set<String> known) {
    Map<String, Json> others = new LinkedHashMap<>();
    for (Map.Entry<String, Json> field : object.fields().entrySet()) {
      if (!known.contains(field.getKey())) {
        others.put(field.getKey(), field.getValue());
      }
    }
    return others;
  }

  private static Json textPart(String text, Map<String, Json> extra) {
    SequencedMap<String, Json> part = new LinkedHashMap<>();
    part.put("type", new Json.Str("text"));
    part.put("text", new Json.Str(text));
    part.putAll(extra);
    return new Json.Obj(part);
  }

  private static void joinTextParts(SequencedMap<String, Json> message) {
    if (!(message.get("content") instanceof Json.Arr(var items))) {
      return;
    }
    List<String> texts = new ArrayList<>();
    for (Json item : items) {
      if (!(item instanceof Json.Obj part)
          || !(part.get("type") instanceof Json.Str(String type))
          || !type.equals("text")) {
        return;
      }
      texts.add(part.get("text") instanceof Json.Str(String text) ? text : "");
    }
    message.put("content", new Json.Str(String.join("\n", texts)));
  }

  private static void addAssistantFields(
      Json.Obj message, boolean keepsKeyOrder, SequencedMap<String, Json> result) throws Stop {
    Json calls = message.get("tool_calls");
    if (calls != null && calls != Json.Null.NULL) {
      if (!(calls instanceof Json.Arr(var items))) {
        throw Stop.unsupported("message_shape");
      }
      List<Json> normalized = new ArrayList<>(items.size());
      for (Json item : items) {
        normalized.add(toolCall(item, keepsKeyOrder));
      }
      if (!normalized.isEmpty()) {
        result.put("tool_calls", new Json.Arr(normalized));
      }
    }
    Json reasoning = message.get("reasoning");
    if (reasoning == null || reasoning == Json.Null.NULL) {
      reasoning = message.get("reasoning_content");
    }
    if (reasoning != null && reasoning != Json.Null.NULL) {
      result.put("reasoning", reasoning);
      result.put("reasoning_content", reasoning);
    }
  }

  private static Json toolCall(Json item, boolean keepsKeyOrder) throws Stop {
    if (!(item instanceof Json.Obj call)
        || !(call.get("function") instanceof Json.Obj function)
        || !(function.get("name") instanceof Json.Str)) {
      throw Stop.unsupported("tool_call_shape");
    }
    if (call.get("type") instanceof Json.Str(String type) && !type.equals("function")) {
      throw Stop.refused("chat completions only support assistant tool_calls of type 'function'.");
    }
    Json.Obj inner = with(function, "arguments", arguments(function.get("arguments")));
    if (keepsKeyOrder) {
      return with(call, "function", inner);
    }
    Json.Obj outer = with(call, "type", new Json.Str("function"));
    return ordered(
        with(outer, "function", ordered(inner, List.of("arguments", "name"))),
        List.of("id", "function", "type"));
  }

  private static Json arguments(@Nullable Json arguments) {
    if (arguments instanceof Json.Obj) {
      return arguments;
    }
    if (arguments instanceof Json.Str(String text)
        && PythonJsonReader.read(text) instanceof PythonJsonReader.Outcome.Read(Json.Obj parsed)) {
      return parsed;
    }
    // Old turns may hold anything; the worker goes on with no arguments.
    return new Json.Obj(new LinkedHashMap<>());
  }

  /**
   * For templates that know no {@code developer}: that role becomes {@code system}, and all system
   * messages one at the front.
   */
  static List<Json.Obj> developerAsSystem(List<Json.Obj> conversation) {
    List<String> systemTexts = new ArrayList<>();
    List<Json.Obj> others = new ArrayList<>();
    List<Json.Obj> converted = new ArrayList<>();
    boolean needsMerge = false;
    for (Json.Obj message : conversation) {
      Json.Obj result = message;
      if (hasRole(message, "developer")) {
        SequencedMap<String, Json> fields = new LinkedHashMap<>(message.fields());
        fields.put("role", new Json.Str("system"));
        fields.remove("tools");
        result = new Json.Obj(fields);
      }
      if (hasRole(result, "system")) {
        needsMerge |= !converted.isEmpty() || !systemTexts.isEmpty();
        String text = textOf(result.get("content"));
        if (!text.isEmpty()) {
          systemTexts.add(text);
        }
      } else {
        others.add(result);
      }
      converted.add(result);
    }
    if (!needsMerge) {
      return converted;
    }
    SequencedMap<String, Json> merged = new LinkedHashMap<>();
    merged.put("role", new Json.Str("system"));
    merged.put("content", new Json.Str(String.join("\n\n", systemTexts)));
    others.addFirst(new Json.Obj(merged));
    return others;
  }

  static boolean hasRole(Json.Obj message, String role) {
    return message.get("role") instanceof Json.Str(String own) && own.equals(role);
  }

  private static String textOf(@Nullable Json content) {
    if (content instanceof Json.Str(String text)) {
      return text;
    }
    List<String> texts = new ArrayList<>();
    if (content instanceof Json.Arr(var items)) {
      for (Json item : items) {
        if (item instanceof Json.Obj part && part.get("text") instanceof Json.Str(String text)) {
          texts.add(text);
        }
      }
    }
    return String.join("\n", texts);
  }

  static Json tools(List<Json> tools) throws Stop {
    List<Json> result = new ArrayList<>(tools.size());
    for (Json tool : tools) {
      result.add(tool(tool));
    }
    return new Json.Arr(result);
  }

  private static Json tool(Json item) throws Stop {
    if (!(item instanceof Json.Obj tool)
        || !(tool.get("function") instanceof Json.Obj function)
        || !(function.get("name") instanceof Json.Str name)) {
      throw Stop.unsupported("tool_shape");
    }
    SequencedMap<String, Json> inner = new LinkedHashMap<>();
    inner.put("name", name);
    Json description = orNull(function.get("description"));
    Json parameters = orNull(function.get("parameters"));
    if (!(description instanceof Json.Str || description == Json.Null.NULL)
        || !(parameters instanceof Json.Obj || parameters == Json.Null.NULL)) {
      throw Stop.unsupported("tool_shape");
    }
    inner.put("description", description);
    inner.put("parameters", parameters);
    addFlag("strict", function.get("strict"), inner);
    Json deferLoading = orNull(tool.get("defer_loading"));
    Json ownDeferLoading = orNull(function.get("defer_loading"));
    addFlag(
        "defer_loading", ownDeferLoading == Json.Null.NULL ? deferLoading : ownDeferLoading, inner);
    SequencedMap<String, Json> result = new LinkedHashMap<>();
    result.put("type", new Json.Str("function"));
    result.put("function", new Json.Obj(inner));
    addFlag("defer_loading", deferLoading, result);
    return new Json.Obj(result);
  }

  private static Json orNull(@Nullable Json value) {
    return value == null ? Json.Null.NULL : value;
  }

  private static void addFlag(String key, @Nullable Json value, SequencedMap<String, Json> target)
      throws Stop {
    if (value == null || value == Json.Null.NULL) {
      return;
    }
    if (!(value instanceof Json.Bool)) {
      throw Stop.unsupported("tool_shape");
    }
    target.put(key, value);
  }
}
