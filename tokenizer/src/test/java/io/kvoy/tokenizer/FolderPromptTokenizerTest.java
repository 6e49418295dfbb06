// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.encode.LoneSurrogates;
import io.kvoy.tokenizer.encode.TextEncoder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class FolderPromptTokenizerTest {

  private static final Prompt.Chat HELLO =
      new Prompt.Chat(
          List.of(Json.Obj.of(Map.of("content", new Json.Str("hello, you")))),
          List.of(),
          ChatOptions.DEFAULTS);

  /** One id per character, that of a c in front when special tokens are asked for. */
  private static final TextEncoder CHARACTERS =
      (text, special) ->
          LoneSurrogates.indexOf(text, 0, text.length()) >= 0
              ? null
              : (special ? "c" + text : text).chars().toArray();

  static List<ChatVector> renderedByTemplate() {
    return ChatVector.all().stream()
        .filter(vector -> vector.text() != null)
        .filter(vector -> vector.request().get("truncate_prompt_tokens") == null)
        // Harmony encodes a message without looking for control tokens, so its decoded text is
        // ambiguous.
        .filter(vector -> !vector.id().equals("gptoss/chat/uni-special-text"))
        .toList();
  }

  @ParameterizedTest
  @MethodSource("renderedByTemplate")
  void idsOfARenderedConversationEqualThoseOfVllm(ChatVector vector) {
    ChatText rendered = _ -> new ChatText.Rendering.Rendered(String.valueOf(vector.text()));
    var tokenizer = new FolderPromptTokenizer(LocalTokenizers.djl(vector.family()), rendered);

    Tokenization result =
        tokenizer.tokenize(new Prompt.Chat(List.of(), List.of(), options(vector)));

    assertExact(result, vector.prompts());
  }

  static ChatOptions options(ChatVector vector) {
    Boolean addSpecialTokens =
        vector.request().get("add_special_tokens") instanceof Json.Bool(boolean special)
            ? special
            : null;
    ApiKind api =
        vector.endpoint().equals("/v1/responses") ? ApiKind.RESPONSES : ApiKind.CHAT_COMPLETIONS;
    return new ChatOptions(null, null, addSpecialTokens, null, null, null, null, null, api);
  }

  static List<ChatVector> completionsWithTexts() {
    return ChatVector.all().stream()
        .filter(vector -> vector.endpoint().equals("/v1/completions"))
        .filter(vector -> vector.request().get("truncate_prompt_tokens") == null)
        .toList();
  }

  @ParameterizedTest
  @MethodSource("completionsWithTexts")
  void TOK_03_idsOfACompletionEqualThoseOfVllm(ChatVector vector) {
    var tokenizer = tokenizer(LocalTokenizers.djl(vector.family()), HELLO_REFUSED);

    Tokenization result = tokenizer.tokenize(completionPrompt(vector.request()));

    assertExact(result, vector.prompts());
  }

  private static final ChatText HELLO_REFUSED = _ -> new ChatText.Rendering.Refused("no");

  @Test
  void textsGetSpecialTokensAndConversationsDoNotUnlessAsked() {
    var tokenizer = tokenizer(CHARACTERS, _ -> new ChatText.Rendering.Rendered("ab"));
    var asked = new ChatOptions(null, null, true, null, null, null, null, null);

    assertExact(
        tokenizer.tokenize(new Prompt.Texts(List.of("ab"), true)),
        List.of(new int[] {'c', 'a', 'b'}));
    assertExact(tokenizer.tokenize(HELLO), List.of(new int[] {'a', 'b'}));
    assertExact(
        tokenizer.tokenize(new Prompt.Chat(List.of(), List.of(), asked)),
        List.of(new int[] {'c', 'a', 'b'}));
  }

  @Test
  void tokenIdsPassUnchanged() {
    var tokenizer = tokenizer(CHARACTERS, HELLO_REFUSED);
    var prompts = List.of(new int[] {3, 1}, new int[] {});

    assertExact(tokenizer.tokenize(new Prompt.Tokens(prompts)), prompts);
  }

  @Test
  void whatIsNotExactIsAnEstimateWithItsReason() {
    record Row(ChatText chat, Prompt prompt, int tokens, String reason) {}
    ChatText unsupported = _ -> new ChatText.Rendering.Unsupported("strftime");
    ChatText failed = _ -> new ChatText.Rendering.Failed("too_long");
    ChatText broken =
        _ -> {
          throw new IllegalStateException("bug");
        };
    ChatText lone = _ -> new ChatText.Rendering.Rendered("ab\uD83D cdefgh");

    for (Row row :
        List.of(
            new Row(HELLO_REFUSED, HELLO, 3, "template_refused"),
            new Row(unsupported, HELLO, 3, "template_feature.strftime"),
            new Row(failed, HELLO, 3, "template_failed"),
            new Row(broken, HELLO, 3, "template_failed"),
            new Row(lone, HELLO, 3, "lone_surrogate"),
            new Row(broken, new Prompt.Texts(List.of("\uDE00"), true), 1, "lone_surrogate"),
            new Row(broken, new Prompt.Unreadable("image_part", 401), 101, "image_part"))) {
      assertThat(tokenizer(CHARACTERS, row.chat).tokenize(row.prompt))
          .isEqualTo(new Tokenization.Estimated(row.tokens, row.reason));
    }
  }

  @Test
  void aBrokenEncoderCostsAnEstimateNotTheRequest() {
    var tokenizer =
        tokenizer(
            (_, _) -> {
              throw new IllegalStateException("closed");
            },
            HELLO_REFUSED);

    assertThat(tokenizer.tokenize(new Prompt.Texts(List.of("abcd"), false)))
        .isEqualTo(new Tokenization.Estimated(1, "encoder_failed"));
  }

  private static FolderPromptTokenizer tokenizer(TextEncoder encoder, ChatText chat) {
    return new FolderPromptTokenizer(encoder, chat);
  }

  private static Prompt completionPrompt(Json.Obj request) {
    boolean special =
        !(request.get("add_special_tokens") instanceof Json.Bool(boolean value)) || value;
    return switch (request.get("prompt")) {
      case Json.Str(String text) -> new Prompt.Texts(List.of(text), special);
      case Json.Arr(List<Json> items) when items.getFirst() instanceof Json.Int ->
          new Prompt.Tokens(List.of(ChatVector.ids(new Json.Arr(items))));
      case Json.Arr(List<Json> items) when items.getFirst() instanceof Json.Arr ->
          new Prompt.Tokens(items.stream().map(item -> ChatVector.ids((Json.Arr) item)).toList());
      case Json.Arr(List<Json> items) -> {
        var texts = new ArrayList<String>();
        items.forEach(item -> texts.add(String.valueOf(item.asString())));
        yield new Prompt.Texts(texts, special);
      }
      case null, default -> throw new AssertionError("a prompt of another shape");
    };
  }

  private static void assertExact(Tokenization result, List<int[]> prompts) {
    assertThat(result).isInstanceOf(Tokenization.Exact.class);
    assertThat(((Tokenization.Exact) result).prompts())
        .usingRecursiveComparison()
        .isEqualTo(prompts);
  }
}
