// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;

import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.files.FolderProblem;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
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
  void aGivenTemplateStandsForAllTemplatesOfTheFolder() throws IOException {
    smallTokenizer();
    Files.writeString(
        folder.resolve("tokenizer_config.json"),
        """
        {"chat_template":[{"name":"default","template":"own"},{"name":"tool_use","template":"t"}]}
        """);
    Path given = Files.writeString(folder.resolve("given.jinja"), "given {{ messages|length }}");
    var rendered = new ArrayList<ChatText.Rendering>();
    Prompt.Chat chat =
        new Prompt.Chat(
            List.of(
                Json.Obj.of(Map.of("role", new Json.Str("user"), "content", new Json.Str("x")))),
            List.of(),
            ChatOptions.DEFAULTS);
    var loader =
        new FolderTokenizerLoader(
            read -> {
              ChatText text =
                  TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, Clock.systemUTC())
                      .forFolder(read);
              rendered.add(text.render(chat));
              return text;
            },
            SHORT_CHECK);

    loader.load(folder);
    loader.load(folder, Optional.of(given));

    assertThat(rendered)
        .containsExactly(
            new ChatText.Rendering.Rendered("own"), new ChatText.Rendering.Rendered("given 1"));
    assertThat(loader.load(folder, Optional.of(folder.resolve("absent.jinja"))))
        .isInstanceOfSatisfying(
            TokenizerLoader.Load.Failed.class,
            failed -> assertThat(failed.problem().kind()).isEqualTo(FolderProblem.Kind.ABSENT));
  }

  @Test
  void flagsOfTheWorkersReachTheTemplate() {
    var loader =
        new FolderTokenizerLoader(
            TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, Clock.systemUTC()), SHORT_CHECK);
    Path qwen3 = LocalTokenizers.path("qwen3");
    Prompt hello =
        new Prompt.Chat(
            List.of(
                Json.Obj.of(Map.of("role", new Json.Str("user"), "content", new Json.Str("x")))),
            List.of(),
            ChatOptions.DEFAULTS);
    var noThinking =
        new ChatTemplateOptions(
            null, Json.Obj.of(Map.of("enable_thinking", new Json.Bool(false))), false);

    int[] plain = ids(loader.load(TokenizerSource.of(qwen3)), hello);
    int[] flagged =
        ids(loader.load(new TokenizerSource(qwen3, Optional.empty(), noThinking)), hello);

    // Qwen3 then opens the answer with an empty <think></think>: 151667, 271, 151668, 271.
    assertThat(flagged).startsWith(plain).hasSize(plain.length + 4);
    assertThat(flagged).endsWith(151_667, 271, 151_668, 271);
  }

  /** All that serves: fast encoder, word cache, segment cache, templates. */
  @Test
  void TOK_06_thirtyTwoThreadsGetTheIdsOfOne() throws Exception {
    var loader =
        new FolderTokenizerLoader(
            TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, Clock.systemUTC()),
            // So small a cache that it is full all the time.
            new FolderTokenizerLoader.Settings(1 << 20, Duration.ofMillis(50)));
    TokenizerLoader.Load served = loader.load(TokenizerSource.of(LocalTokenizers.path("qwen3")));
    assertThat(((TokenizerLoader.Load.Loaded) served).encoder()).startsWith("bpe");
    List<Prompt> prompts = new ArrayList<>();
    Random random = new Random(6);
    for (int i = 0; i < 64; i++) {
      StringBuilder text = new StringBuilder();
      int words = 1 << random.nextInt(13);
      for (int w = 0; w < words; w++) {
        text.append(WORDS.get(random.nextInt(WORDS.size())));
      }
      prompts.add(
          i % 2 == 0
              ? new Prompt.Texts(List.of(text.toString()), i % 4 == 0)
              : new Prompt.Chat(
                  List.of(
                      Json.Obj.of(
                          Map.of(
                              "role",
                              new Json.Str("user"),
                              "content",
                              new Json.Str(text.toString())))),
                  List.of(),
                  ChatOptions.DEFAULTS));
    }
    List<int[]> expected = prompts.stream().map(prompt -> ids(served, prompt)).toList();

    List<Future<?>> threads = new ArrayList<>();
    try (ExecutorService pool = Executors.newFixedThreadPool(32)) {
      for (int t = 0; t < 32; t++) {
        int first = t;
        threads.add(
            pool.submit(
                () -> {
                  for (int i = 0; i < 256; i++) {
                    int which = (first * 7 + i) % prompts.size();
                    assertThat(ids(served, prompts.get(which)))
                        .as("prompt %d", which)
                        .isEqualTo(expected.get(which));
                  }
                }));
      }
    }
    for (Future<?> thread : threads) {
      thread.get();
    }
  }

  private static final List<String> WORDS =
      List.of(
          " the",
          " router",
          "'ll",
          "\n\n",
          "  ",
          " 2026",
          "é",
          " Ünïcödé",
          "漢字",
          "👩‍💻",
          "<|im_end|>",
          " return x;",
          "\t",
          " aaaaaaaaaaaaaaaaaaaaaaaa",
          "{\"a\":1}");

  private static int[] ids(TokenizerLoader.Load load, Prompt prompt) {
    return ((Tokenization.Exact) ((TokenizerLoader.Load.Loaded) load).tokenizer().tokenize(prompt))
        .prompts()
        .getFirst();
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
