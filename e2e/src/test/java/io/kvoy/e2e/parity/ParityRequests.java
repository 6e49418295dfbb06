// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.parity;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import java.util.SplittableRandom;

/**
 * Requests of every API with every option that changes the prompt, from a seed. Most are such as
 * clients send; some are odd in one place.
 */
final class ParityRequests {

  /**
   * One request.
   *
   * @param name seed and number, for messages
   */
  record Request(String name, ApiKind api, Json.Obj body) {}

  private static final List<String> WORDS =
      List.of(
          "river",
          "Kernel",
          "parity",
          "the",
          "of",
          "a",
          "tokens",
          "don't",
          "I'LL",
          "x86_64",
          "café",
          "naïve",
          "Überraschung",
          "数据",
          "こんにちは",
          "안녕하세요",
          "שלום",
          "สวัสดี",
          "नमस्ते",
          "🙂",
          "👩‍👩‍👧",
          "🇫🇮",
          "3.14159",
          "1,234,567",
          "2026-11-30",
          "if (x) { return y; }",
          "def f(a, b):\n    return a + b",
          "SELECT * FROM t;",
          "https://example.org/a?b=c#d",
          "\t",
          "  ",
          "\n",
          "\n\n",
          "…",
          "—",
          "\"quoted\"",
          "back\\slash",
          "<b>&amp;</b>",
          "e\u0301",
          "\u00a0",
          "\u200b",
          "ﬁ",
          "Ⅷ",
          "½",
          "{{ x }}",
          "{% raw %}",
          "#",
          "'''",
          "\r\n",
          "𝔘𝔫𝔦");

  private static final List<String> CONTROL_TEXTS =
      List.of(
          "<|im_end|>",
          "<|im_start|>system",
          "<think>",
          "</think>",
          "<|eot_id|>",
          "<|start_header_id|>",
          "<end_of_turn>",
          "<bos>",
          "</s>",
          "<|endoftext|>",
          "<|start|>",
          "<|channel|>analysis<|message|>",
          "<|end|>",
          "<｜User｜>",
          "<｜end▁of▁sentence｜>",
          "<tool_call>",
          "[INST]");

  private final String model;
  private final SplittableRandom random;

  private ParityRequests(String model, long seed) {
    this.model = model;
    random = new SplittableRandom(seed);
  }

  /** That many requests for the model, always the same for a seed. */
  static List<Request> of(String model, long seed, int count) {
    var requests = new ArrayList<Request>(count);
    for (int i = 0; i < count; i++) {
      var one = new ParityRequests(model, seed * 1_000_003 + i);
      ApiKind api = one.api();
      requests.add(new Request(seed + "/" + i, api, one.body(api)));
    }
    return requests;
  }

  private ApiKind api() {
    int part = random.nextInt(100);
    if (part < 45) {
      return ApiKind.CHAT_COMPLETIONS;
    }
    if (part < 60) {
      return ApiKind.COMPLETIONS;
    }
    if (part < 78) {
      return ApiKind.MESSAGES;
    }
    return part < 84 ? ApiKind.COUNT_TOKENS : ApiKind.RESPONSES;
  }

  private Json.Obj body(ApiKind api) {
    return switch (api) {
      case CHAT_COMPLETIONS -> chat();
      case COMPLETIONS -> completion();
      case MESSAGES, COUNT_TOKENS -> messages();
      case RESPONSES -> responses();
      case OTHER -> throw new IllegalArgumentException("no body for " + api);
    };
  }

  // Chat completions

  private Json.Obj chat() {
    SequencedMap<String, Json> body = start();
    boolean hasTools = chance(35);
    if (hasTools) {
      body.put("tools", arr(times(1, 3, this::chatTool)));
      if (chance(30)) {
        body.put("tool_choice", str(pick(List.of("auto", "none"))));
      }
    }
    List<Json> messages = chatMessages();
    if (chance(8) && last(messages, "assistant")) {
      body.put("continue_final_message", new Json.Bool(true));
      body.put("add_generation_prompt", new Json.Bool(false));
    } else if (chance(10)) {
      body.put("add_generation_prompt", new Json.Bool(chance(50)));
    }
    body.put("messages", arr(messages));
    if (chance(10)) {
      body.put("add_special_tokens", new Json.Bool(chance(70)));
    }
    if (chance(20)) {
      body.put(
          "reasoning_effort",
          str(pick(List.of("low", "medium", "high", "low", "none", "minimal"))));
    }
    if (chance(25)) {
      body.put("chat_template_kwargs", templateKwargs());
    }
    if (chance(8)) {
      body.put("documents", arr(times(1, 2, this::document)));
    }
    if (chance(6)) {
      body.put("truncate_prompt_tokens", integer(pick(List.of(1L, 5L, 17L, 100L, 3000L))));
      if (chance(40)) {
        body.put("truncation_side", str(pick(List.of("left", "right"))));
      }
    }
    return shuffled(body);
  }

