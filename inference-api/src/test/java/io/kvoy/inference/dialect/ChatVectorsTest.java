// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.TestFiles;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.inference.json.JsonWriter;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Requests against what vLLM 0.32 handed to the chat template for them. */
class ChatVectorsTest {
  private static final JsonReader READER = new JsonReader(JsonLimits.DEFAULTS);

  static Stream<Arguments> vectors() {
    return Stream.of(
            "qwen3",
            "qwen3-extra",
            "qwen3-wide",
            "llama3_1",
            "llama3_1-tools",
            "gemma3",
            "deepseek_v3")
        .flatMap(name -> TestFiles.lines("vectors/chat-template/" + name + ".jsonl").stream())
        .map(line -> (Json.Obj) ((JsonRead.Document) READER.read(line.getBytes(UTF_8))).value())
        .map(vector -> Arguments.of(((Json.Str) field(vector, "id")).value(), vector));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("vectors")
  void conversationEqualsWhatReachedTheTemplate(String id, Json.Obj vector) {
    ApiKind api = Dialects.ofPath(((Json.Str) field(vector, "endpoint")).value());
    byte[] body = JsonWriter.bytes(field(vector, "request"));

    RequestParse parse = Dialects.parse(api, body);

    assertThat(parse).isInstanceOf(RequestParse.Parsed.class);
    InferenceRequest request = ((RequestParse.Parsed) parse).request();
    assertThat(request.prompt()).isInstanceOf(Prompt.Chat.class);
    Prompt.Chat chat = (Prompt.Chat) request.prompt();
    boolean openaiFormat = ((Json.Str) field(vector, "content_format")).value().equals("openai");
    List<Map<String, Json>> expected =
        ((Json.Arr) field(vector, "template_messages"))
            .items().stream().map(m -> (Map<String, Json>) ((Json.Obj) m).fields()).toList();
    assertThat(ChatNormalisation.messages(chat, openaiFormat)).isEqualTo(expected);
    List<Json> expectedTools =
        vector.get("template_tools") instanceof Json.Arr tools ? tools.items() : List.of();
    assertThat(ChatNormalisation.tools(chat)).isEqualTo(expectedTools);
    assertThat(request.cacheSalt())
        .isEqualTo(vector.get("cache_salt") instanceof Json.Str salt ? salt.value() : null);
  }

  private static Json field(Json.Obj object, String key) {
    return Objects.requireNonNull(object.get(key), key);
  }
}
