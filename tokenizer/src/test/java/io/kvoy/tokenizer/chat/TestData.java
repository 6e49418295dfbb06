// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.json.PythonJsonReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads vectors, tokenizer folders and chat completion requests for tests. */
final class TestData {
  private TestData() {}

  static Json json(String text) {
    return switch (PythonJsonReader.read(text)) {
      case PythonJsonReader.Outcome.Read(Json value) -> value;
      case PythonJsonReader.Outcome.Failed failed ->
          throw new IllegalArgumentException("not JSON: " + failed + ": " + text);
    };
  }

  static Json.Obj object(String text) {
    return (Json.Obj) json(text);
  }

  static String resource(String name) {
    try (InputStream in = TestData.class.getResourceAsStream("/" + name)) {
      if (in == null) {
        throw new IllegalArgumentException("no test resource " + name);
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static List<Json.Obj> jsonLines(String resource) {
    List<Json.Obj> lines = new ArrayList<>();
    resource(resource)
        .lines()
        .filter(line -> !line.isBlank())
        .forEach(line -> lines.add(object(line)));
    return lines;
  }

  /**
   * Folder with downloaded tools and tokenizers: property or variable KVOY_LOCAL, else .local at
   * the root.
   */
  static Path local() {
    String set = System.getProperty("KVOY_LOCAL", System.getenv("KVOY_LOCAL"));
    if (set != null) {
      return Path.of(set);
    }
    Path folder = Path.of("").toAbsolutePath();
    while (folder != null
        && !Files.exists(folder.resolve("Makefile"))
        && !Files.exists(folder.resolve(".git"))) {
      folder = folder.getParent();
    }
    if (folder == null) {
      throw new AssertionError("no repository root above " + Path.of("").toAbsolutePath());
    }
    return folder.resolve(".local");
  }

  static Json.Obj tokenizerConfig(String tokenizer) {
    Path file =
        local().resolve("tokenizers").resolve(tokenizer).resolve("models/tokenizer_config.json");
    if (!Files.exists(file)) {
      throw new AssertionError(file + " is missing: run 'make tools' to download the tokenizers");
    }
    try {
      return object(Files.readString(file));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /**
   * One of the templates that {@code tools/chat-templates/fetch.py} downloads, such as {@code
   * trl/qwen3}.
   */
  static String publishedTemplate(String name) {
    Path file = local().resolve("chat-templates").resolve(name + ".jinja");
    if (!Files.exists(file)) {
      throw new AssertionError(file + " is missing: run 'make tools' to download the templates");
    }
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static String string(Json.Obj object, String key) {
    return ((Json.Str) field(object, key)).value();
  }

  static Json field(Json.Obj object, String key) {
    Json value = object.get(key);
    if (value == null) {
      throw new IllegalArgumentException("no field " + key);
    }
    return value;
  }

  static boolean has(Json.Obj object, String key) {
    Json value = object.get(key);
    return value != null && value != Json.Null.NULL;
  }

  /** A chat completions request as the dialect hands it over. */
  static Prompt.Chat chat(Json.Obj request) {
    List<Json.Obj> messages = new ArrayList<>();
    for (Json message : ((Json.Arr) field(request, "messages")).items()) {
      messages.add((Json.Obj) message);
    }
    List<Json> tools = request.get("tools") instanceof Json.Arr(var items) ? items : List.of();
    return new Prompt.Chat(
        messages,
        tools,
        new ChatOptions(
            flag(request, "add_generation_prompt"),
            flag(request, "continue_final_message"),
            flag(request, "add_special_tokens"),
            request.get("reasoning_effort") instanceof Json.Str(String effort) ? effort : null,
            request.get("chat_template_kwargs") instanceof Json.Obj kwargs ? kwargs : null,
            request.get("documents") instanceof Json.Arr documents ? documents : null,
            request.get("chat_template") instanceof Json.Str(String template) ? template : null,
            request.get("tool_choice")));
  }

  private static @Nullable Boolean flag(Json.Obj request, String key) {
    return request.get(key) instanceof Json.Bool(boolean value) ? value : null;
  }

  /** JSON text with keys in their order, for comparisons that show where two values differ. */
  static String text(@Nullable Json value) {
    StringBuilder out = new StringBuilder();
    write(value, out);
    return out.toString();
  }

  private static void write(@Nullable Json value, StringBuilder out) {
    switch (value) {
      case null -> out.append("absent");
      case Json.Null _ -> out.append("null");
      case Json.Bool(boolean flag) -> out.append(flag);
      case Json.Int(long number) -> out.append(number);
      case Json.BigInt(var number) -> out.append(number);
      case Json.Real(double number) -> out.append(number).append('r');
      case Json.Str(String text) ->
          out.append('"')
              .append(text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n"))
              .append('"');
      case Json.Arr(var items) -> {
        out.append('[');
        Iterator<Json> iterator = items.iterator();
        while (iterator.hasNext()) {
          write(iterator.next(), out);
          out.append(iterator.hasNext() ? ",\n" : "");
        }
        out.append(']');
      }
      case Json.Obj(var fields) -> {
        out.append('{');
        Iterator<Map.Entry<String, Json>> iterator = fields.entrySet().iterator();
        while (iterator.hasNext()) {
          Map.Entry<String, Json> entry = iterator.next();
          out.append('"').append(entry.getKey()).append("\":");
          write(entry.getValue(), out);
          out.append(iterator.hasNext() ? "," : "");
        }
        out.append('}');
      }
    }
  }
}
