// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.files.TestJson;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * One line of {@code vectors/chat-template}: a request and what real vLLM 0.32 made of it.
 *
 * @param id name of the vector
 * @param family tokenizer folder it was made with
 * @param endpoint path of the API
 * @param request the body
 * @param text rendered prompt, null for completions and errors
 * @param prompts token ids of each prompt, empty for errors
 */
record ChatVector(
    String id,
    String family,
    String endpoint,
    Json.Obj request,
    @Nullable String text,
    List<int[]> prompts) {

  private static final List<String> FILES =
      List.of(
          "deepseek_v3",
          "gemma3",
          "gptoss",
          "llama3_1-tools",
          "llama3_1",
          "qwen3-extra",
          "qwen3-wide",
          "qwen3");

  /** Every vector of every file. */
  static List<ChatVector> all() {
    var vectors = new ArrayList<ChatVector>();
    for (String file : FILES) {
      for (String line : lines("/vectors/chat-template/" + file + ".jsonl")) {
        vectors.add(parse((Json.Obj) TestJson.read(line), family(file)));
      }
    }
    return vectors;
  }

  private static String family(String file) {
    int dash = file.indexOf('-');
    return dash < 0 ? file : file.substring(0, dash);
  }

  private static ChatVector parse(Json.Obj line, String family) {
    Json text = line.get("text");
    return new ChatVector(
        string(line, "id"),
        family,
        string(line, "endpoint"),
        (Json.Obj) Objects.requireNonNull(line.get("request")),
        text == null ? null : text.asString(),
        prompts(line.get("token_ids")));
  }

  private static List<int[]> prompts(@Nullable Json value) {
    if (!(value instanceof Json.Arr(List<Json> items))) {
      return List.of();
    }
    if (items.getFirst() instanceof Json.Arr) {
      return items.stream().map(item -> ids((Json.Arr) item)).toList();
    }
    return List.of(ids(new Json.Arr(items)));
  }

  static int[] ids(Json.Arr array) {
    return IntStream.range(0, array.items().size())
        .map(i -> (int) ((Json.Int) array.items().get(i)).value())
        .toArray();
  }

  private static String string(Json.Obj object, String name) {
    return Objects.requireNonNull(Objects.requireNonNull(object.get(name)).asString());
  }

  private static List<String> lines(String resource) {
    try (var in = Objects.requireNonNull(ChatVector.class.getResourceAsStream(resource))) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public String toString() {
    return id;
  }
}
