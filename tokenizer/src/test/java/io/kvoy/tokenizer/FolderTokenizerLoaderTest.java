// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;

import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.files.FolderProblem;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class FolderTokenizerLoaderTest {

  private static final FolderTokenizerLoader.Settings SHORT_CHECK =
      new FolderTokenizerLoader.Settings(1 << 20, Duration.ofMillis(50));

  /** The conversation's only text is the rendered prompt. */
  private static final ChatTextFactory ECHO =
      _ ->
          chat ->
              new ChatText.Rendering.Rendered(
                  String.valueOf(
                      Objects.requireNonNull(chat.messages().getFirst().get("content"))
                          .asString()));

  @TempDir Path folder;

  @ParameterizedTest
  @CsvSource({
    "qwen3, bpe (equal to djl",
    "llama3_1, bpe (equal to djl",
    "deepseek_v3, bpe (equal to djl",
    "gptoss, bpe (equal to djl",
    "gemma3, djl (normalizer)"
  })
  void theLoadedTokenizerGivesTheIdsOfVllm(String family, String encoder) {
    var loaded = load(new FolderTokenizerLoader(ECHO, SHORT_CHECK), LocalTokenizers.path(family));

    assertThat(loaded.encoder()).startsWith(encoder);
    for (ChatVector vector : FolderPromptTokenizerTest.renderedByTemplate()) {
      if (vector.family().equals(family)) {
        Prompt prompt = chat(vector);
        // Twice: the second time the segment cache knows the text.
        for (int i = 0; i < 2; i++) {
          assertThat(loaded.tokenizer().tokenize(prompt))
              .as(vector.id())
              .isInstanceOfSatisfying(
                  Tokenization.Exact.class,
                  exact ->
                      assertThat(exact.prompts())
                          .usingRecursiveComparison()
                          .isEqualTo(vector.prompts()));
        }
      }
    }
  }

  private static Prompt chat(ChatVector vector) {
    return new Prompt.Chat(
        List.of(Json.Obj.of(Map.of("content", new Json.Str(String.valueOf(vector.text()))))),
        List.of(),
        FolderPromptTokenizerTest.options(vector));
  }

  @Test
  void withoutABudgetTheReferenceServes() throws IOException {
    smallTokenizer();

    var loaded =
        load(
            new FolderTokenizerLoader(ECHO, new FolderTokenizerLoader.Settings(0, Duration.ZERO)),
            folder);

    assertThat(loaded.encoder()).isEqualTo("djl (as configured)");
  }

  @Test
  void aFileThatTheFastEncoderDoesNotKnowIsServedByTheReference() throws IOException {
    smallTokenizer();

    assertThat(load(new FolderTokenizerLoader(ECHO, SHORT_CHECK), folder).encoder())
        .isEqualTo("djl (pre_tokenizer_step)");
  }

  @Test
  void TOK_01_whatCannotBeLoadedIsAProblemWithANextStep() throws IOException {
    record Row(String json, FolderProblem.Kind kind) {}
    for (Row row :
        List.of(
            new Row("{\"model\":{\"type\":\"Nope\"}}", FolderProblem.Kind.UNSUPPORTED),
            new Row("{}", FolderProblem.Kind.MALFORMED))) {
      Files.writeString(folder.resolve("tokenizer.json"), row.json);
      assertThat(new FolderTokenizerLoader(ECHO, SHORT_CHECK).load(folder))
          .isInstanceOfSatisfying(
              TokenizerLoader.Load.Failed.class,
              failed -> {
                assertThat(failed.problem().kind()).isEqualTo(row.kind);
                assertThat(failed.problem().nextStep()).isNotEmpty();
              });
    }
  }

  private void smallTokenizer() throws IOException {
    Files.writeString(
        folder.resolve("tokenizer.json"),
        """
        {"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
         "pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,"decoder":null,
         "model":{"type":"WordLevel","vocab":{"?":0},"unk_token":"?"}}""");
  }

  private static TokenizerLoader.Load.Loaded load(FolderTokenizerLoader loader, Path path) {
    return switch (loader.load(path)) {
      case TokenizerLoader.Load.Loaded loaded -> loaded;
      case TokenizerLoader.Load.Failed(FolderProblem problem) -> fail(problem.oneLine());
    };
  }
}