  private List<Json> chatMessages() {
    var messages = new ArrayList<Json>();
    if (chance(55)) {
      messages.add(message(chance(80) ? "system" : "developer", content()));
      if (chance(12)) {
        messages.add(message("system", content()));
      }
    }
    int turns = random.nextInt(1, 6);
    for (int i = 0; i < turns; i++) {
      SequencedMap<String, Json> user = fields("role", str("user"), "content", content());
      if (chance(5)) {
        user.put("name", str("alice"));
      }
      messages.add(new Json.Obj(user));
      if (i + 1 < turns || chance(15)) {
        addAssistant(messages);
        if (chance(4)) {
          messages.add(message(chance(50) ? "system" : "developer", content()));
        }
      }
    }
    return messages;
  }

  private void addAssistant(List<Json> messages) {
    SequencedMap<String, Json> assistant = fields("role", str("assistant"));
    if (chance(25)) {
      assistant.put(chance(50) ? "reasoning" : "reasoning_content", str(text(20)));
    }
    if (!chance(35)) {
      assistant.put("content", content());
      messages.add(new Json.Obj(assistant));
      return;
    }
    if (chance(60)) {
      assistant.put("content", chance(50) ? Json.Null.NULL : str(chance(50) ? "" : text(8)));
    }
    var calls = new ArrayList<Json>();
    var ids = new ArrayList<String>();
    int count = random.nextInt(1, 4);
    for (int i = 0; i < count; i++) {
      String id = "call_" + random.nextInt(10_000);
      ids.add(id);
      Json.Obj function = obj("name", str(name()), "arguments", str(arguments()));
      calls.add(shuffled(fields("id", str(id), "type", str("function"), "function", function)));
    }
    assistant.put("tool_calls", arr(calls));
    messages.add(shuffled(assistant));
    for (String id : ids) {
      messages.add(
          shuffled(fields("role", str("tool"), "tool_call_id", str(id), "content", content())));
    }
    if (chance(60)) {
      messages.add(message("assistant", content()));
    }
  }

  private Json.Obj chatTool() {
    SequencedMap<String, Json> function = fields("name", str(name()));
    if (chance(80)) {
      function.put("description", str(text(10)));
    }
    if (chance(85)) {
      function.put("parameters", schema(2));
    }
    if (chance(15)) {
      function.put("strict", new Json.Bool(chance(50)));
    }
    return shuffled(fields("type", str("function"), "function", shuffled(function)));
  }

  private Json.Obj schema(int depth) {
    SequencedMap<String, Json> properties = new LinkedHashMap<>();
    var required = new ArrayList<Json>();
    int count = random.nextInt(0, 4);
    for (int i = 0; i < count; i++) {
      String property = name();
      properties.put(property, property(depth));
      if (chance(50)) {
        required.add(str(property));
      }
    }
    SequencedMap<String, Json> schema =
        fields("type", str("object"), "properties", new Json.Obj(properties));
    if (chance(60)) {
      schema.put("required", arr(required));
    }
    if (chance(15)) {
      schema.put("additionalProperties", new Json.Bool(false));
    }
    return shuffled(schema);
  }

  private Json.Obj property(int depth) {
    String type =
        pick(List.of("string", "integer", "number", "boolean", "array", "object", "string"));
    SequencedMap<String, Json> property = fields("type", str(type));
    if (chance(60)) {
      property.put("description", str(text(6)));
    }
    switch (type) {
      case "string" -> {
        if (chance(30)) {
          property.put("enum", arr(times(1, 3, () -> str(name()))));
        }
        if (chance(15)) {
          property.put("default", str(name()));
        }
      }
      case "integer" -> {
        if (chance(30)) {
          property.put("minimum", integer(random.nextInt(-5, 5)));
        }
      }
      case "number" -> {
        if (chance(40)) {
          property.put(
              "default", new Json.Real(pick(List.of(0.5, 1.0, 1e-7, 1e22, 123456.789, -0.0))));
        }
      }
      case "array" ->
          property.put("items", depth > 0 ? property(depth - 1) : obj("type", str("string")));
      case "object" -> {
        if (depth > 0) {
          return schema(depth - 1);
        }
      }
      default -> {}
    }
    return new Json.Obj(property);
  }

