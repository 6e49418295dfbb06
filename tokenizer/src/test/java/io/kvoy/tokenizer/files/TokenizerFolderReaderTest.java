// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.tokenizer.LocalTokenizers;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TokenizerFolderReaderTest {

  @TempDir Path path;

  @BeforeEach
  void smallestFolder() throws IOException {
    write("tokenizer.json", "{\"model\":{}}");
  }

  @Test
  void tokenizerJsonAloneIsEnough() {
    TokenizerFolder folder = complete();

    assertThat(folder.tokenizerJson()).isEqualTo("{\"model\":{}}");
    assertThat(folder.addedTokens()).isEmpty();
    assertThat(folder.specialTokens()).isEmpty();
    assertThat(folder.chatTemplates().choose(false)).isEmpty();
    assertThat(folder.ownChatRenderer()).isEmpty();
  }

  @Test
  void addedTokensComeWithTheirFlags() throws IOException {
    write(
        "tokenizer.json",
        """
        {"added_tokens":[{"id":7,"content":"<a>","single_word":false,"lstrip":true,
         "rstrip":false,"normalized":true,"special":true},{"id":8,"content":"<b>"}],
         "model":{"vocab":{"x":1}}}""");

    assertThat(complete().addedTokens())
        .containsExactly(
            new AddedToken(7, "<a>", false, true, false, true, true),
            new AddedToken(8, "<b>", false, false, false, false, false));
  }

  @Test
  void tokensThatOnlyTheConfigurationKnowsAreAddedAsTransformersDoes() throws IOException {
    String config =
        """
        {"added_tokens_decoder":{"12":{"content":"<d>","normalized":true,"rstrip":true},
          "9":{"content":"<c>","special":true},"1":{"content":"<a>","lstrip":true}},
         "bos_token":"<b\u00e9\\">","eos_token":{"content":"<c>"},
         "additional_special_tokens":["<e>","<a>"]}""";
    for (String inFile :
        List.of(
            "\"added_tokens\":[{\"id\":1,\"content\":\"<a>\"} ],", "\"added_tokens\":[],", "")) {
      write("tokenizer.json", "{\"version\":\"1.0\"," + inFile + "\"model\":{\"x\":[\"]\"]}}");
      write("tokenizer_config.json", config);

      TokenizerFolder folder = complete();

      assertThat(folder.addedTokens().subList(1, 5))
          .containsExactly(
              new AddedToken(9, "<c>", false, false, false, false, true),
              new AddedToken(12, "<d>", false, false, true, true, false),
              new AddedToken(-1, "<b\u00e9\">", false, false, false, false, true),
              new AddedToken(-1, "<e>", false, false, false, false, true));
      write("tokenizer.json", folder.tokenizerJson());
      write("tokenizer_config.json", "{}");
      assertThat(complete().addedTokens())
          .as("what the encoder reads")
          .extracting(AddedToken::content)
          .containsExactly("<a>", "<c>", "<d>", "<b\u00e9\">", "<e>");
    }
  }

  @Test
  void splittingSpecialTokensIsRefused() throws IOException {
    write("tokenizer_config.json", "{\"split_special_tokens\":true}");

    assertThat(problem().kind()).isEqualTo(FolderProblem.Kind.UNSUPPORTED);
  }

  @Test
  void specialTokensAreStringsOrObjectsAndNullsAreLeftOut() throws IOException {
    write(
        "tokenizer_config.json",
        """
        {"added_tokens_decoder":{}, "bos_token":{"__type":"AddedToken","content":"<s>"},
         "eos_token":"</s>", "unk_token":null, "add_bos_token":true,
         "extra_special_tokens":{"image_token":"<img>"}}""");
    write("special_tokens_map.json", "{\"eos_token\":\"<other>\"}");

    assertThat(complete().specialTokens())
        .containsExactlyInAnyOrderEntriesOf(
            Map.of("bos_token", "<s>", "eos_token", "</s>", "image_token", "<img>"));
  }

  @Test
  void theOlderMapOfSpecialTokensWinsWhereThereIsNoDecoderTable() throws IOException {
    write("tokenizer_config.json", "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
    write("special_tokens_map.json", "{\"eos_token\":{\"content\":\"<end>\"}}");

    assertThat(complete().specialTokens())
        .containsExactlyInAnyOrderEntriesOf(Map.of("bos_token", "<s>", "eos_token", "<end>"));
  }

  @Test
  void aSingleTemplateServesWithAndWithoutTools() throws IOException {
    write("tokenizer_config.json", "{\"chat_template\":\"one\"}");

    assertChoice("one", "one");
  }

  @Test
  void ofNamedTemplatesToolUseServesTools() throws IOException {
    write(
        "tokenizer_config.json",
        """
        {"chat_template":[{"name":"default","template":"plain"},
         {"name":"tool_use","template":"tools"},{"name":"rag","template":"other"}]}""");

    assertChoice("plain", "tools");
  }

  @Test
  void namedTemplatesWithoutADefaultServeOnlyTools() throws IOException {
    write(
        "tokenizer_config.json",
        "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"tools\"}]}");

    ChatTemplates templates = complete().chatTemplates();
    assertThat(templates.choose(false)).isEmpty();
    assertThat(templates.choose(true)).contains("tools");
  }

  @Test
  void aJinjaFileOverrulesEveryOtherPlace() throws IOException {
    write("tokenizer_config.json", "{\"chat_template\":\"config\"}");
    write("chat_template.json", "{\"chat_template\":\"processor\"}");
    write("chat_template.jinja", "file");

    assertChoice("file", "file");
  }

  @Test
  void additionalTemplateFilesHaveNames() throws IOException {
    write("tokenizer_config.json", "{\"chat_template\":\"config\"}");
    write("chat_template.jinja", "file");
    Files.createDirectory(path.resolve("additional_chat_templates"));
    write("additional_chat_templates/tool_use.jinja", "file with tools");

    assertChoice("file", "file with tools");
  }

  @Test
  void theProcessorsTemplateServesOnlyWithoutTools() throws IOException {
    write("tokenizer_config.json", "{\"chat_template\":\"config\"}");
    write("chat_template.json", "{\"chat_template\":\"processor\"}");

    assertChoice("processor", "config");
  }

  @Test
  void modelsThatVllmRendersByItsOwnCodeAreNamed() throws IOException {
    record Row(String config, Optional<String> renderer) {}
    for (Row row :
        List.of(
            new Row("{\"model_type\":\"gpt_oss\"}", Optional.of("harmony")),
            new Row(
                "{\"architectures\":[\"DeepseekV32ForCausalLM\"]}", Optional.of("deepseek_v32")),
            new Row("{\"architectures\":[\"Qwen3ForCausalLM\"]}", Optional.empty()),
            new Row("{\"architectures\":[]}", Optional.empty()))) {
      write("config.json", row.config);
      assertThat(complete().ownChatRenderer()).isEqualTo(row.renderer);
    }
  }

  @Test
  void problemsSayWhatWhereAndWhatNext() throws IOException {
    record Row(String file, String text, FolderProblem.Kind kind, String what) {}
    for (Row row :
        List.of(
            new Row("tokenizer.json", "{", FolderProblem.Kind.MALFORMED, "not valid JSON at line"),
            new Row("tokenizer.json", "[1]", FolderProblem.Kind.MALFORMED, "not a JSON object"),
            new Row("tokenizer.json", "{}", FolderProblem.Kind.MALFORMED, "no field \"model\""),
            new Row(
                "tokenizer.json",
                "{\"added_tokens\":[{\"id\":-1,\"content\":\"x\"}],\"model\":{}}",
                FolderProblem.Kind.MALFORMED,
                "lacks id or content"),
            new Row("tokenizer_config.json", "nope", FolderProblem.Kind.MALFORMED, "line 1"),
            new Row("config.json", "7", FolderProblem.Kind.MALFORMED, "not a JSON object"))) {
      smallestFolder();
      write(row.file, row.text);
      FolderProblem problem = problem();
      assertThat(problem.kind()).isEqualTo(row.kind);
      assertThat(problem.what()).contains(row.what);
      assertThat(problem.file()).isEqualTo(path.resolve(row.file));
      assertThat(problem.nextStep()).isNotEmpty();
      Files.delete(path.resolve(row.file));
    }
  }

  @Test
  void TOK_01_anAbsentFolderIsAProblemNotAnException() {
    assertThat(TokenizerFolderReader.read(path.resolve("absent")))
        .isInstanceOfSatisfying(
            FolderRead.Unusable.class,
            unusable -> assertThat(unusable.problem().kind()).isEqualTo(FolderProblem.Kind.ABSENT));
  }

  @Test
  void filesBeyondTheirLimitAreNotRead() throws IOException {
    try (var file = new RandomAccessFile(path.resolve("config.json").toFile(), "rw")) {
      file.setLength(TokenizerFolderReader.MAX_CONFIG_BYTES + 1);
    }

    assertThat(problem().kind()).isEqualTo(FolderProblem.Kind.TOO_LARGE);
  }

  @Test
  void bytesThatAreNotUtf8AreAProblem() throws IOException {
    Files.write(path.resolve("tokenizer_config.json"), new byte[] {'{', (byte) 0xC3, '}'});

    assertThat(problem().what()).contains("UTF-8");
  }

  @Test
  void deepNestingIsAProblemNotAStackOverflow() throws IOException {
    write("tokenizer_config.json", "[".repeat(100_000));

    assertThat(problem().kind()).isEqualTo(FolderProblem.Kind.MALFORMED);
  }

  @Test
  void realFoldersAreRead() {
    record Row(String name, int addedTokens, String bos, Optional<String> renderer) {}
    for (Row row :
        List.of(
            new Row("qwen3", 26, "null", Optional.empty()),
            new Row("llama3_1", 256, "<|begin_of_text|>", Optional.empty()),
            new Row("gemma3", 6415, "<bos>", Optional.empty()),
            new Row("deepseek_v3", 818, "<｜begin▁of▁sentence｜>", Optional.empty()),
            new Row("gptoss", 21, "<|startoftext|>", Optional.of("harmony")))) {
      TokenizerFolder folder = LocalTokenizers.folder(row.name);
      assertThat(folder.addedTokens()).hasSize(row.addedTokens);
      assertThat(String.valueOf(folder.specialTokens().get("bos_token"))).isEqualTo(row.bos);
      assertThat(folder.ownChatRenderer()).isEqualTo(row.renderer);
      assertThat(folder.chatTemplates().choose(true).isPresent()).isEqualTo(row.renderer.isEmpty());
    }
  }

  private void assertChoice(String withoutTools, String withTools) {
    ChatTemplates templates = complete().chatTemplates();
    assertThat(templates.choose(false)).contains(withoutTools);
    assertThat(templates.choose(true)).contains(withTools);
  }

  private TokenizerFolder complete() {
    return ((FolderRead.Complete) TokenizerFolderReader.read(path)).folder();
  }

  private FolderProblem problem() {
    return ((FolderRead.Unusable) TokenizerFolderReader.read(path)).problem();
  }

  private void write(String file, String text) throws IOException {
    Files.writeString(path.resolve(file), text, StandardCharsets.UTF_8);
  }
}
