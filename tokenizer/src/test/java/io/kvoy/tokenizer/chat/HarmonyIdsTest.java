// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.chat.HarmonyResult.Segment;
import io.kvoy.tokenizer.encode.DjlTextEncoder;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.Objects;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Harmony prompts encoded piece by piece against the ids that vLLM 0.32 makes. */
class HarmonyIdsTest {
  private static final HarmonyRenderer RENDERER =
      new HarmonyRenderer(
          false, Clock.fixed(Instant.parse("2026-11-30T12:00:00Z"), ZoneOffset.UTC));

  private static DjlTextEncoder encoder;

  @BeforeAll
  static void createEncoder() throws IOException {
    Path file = TestData.local().resolve("tokenizers/gptoss/models/tokenizer.json");
    if (!Files.exists(file)) {
      throw new AssertionError(file + " is missing: run 'make tools' to download the tokenizers");
    }
    encoder =
        ((DjlTextEncoder.Creation.Created) DjlTextEncoder.create(Files.readString(file))).encoder();
  }

  @AfterAll
  static void closeEncoder() {
    encoder.close();
  }

  static Stream<Named<Json.Obj>> vectors() {
    return TestData.jsonLines("vectors/chat-template/gptoss.jsonl").stream()
        .filter(vector -> !TestData.string(vector, "endpoint").equals("/v1/completions"))
        // This encoder takes control tokens in user text for what they look like, Harmony does not.
        .filter(vector -> !TestData.string(vector, "id").endsWith("uni-special-text"))
        .map(vector -> Named.of(TestData.string(vector, "id"), vector));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("vectors")
  void encodesToTheWorkersIds(Json.Obj vector) {
    Json.Obj request = (Json.Obj) TestData.field(vector, "request");
    HarmonyResult result =
        RENDERER.render(
            TestData.chat(
                switch (TestData.string(vector, "id")) {
                  case "gptoss/responses/string" ->
                      TestData.object(
                          """
                          {"messages":[{"role":"user","content":"Name three rivers in Europe."}]}
                          """);
                  case "gptoss/responses/items" ->
                      TestData.object(
                          """
                          {"messages":[{"role":"system","content":"You grade apples."},
                            {"role":"user","content":"Is it red?"},
                            {"role":"assistant","content":"Yes."},
                            {"role":"user","content":[{"type":"input_text","text":"Sure?"},
                              {"type":"input_text","text":"Really?"}]}]}
                          """);
                  default -> request;
                }));

    int[] ids =
        ((HarmonyResult.Rendered) result)
            .segments().stream().flatMapToInt(HarmonyIdsTest::encode).toArray();

    assertThat(ids).containsExactly(ids(vector));
  }

  private static IntStream encode(Segment segment) {
    String text =
        switch (segment) {
          case Segment.Marker(String token) -> token;
          case Segment.Text(String part) -> part;
        };
    return IntStream.of(Objects.requireNonNull(encoder.encode(text, false)));
  }

  private static int[] ids(Json.Obj vector) {
    return ((Json.Arr) TestData.field(vector, "token_ids"))
        .items().stream().mapToInt(id -> (int) ((Json.Int) id).value()).toArray();
  }
}