  private Json.Obj templateKwargs() {
    SequencedMap<String, Json> kwargs = new LinkedHashMap<>();
    if (chance(60)) {
      kwargs.put("enable_thinking", new Json.Bool(chance(40)));
    }
    if (chance(25)) {
      kwargs.put("thinking", new Json.Bool(chance(50)));
    }
    if (chance(25)) {
      kwargs.put("date_string", str("30 Nov 2026"));
    }
    if (chance(20)) {
      kwargs.put("custom_" + name(), arr(List.of(integer(1), str("x"), Json.Null.NULL)));
    }
    if (chance(10)) {
      kwargs.put("tools_in_user_message", new Json.Bool(chance(50)));
    }
    return new Json.Obj(kwargs);
  }

  private Json.Obj document() {
    return obj("title", str(text(3)), "text", str(text(20)));
  }

  // Completions

  private Json.Obj completion() {
    SequencedMap<String, Json> body = start();
    Json prompt =
        switch (random.nextInt(5)) {
          case 0, 1 -> str(text(60));
          case 2 -> arr(times(1, 4, () -> str(text(20))));
          case 3 -> arr(ids());
          default -> arr(times(1, 3, () -> arr(ids())));
        };
    body.put("prompt", prompt);
    body.put("max_tokens", integer(8));
    if (chance(20)) {
      body.put("add_special_tokens", new Json.Bool(chance(40)));
    }
    if (chance(25)) {
      body.put("truncate_prompt_tokens", integer(pick(List.of(1L, 3L, 10L, 50L, 1000L, -1L))));
      if (chance(50)) {
        body.put("truncation_side", str(pick(List.of("left", "right"))));
      }
    }
    if (chance(10)) {
      body.put("echo", new Json.Bool(true));
    }
    return shuffled(body);
  }

  private List<Json> ids() {
    return times(1, 40, () -> integer(random.nextInt(1000, 100_000)));
  }

  // Messages

  private Json.Obj messages() {
    SequencedMap<String, Json> body = start();
    body.put("max_tokens", integer(16));
    if (chance(60)) {
      body.put("system", chance(40) ? str(systemText()) : arr(times(1, 3, this::systemBlock)));
    }
    boolean hasTools = chance(40);
    if (hasTools) {
      body.put("tools", arr(times(1, 3, this::messagesTool)));
      if (chance(30)) {
        body.put("tool_choice", obj("type", str(pick(List.of("auto", "none")))));
      }
    }
    var messages = new ArrayList<Json>();
    int turns = random.nextInt(1, 5);
    for (int i = 0; i < turns; i++) {
      messages.add(message("user", chance(50) ? str(text(25)) : arr(times(1, 3, this::textBlock))));
      if (i + 1 < turns || chance(10)) {
        addMessagesAnswer(messages);
      }
      if (chance(4)) {
        messages.add(message("system", str(systemText())));
      }
    }
    body.put("messages", arr(messages));
    if (chance(25)) {
      body.put(
          "thinking",
          chance(60)
              ? obj("type", str("disabled"))
              : obj("type", str("enabled"), "budget_tokens", integer(1024)));
    }
    if (chance(12)) {
      body.put("output_config", obj("effort", str(pick(List.of("low", "medium", "high")))));
    }
    if (chance(12)) {
      body.put("chat_template_kwargs", templateKwargs());
    }
    return shuffled(body);
  }

  private String systemText() {
    return chance(20)
        ? "x-anthropic-billing-header: cc_version=2." + random.nextInt(99) + ";\n" + text(12)
        : text(15);
  }

  private Json.Obj systemBlock() {
    SequencedMap<String, Json> block = fields("type", str("text"), "text", str(systemText()));
    if (chance(30)) {
      block.put("cache_control", obj("type", str("ephemeral")));
    }
    return new Json.Obj(block);
  }

  private Json.Obj textBlock() {
    SequencedMap<String, Json> block =
        fields("type", str("text"), "text", str(chance(5) ? "" : text(15)));
    if (chance(20)) {
      block.put("cache_control", obj("type", str("ephemeral")));
    }
    return new Json.Obj(block);
  }

  private Json.Obj messagesTool() {
    SequencedMap<String, Json> tool = fields("name", str(name()), "input_schema", schema(2));
    if (chance(80)) {
      tool.put("description", str(text(10)));
    }
    return shuffled(tool);
  }

