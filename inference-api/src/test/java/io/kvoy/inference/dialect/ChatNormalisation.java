// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The small part of vLLM's chat normalisation that stands between this module's output and the
 * recorded {@code template_messages}, as the simplest thing that can be compared. The product's own
 * lives in the tokenizer module.
 */
final class ChatNormalisation {
  private static final String BILLING = "x-anthropic-billing-header";

  private ChatNormalisation() {}

  /** Messages as plain maps, so that key order does not count. */
  static List<Map<String, Json>> messages(Prompt.Chat chat, boolean openaiFormat) {
    List<Map<String, Json>> out = new ArrayList<>();
    for (Json.Obj message : chat.messages()) {
      out.add(message(message, openaiFormat));
    }
    return out;
  }

  private static Map<String, Json> message(Json.Obj message, boolean openaiFormat) {
    Map<String, Json> out = new LinkedHashMap<>();
    String role = ((Json.Str) field(message, "role")).value();
    out.put("role", field(message, "role"));
    List<Json> parts = parts(message.get("content"), role.equals("system"));
    boolean joined = !openaiFormat || role.equals("tool");
    out.put("content", joined ? joined(parts) : new Json.Arr(parts));
    if (role.equals("assistant")) {
      if (message.get("tool_calls") instanceof Json.Arr(List<Json> calls) && !calls.isEmpty()) {
        out.put("tool_calls", new Json.Arr(calls.stream().map(ChatNormalisation::call).toList()));
      }
      Json reasoning = message.get("reasoning");
      if (reasoning == null) {
        reasoning = message.get("reasoning_content");
      }
      if (reasoning instanceof Json.Str) {
        out.put("reasoning", reasoning);
        out.put("reasoning_content", reasoning);
      }
    }
    if (role.equals("tool") && message.get("tool_call_id") instanceof Json.Str id) {
      out.put("tool_call_id", id);
    }
    if (message.get("name") instanceof Json.Str name) {
      out.put("name", name);
    }
    if (role.equals("developer")) {
      Json tools = message.get("tools");
      out.put("tools", tools == null ? Json.Null.NULL : tools);
    }
    return out;
  }

  private static List<Json> parts(@Nullable Json content, boolean system) {
    List<Json> parts = new ArrayList<>();
    switch (content) {
      case Json.Str text -> parts.add(part(text));
      case Json.Arr(List<Json> items) -> {
        for (Json item : items) {
          parts.add(item instanceof Json.Obj object ? part(textOf(object)) : part(item));
        }
      }
      case null -> {}
      case Json _ -> {}
    }
    if (!system) {
      return parts;
    }
    List<Json> kept = new ArrayList<>();
    for (Json part : parts) {
      String text = ((Json.Str) textOf((Json.Obj) part)).value();
      int line = text.indexOf('\n');
      if (!text.startsWith(BILLING)) {
        kept.add(part);
      } else if (line >= 0) {
        kept.add(part(new Json.Str(text.substring(line + 1))));
      }
    }
    return kept;
  }

  private static Json textOf(Json.Obj part) {
    for (String key : List.of("text", "thinking", "refusal")) {
      if (part.get(key) instanceof Json.Str value) {
        return value;
      }
    }
    throw new AssertionError("no text in " + part.fields().keySet());
  }

  private static Json.Obj part(Json text) {
    return Json.Obj.of(Map.of("type", new Json.Str("text"), "text", text));
  }

  private static Json joined(List<Json> parts) {
    return new Json.Str(
        String.join(
            "\n", parts.stream().map(p -> ((Json.Str) textOf((Json.Obj) p)).value()).toList()));
  }

  private static Json call(Json call) {
    Json.Obj function = (Json.Obj) field((Json.Obj) call, "function");
    Map<String, Json> out = new LinkedHashMap<>(function.fields());
    Json arguments = function.get("arguments");
    Json parsed = arguments;
    if (arguments instanceof Json.Str(String text)) {
      parsed =
          new JsonReader(JsonLimits.DEFAULTS)
                      .read(text.getBytes(java.nio.charset.StandardCharsets.UTF_8))
                  instanceof JsonRead.Document document
              ? document.value()
              : Json.Null.NULL;
    }
    out.put("arguments", parsed instanceof Json.Obj ? parsed : Json.Obj.of(Map.of()));
    Map<String, Json> whole = new LinkedHashMap<>(((Json.Obj) call).fields());
    whole.put("function", Json.Obj.of(out));
    return Json.Obj.of(whole);
  }

  /** The tools as dumped: optional keys of the definition filled with null. */
  static List<Json> tools(Prompt.Chat chat) {
    List<Json> out = new ArrayList<>();
    for (Json tool : chat.tools()) {
      Json.Obj function = (Json.Obj) field((Json.Obj) tool, "function");
      Map<String, Json> definition = new LinkedHashMap<>(function.fields());
      definition.putIfAbsent("description", Json.Null.NULL);
      definition.putIfAbsent("parameters", Json.Null.NULL);
      definition
          .keySet()
          .retainAll(List.of("name", "description", "parameters", "strict", "defer_loading"));
      if (definition.get("strict") == Json.Null.NULL) {
        definition.remove("strict");
      }
      out.add(
          Json.Obj.of(
              Map.of("type", new Json.Str("function"), "function", Json.Obj.of(definition))));
    }
    return out;
  }

  private static Json field(Json.Obj object, String key) {
    return java.util.Objects.requireNonNull(object.get(key), key);
  }
}
