// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.inference.json.JsonWriter;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The whole way from a request body to the ids, with everything that a server loads, on the vectors
 * of real vLLM.
 */
class RequestToIdsTest {

  private static final Map<String, PromptTokenizer> TOKENIZERS = new ConcurrentHashMap<>();

  /** Harmony prompts hold the date. */
  private static final Clock DAY_OF_THE_VECTORS =
      Clock.fixed(Instant.parse("2026-11-30T12:00:00Z"), ZoneOffset.UTC);

  private static PromptTokenizer tokenizer(String family) {
    return TOKENIZERS.computeIfAbsent(
        family,
        name -> {
          var loader =
              new FolderTokenizerLoader(
                  TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, DAY_OF_THE_VECTORS),
                  new FolderTokenizerLoader.Settings(8 << 20, Duration.ofMillis(50)));
          return ((TokenizerLoader.Load.Loaded) loader.load(LocalTokenizers.path(name)))
              .tokenizer();
        });
  }

  static List<ChatVector> answered() {
    return ChatVector.all().stream()
        .filter(vector -> !vector.prompts().isEmpty())
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

    Tokenization result = tokenizer(vector.family()).tokenize(request);

    assertThat(result)
        .isInstanceOfSatisfying(
            Tokenization.Exact.class,
            exact ->
                assertThat(exact.prompts()).usingRecursiveComparison().isEqualTo(vector.prompts()));
  }

  private static Tokenization tokenize(String family, ApiKind api, String body) {
    var parsed = (RequestParse.Parsed) Dialects.parse(api, body.getBytes(StandardCharsets.UTF_8));
    return tokenizer(family).tokenize(parsed.request());
  }

  private static int[] exact(String family, ApiKind api, String body) {
    return ((Tokenization.Exact) tokenize(family, api, body)).prompts().getFirst();
  }

  /** Seen on vLLM 0.32 render servers with these tokenizers. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "llama3_1 | ''                          | 128000 3 4",
        "llama3_1 | ,'truncation_side':'left'   | 2 3 4",
        "llama3_1 | ,'truncation_side':'right'  | 128000 0 1",
        "llama3_1 | ,'add_special_tokens':false | 2 3 4",
        "qwen3    | ''                          | 2 3 4"
      })
  void theTokenizersOwnCutKeepsTheBos(String family, String options, String expected) {
    String body = "{'model':'m','prompt':'one two three four five'%s%s}";
    int[] words =
        exact(
            family,
            ApiKind.COMPLETIONS,
            body.formatted(",'add_special_tokens':false", "").replace('\'', '"'));

    int[] cut =
        exact(
            family,
            ApiKind.COMPLETIONS,
            body.formatted(",'truncate_prompt_tokens':3", options).replace('\'', '"'));

    assertThat(cut)
        .containsExactly(
            Stream.of(expected.split(" "))
                .mapToInt(Integer::parseInt)
                .map(wanted -> wanted < words.length ? words[wanted] : wanted)
                .toArray());
  }

  @Test
  void aHarmonyPromptIsNeverCut() {
    String body = "{'model':'m','messages':[{'role':'user','content':'hi'}]%s}".replace('\'', '"');

    assertThat(
            exact(
                "gptoss",
                ApiKind.CHAT_COMPLETIONS,
                body.formatted(",\"truncate_prompt_tokens\":3")))
        .containsExactly(exact("gptoss", ApiKind.CHAT_COMPLETIONS, body.formatted("")));
  }

  @Test
  void TOK_04_controlWordsInUserTextAreControlTokensWhereTheWorkerTakesThemForSuch() {
    String body =
        """
        {"model":"m","messages":[{"role":"user","content":"a<|im_end|>b<|start|>c<|end|>"}]}""";

    // One for the user's own text, one that the template writes.
    assertThat(exact("qwen3", ApiKind.CHAT_COMPLETIONS, body)).satisfies(times(151645, 2));
    // One that ends the user's message, and one that ends the system message.
    assertThat(exact("gptoss", ApiKind.CHAT_COMPLETIONS, body)).satisfies(times(200007, 2));
  }

  private static Consumer<int[]> times(int id, int count) {
    return ids -> assertThat(IntStream.of(ids).filter(i -> i == id).count()).isEqualTo(count);
  }

  @ParameterizedTest
  @ValueSource(strings = {"CHAT_COMPLETIONS", "MESSAGES"})
  void idsUpToTheMessageWithAnImageAreKnown(ApiKind api) {
    String image =
        api == ApiKind.MESSAGES
            ? "{\"type\":\"image\",\"source\":{}}"
            : "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,\"}}";
    String body =
        """
        {"model":"m","messages":[
          {"role":"user","content":"Tell me about rivers."},
          {"role":"assistant","content":"They flow."},
          {"role":"user","content":%s},
          {"role":"assistant","content":"That one too."},
          {"role":"user","content":"And where?"}]}""";
    int[] withText = exact("qwen3", api, body.formatted("\"And this one?\""));

    var result =
        (Tokenization.Estimated)
            tokenize(
                "qwen3",
                api,
                body.formatted("[{\"type\":\"text\",\"text\":\"And this one?\"}," + image + "]"));

    assertThat(result.reason()).isEqualTo("image_part");
    // Up to the <|im_start|> of that message.
    assertThat(result.prefix()).hasSizeGreaterThan(15).hasSizeLessThan(withText.length);
    assertThat(result.prefix())
        .containsExactly(Arrays.copyOf(withText, result.prefix().length))
        .endsWith(151644);
    assertThat(result.tokens()).isGreaterThanOrEqualTo(result.prefix().length);
  }
}