  private void addMessagesAnswer(List<Json> messages) {
    if (chance(40)) {
      messages.add(
          message("assistant", chance(50) ? str(text(20)) : arr(times(1, 2, this::textBlock))));
      return;
    }
    var blocks = new ArrayList<Json>();
    if (chance(50)) {
      blocks.add(obj("type", str("thinking"), "thinking", str(text(12)), "signature", str("c2ln")));
    }
    if (chance(8)) {
      blocks.add(obj("type", str("redacted_thinking"), "data", str("AAAA")));
    }
    if (chance(60)) {
      blocks.add(textBlock());
    }
    var results = new ArrayList<Json>();
    int calls = random.nextInt(0, 3);
    for (int i = 0; i < calls; i++) {
      String id = "toolu_" + random.nextInt(10_000);
      blocks.add(
          obj("type", str("tool_use"), "id", str(id), "name", str(name()), "input", jsonObject(2)));
      SequencedMap<String, Json> result =
          fields("type", str("tool_result"), "tool_use_id", str(id));
      switch (random.nextInt(4)) {
        case 0 -> {}
        case 1 -> result.put("content", str(text(12)));
        default -> result.put("content", arr(times(1, 2, this::textBlock)));
      }
      if (chance(10)) {
        result.put("is_error", new Json.Bool(true));
      }
      results.add(new Json.Obj(result));
    }
    if (blocks.isEmpty()) {
      blocks.add(textBlock());
    }
    messages.add(message("assistant", arr(blocks)));
    if (!results.isEmpty()) {
      if (chance(40)) {
        results.add(textBlock());
      }
      messages.add(message("user", arr(results)));
      messages.add(message("assistant", str(text(10))));
    }
  }

  // Responses

  private Json.Obj responses() {
    SequencedMap<String, Json> body = start();
    if (chance(50)) {
      body.put("instructions", str(text(12)));
    }
    if (chance(35)) {
      body.put("tools", arr(times(1, 3, this::responsesTool)));
    }
    body.put("input", chance(35) ? str(text(30)) : arr(items()));
    if (chance(25)) {
      body.put("reasoning", obj("effort", str(pick(List.of("low", "medium", "high")))));
    }
    if (chance(10)) {
      body.put("chat_template_kwargs", templateKwargs());
    }
    return shuffled(body);
  }

  private Json.Obj responsesTool() {
    SequencedMap<String, Json> tool = fields("type", str("function"), "name", str(name()));
    if (chance(80)) {
      tool.put("description", str(text(8)));
    }
    tool.put("parameters", schema(1));
    if (chance(40)) {
      tool.put("strict", new Json.Bool(chance(50)));
    }
    return shuffled(tool);
  }

  private List<Json> items() {
    var items = new ArrayList<Json>();
    if (chance(20)) {
      items.add(item(chance(50) ? "developer" : "system"));
    }
    int turns = random.nextInt(1, 4);
    for (int i = 0; i < turns; i++) {
      items.add(item("user"));
      if (i + 1 < turns) {
        addResponsesAnswer(items);
      }
    }
    return items;
  }

  private Json.Obj item(String role) {
    SequencedMap<String, Json> item = fields("role", str(role));
    if (chance(60)) {
      item.put("type", str("message"));
    }
    item.put(
        "content",
        chance(50)
            ? str(text(20))
            : arr(times(1, 2, () -> obj("type", str("input_text"), "text", str(text(10))))));
    return new Json.Obj(item);
  }

  private void addResponsesAnswer(List<Json> items) {
    if (chance(30)) {
      items.add(
          obj(
              "type", str("reasoning"),
              "id", str("rs_" + random.nextInt(1000)),
              "summary", arr(List.of()),
              "content",
                  arr(
                      times(
                          1, 1, () -> obj("type", str("reasoning_text"), "text", str(text(10)))))));
    }
    if (chance(45)) {
      int calls = random.nextInt(1, 3);
      var ids = new ArrayList<String>();
      for (int i = 0; i < calls; i++) {
        String id = "call_" + random.nextInt(10_000);
        ids.add(id);
        items.add(
            obj(
                "type", str("function_call"),
                "call_id", str(id),
                "name", str(name()),
                "arguments", str(arguments())));
      }
      for (String id : ids) {
        items.add(
            obj("type", str("function_call_output"), "call_id", str(id), "output", str(text(10))));
      }
    }
    if (chance(70)) {
      items.add(
          chance(50)
              ? obj("role", str("assistant"), "content", str(text(12)))
              : obj(
                  "type", str("message"),
                  "id", str("msg_" + random.nextInt(1000)),
                  "status", str("completed"),
                  "role", str("assistant"),
                  "content",
                      arr(
                          times(
                              1,
                              2,
                              () ->
                                  obj(
                                      "type", str("output_text"),
                                      "text", str(text(10)),
                                      "annotations", arr(List.of()))))));
    }
  }

