// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.inference.json.JsonWriter;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import java.time.Clock;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The whole way from a request body to the ids, with everything that a server loads, on the vectors
 * of real vLLM.
 */
class RequestToIdsTest {

  private static final Map<String, PromptTokenizer> TOKENIZERS = new ConcurrentHashMap<>();

  private static PromptTokenizer tokenizer(String family) {
    return TOKENIZERS.computeIfAbsent(
        family,
        name -> {
          var loader =
              new FolderTokenizerLoader(
                  TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, Clock.systemUTC()),
                  new FolderTokenizerLoader.Settings(8 << 20, Duration.ofMillis(50)));
          return ((TokenizerLoader.Load.Loaded) loader.load(LocalTokenizers.path(name)))
              .tokenizer();
        });
  }

  static List<ChatVector> answered() {
    return ChatVector.all().stream()
        .filter(vector -> !vector.prompts().isEmpty())
        .filter(vector -> vector.request().get("truncate_prompt_tokens") == null)
        // These workers were started with a template of ours instead of the folder's.
        .filter(vector -> !vector.id().startsWith("llama3_1-tools/"))
        .filter(vector -> !vector.id().startsWith("qwen3-wide/"))
        .toList();
  }

  @ParameterizedTest
  @MethodSource("answered")
  void TOK_03_idsOfARequestEqualThoseOfVllm(ChatVector vector) {
    ApiKind api = Dialects.ofPath(vector.endpoint());
    byte[] body = JsonWriter.bytes(vector.request());
    var request = ((RequestParse.Parsed) Dialects.parse(api, body)).request();

    Tokenization result = tokenizer(vector.family()).tokenize(request.prompt());

    if (vector.family().equals("gptoss") && api != ApiKind.COMPLETIONS) {
      // Harmony is vLLM's own code; the honest answer is an estimate.
      assertThat(result)
          .isInstanceOfSatisfying(
              Tokenization.Estimated.class,
              estimated -> assertThat(estimated.reason()).isEqualTo("template_feature"));
      return;
    }
    assertThat(result)
        .isInstanceOfSatisfying(
            Tokenization.Exact.class,
            exact ->
                assertThat(exact.prompts()).usingRecursiveComparison().isEqualTo(vector.prompts()));
  }
}
