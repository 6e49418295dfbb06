// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.InferenceRequest.Truncation;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.files.FolderProblem;
import io.kvoy.tokenizer.files.TestJson;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalLong;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A folder with Mistral's own file. The goldens are ids of mistral_common 1.13.1 with its {@code
 * tekken_240911.json}: parts of source files, words of many scripts, random code points.
 */
class TekkenFolderTest {

  private static final FolderTokenizerLoader LOADER =
      new FolderTokenizerLoader(
          TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, Clock.systemUTC()),
          new FolderTokenizerLoader.Settings(1 << 20, Duration.ofMillis(50)));

  private static TokenizerLoader.Load.Loaded loaded;

  @TempDir Path folder;

  @BeforeAll
  static void load() {
    loaded = (TokenizerLoader.Load.Loaded) LOADER.load(LocalTokenizers.tekken());
  }

  @Test
  void idsEqualThoseOfMistralsOwnTokenizer() throws IOException {
    assertThat(loaded.encoder()).startsWith("bpe (equal to djl");
    try (var in = Objects.requireNonNull(getClass().getResourceAsStream("/goldens/tekken.jsonl"))) {
      List<String> lines = new String(in.readAllBytes(), StandardCharsets.UTF_8).lines().toList();
      assertThat(lines).hasSizeGreaterThan(300);
      for (String line : lines) {
        Json.Obj golden = (Json.Obj) TestJson.read(line);
        String text = Objects.requireNonNull(Objects.requireNonNull(golden.get("text")).asString());
        int[] ids = ChatVector.ids((Json.Arr) Objects.requireNonNull(golden.get("ids")));

        assertThat(ids(new Prompt.Texts(List.of(text), false))).as(text).containsExactly(ids);
      }
    }
  }

  @Test
  void aTextGetsTheBosAndACutKeepsItsBeginning() {
    int[] plain = ids(new Prompt.Texts(List.of("one two three four"), false));
    var prompt = new Prompt.Texts(List.of("one two three four"), true);

    assertThat(ids(prompt)).startsWith(1).hasSize(plain.length + 1);
    assertThat(ids(prompt)).endsWith(plain);
    var cut =
        (Tokenization.Exact)
            loaded
                .tokenizer()
                .tokenize(
                    new InferenceRequest(
                        ApiKind.COMPLETIONS,
                        "m",
                        prompt,
                        false,
                        false,
                        OptionalLong.empty(),
                        null,
                        1,
                        null,
                        new Truncation(3, Truncation.Side.TOKENIZER_DEFAULT)));
    assertThat(cut.prompts().getFirst()).containsExactly(1, plain[0], plain[1]);
  }

  @Test
  void chatsAreEstimatedAsMistralRendersThemByItsOwnCode() {
    var chat =
        new Prompt.Chat(
            List.of(
                Json.Obj.of(Map.of("role", new Json.Str("user"), "content", new Json.Str("hi")))),
            List.of(),
            ChatOptions.DEFAULTS);

    assertThat(loaded.tokenizer().tokenize(chat))
        .isInstanceOfSatisfying(
            Tokenization.Estimated.class,
            estimated ->
                assertThat(estimated.reason()).isEqualTo("template_feature.renderer_mistral"));
  }

  private static int[] ids(Prompt prompt) {
    return ((Tokenization.Exact) loaded.tokenizer().tokenize(prompt)).prompts().getFirst();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "[]",
        "{}",
        "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":10,\"default_num_special_tokens\":2},"
            + "\"vocab\":[]}",
        "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":3,\"default_num_special_tokens\":2},"
            + "\"vocab\":[{\"rank\":0,\"token_bytes\":\"YQ==\"}]}",
        "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":3,\"default_num_special_tokens\":2},"
            + "\"vocab\":[{\"rank\":7,\"token_bytes\":\"YQ==\"}]}",
        "{\"config\":{\"pattern\":\"a\",\"default_vocab_size\":3,\"default_num_special_tokens\":2},"
            + "\"vocab\":[{\"rank\":0,\"token_bytes\":\"!\"}]}",
        "{\"config\""
      })
  void TOK_01_whatIsNoSuchFileIsAProblem(String text) throws IOException {
    Files.writeString(folder.resolve("tekken.json"), text);

    assertThat(LOADER.load(folder))
        .isInstanceOfSatisfying(
            TokenizerLoader.Load.Failed.class,
            failed -> assertThat(failed.problem().kind()).isEqualTo(FolderProblem.Kind.MALFORMED));
  }
}