  // Pieces

  private SequencedMap<String, Json> start() {
    SequencedMap<String, Json> body = fields("model", str(model));
    if (chance(10)) {
      body.put("cache_salt", str("salt-" + random.nextInt(9)));
    }
    if (chance(20)) {
      body.put("temperature", new Json.Real(0.5));
    }
    return body;
  }

  private Json content() {
    int kind = random.nextInt(20);
    if (kind < 13) {
      return str(text(25));
    }
    if (kind == 13) {
      return str(CONTROL_TEXTS.get(random.nextInt(CONTROL_TEXTS.size())) + text(6));
    }
    return arr(times(1, 3, () -> obj("type", str("text"), "text", str(chance(5) ? "" : text(12)))));
  }

  private Json.Obj message(String role, Json content) {
    return obj("role", str(role), "content", content);
  }

  private String text(int maxWords) {
    var text = new StringBuilder();
    int words = random.nextInt(1, maxWords + 1);
    for (int i = 0; i < words; i++) {
      if (i > 0 && chance(85)) {
        text.append(' ');
      }
      text.append(chance(3) ? pick(CONTROL_TEXTS) : pick(WORDS));
    }
    return text.toString();
  }

  private String name() {
    return pick(List.of("get_weather", "search", "lookup", "send", "b", "Calc_2", "city", "unit"))
        + (chance(30) ? "_" + random.nextInt(100) : "");
  }

  private String arguments() {
    return switch (random.nextInt(12)) {
      case 0 -> "";
      case 1 -> "{}";
      case 2 -> "{\"a\": 1e3, \"b\": -0.0, \"c\": 12345678901234567890}";
      case 3 -> "not json";
      case 4 -> "[1, 2]";
      default -> io.kvoy.inference.json.JsonWriter.text(jsonObject(2));
    };
  }

  private Json.Obj jsonObject(int depth) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    int count = random.nextInt(0, 4);
    for (int i = 0; i < count; i++) {
      fields.put(name(), json(depth));
    }
    return new Json.Obj(fields);
  }

  private Json json(int depth) {
    return switch (random.nextInt(depth > 0 ? 9 : 6)) {
      case 0 -> str(text(4));
      case 1 -> integer(random.nextLong(-1_000_000, 1_000_000));
      case 2 -> new Json.Real(pick(List.of(0.1, 1.0, 1e16, 1e-5, 2.5e-8, 1e100, 3.0)));
      case 3 -> new Json.Bool(chance(50));
      case 4 -> Json.Null.NULL;
      case 5 -> str(name());
      case 6, 7 -> jsonObject(depth - 1);
      default -> arr(times(0, 3, () -> json(depth - 1)));
    };
  }

  private boolean chance(int percent) {
    return random.nextInt(100) < percent;
  }

  private <T> T pick(List<T> from) {
    return from.get(random.nextInt(from.size()));
  }

  private <T> List<T> times(int least, int most, java.util.function.Supplier<T> maker) {
    int count = random.nextInt(least, most + 1);
    var made = new ArrayList<T>(count);
    for (int i = 0; i < count; i++) {
      made.add(maker.get());
    }
    return made;
  }

  private static boolean last(List<Json> messages, String role) {
    return messages.getLast() instanceof Json.Obj message
        && message.get("role") instanceof Json.Str(String last)
        && last.equals(role)
        && message.get("content") != null
        && message.get("content") != Json.Null.NULL;
  }

  /** The same fields in another order, as clients differ in it. */
  private Json.Obj shuffled(SequencedMap<String, Json> fields) {
    var keys = new ArrayList<>(fields.keySet());
    for (int i = keys.size() - 1; i > 0; i--) {
      java.util.Collections.swap(keys, i, random.nextInt(i + 1));
    }
    SequencedMap<String, Json> result = new LinkedHashMap<>();
    keys.forEach(key -> result.put(key, java.util.Objects.requireNonNull(fields.get(key))));
    return new Json.Obj(result);
  }

  private static SequencedMap<String, Json> fields(Object... keysAndValues) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    for (int i = 0; i < keysAndValues.length; i += 2) {
      fields.put((String) keysAndValues[i], (Json) keysAndValues[i + 1]);
    }
    return fields;
  }

  private static Json.Obj obj(Object... keysAndValues) {
    return new Json.Obj(fields(keysAndValues));
  }

  private static Json.Str str(String text) {
    return new Json.Str(text);
  }

  private static Json.Int integer(long value) {
    return new Json.Int(value);
  }

  private static Json.Arr arr(List<? extends Json> items) {
    return new Json.Arr(List.copyOf(items));
  }
}
