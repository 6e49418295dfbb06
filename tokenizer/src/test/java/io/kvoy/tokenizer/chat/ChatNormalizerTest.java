// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Odd requests against what vLLM 0.32 hands to the template for them, from {@code
 * tools/chat-templates/normalize.py}. What vLLM answers 400 for is left out: nothing is rendered
 * there.
 */
class ChatNormalizerTest {
  private static Stream<Json.Obj> goldens() {
    return TestData.jsonLines("goldens/normalized.jsonl").stream();
  }

  static Stream<Named<Json.Obj>> messages() {
    return goldens()
        .filter(golden -> golden.get("string") instanceof Json.Arr)
        .map(golden -> Named.of(TestData.string(golden, "id"), golden));
  }

  static Stream<Named<Json.Obj>> tools() {
    return goldens()
        .filter(golden -> golden.get("tools") instanceof Json.Arr)
        // Text for a flag: pydantic takes it, the normalizer says that it does not know.
        .filter(golden -> !TestData.string(golden, "id").equals("tool-strict-text"))
        .map(golden -> Named.of(TestData.string(golden, "id"), golden));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("messages")
  void joinsContentAsTheWorkerDoes(Json.Obj golden) throws Exception {
    assertThat(normalized(golden, ContentFormat.STRING))
        .isEqualTo(TestData.text(golden.get("string")));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("messages")
  void wrapsContentAsTheWorkerDoes(Json.Obj golden) throws Exception {
    assertThat(normalized(golden, ContentFormat.OPENAI))
        .isEqualTo(TestData.text(golden.get("openai")));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("tools")
  void dumpsToolsAsTheWorkerDoes(Json.Obj golden) throws Exception {
    Prompt.Chat chat = TestData.chat((Json.Obj) TestData.field(golden, "request"));

    assertThat(TestData.text(ChatNormalizer.tools(chat.tools())))
        .isEqualTo(TestData.text(golden.get("tools")));
  }

  private static String normalized(Json.Obj golden, ContentFormat format) throws Exception {
    Prompt.Chat chat = TestData.chat((Json.Obj) TestData.field(golden, "request"));
    return TestData.text(
        new Json.Arr(List.copyOf(ChatNormalizer.messages(chat.messages(), format, false))));
  }
}
