// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import static java.nio.charset.StandardCharsets.UTF_16LE;
import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.InferenceRequest.Truncation;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.RequestParse.Malformed;
import io.kvoy.inference.RequestParse.Parsed;
import io.kvoy.inference.RequestParse.PassThrough;
import io.kvoy.inference.TestFiles;
import io.kvoy.inference.json.BodyEdit;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.inference.json.PythonJson;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class DialectsTest {
  private static final Set<ApiKind> INFERENCE = EnumSet.complementOf(EnumSet.of(ApiKind.OTHER));

  private static final String USER = "[{\"role\":\"user\",\"content\":\"hello\"}]";

  private static byte[] file(String name) {
    return TestFiles.bytes("cases/" + name);
  }

  private static InferenceRequest parsed(ApiKind api, byte[] body) {
    RequestParse parse = Dialects.parse(api, body);
    assertThat(parse).isInstanceOf(Parsed.class);
    return ((Parsed) parse).request();
  }

  private static InferenceRequest parsed(ApiKind api, String body) {
    return parsed(api, body.getBytes(UTF_8));
  }

  private static InferenceRequest chat(String fields) {
    return parsed(ApiKind.CHAT_COMPLETIONS, "{\"model\":\"m\",\"messages\":" + USER + fields + "}");
  }

  private static Malformed malformed(ApiKind api, byte[] body) {
    RequestParse parse = Dialects.parse(api, body);
    assertThat(parse).isInstanceOf(Malformed.class);
    return (Malformed) parse;
  }

  private static Malformed malformed(ApiKind api, String body) {
    return malformed(api, body.getBytes(UTF_8));
  }

  private static String doubtOf(ApiKind api, String body) {
    Prompt prompt = parsed(api, body).prompt();
    return prompt instanceof Prompt.Unreadable(String reason, int _, Prompt.Chat _)
        ? reason
        : "none";
  }

  private static String minimal(ApiKind api, String more) {
    return switch (api) {
      case CHAT_COMPLETIONS, MESSAGES, COUNT_TOKENS ->
          "{\"model\":\"m\",\"messages\":" + USER + more + "}";
      case COMPLETIONS -> "{\"model\":\"m\",\"prompt\":\"hello\"" + more + "}";
      case RESPONSES -> "{\"model\":\"m\",\"input\":\"hello\"" + more + "}";
      case OTHER -> "{}";
    };
  }

  // --- PARSE ---

  @Test
  void PARSE_01_truncatedBodyIsMalformedOnEveryPath() {
    for (ApiKind api : INFERENCE) {
      Malformed malformed = malformed(api, file("parse-truncated.json"));
      assertThat(malformed.reason()).isEqualTo("invalid_json");
      assertThat(malformed.message()).isEqualTo("the body is not valid JSON (byte 86)");
      assertThat(malformed.api()).isEqualTo(api);
    }
  }

  @Test
  void PARSE_02_messageOfALargeBrokenBodyIsShortAndHoldsNoText() {
    String filler = "call me at 555-0100 ".repeat(60_000);
    for (ApiKind api : INFERENCE) {
      String broken = "{\"model\":\"m\",\"messages\":[{\"content\":\"" + filler;
      Malformed malformed = malformed(api, broken);
      assertThat(malformed.message().length()).isLessThan(512);
      assertThat(malformed.message()).contains("byte " + broken.length()).doesNotContain("555");
    }
  }

  @Test
  void PARSE_03_missingModelIsNamedOrDefaultedAndOtherPathsAreUntouched() {
    ParseOptions withDefault = new ParseOptions(new JsonReader(JsonLimits.DEFAULTS), "house");
    for (ApiKind api : INFERENCE) {
      for (String model : List.of("", "\"model\":null,", "\"model\":\"\",")) {
        byte[] body = minimal(api, "").replace("\"model\":\"m\",", model).getBytes(UTF_8);
        Malformed malformed = malformed(api, body);
        assertThat(malformed.message()).isEqualTo("field model is required");
        assertThat(malformed.reason()).isEqualTo("missing_model");
        assertThat(Dialects.read(api, body, withDefault).parse())
            .isInstanceOfSatisfying(
                Parsed.class, parse -> assertThat(parse.request().model()).isEqualTo("house"));
      }
      assertThat(malformed(api, minimal(api, "").replace("\"m\"", "7")).message())
          .isEqualTo("field model must be a string");
    }
    assertThat(Dialects.parse(ApiKind.OTHER, "{\"x\":".getBytes(UTF_8)))
        .isEqualTo(new PassThrough(ApiKind.OTHER, "not_an_inference_path"));
  }

  @Test
  void PARSE_04_lastOfRepeatedKeysIsTheOneThatCounts() {
    InferenceRequest request = parsed(ApiKind.CHAT_COMPLETIONS, file("parse-dup-keys.json"));
    assertThat(request.model()).isEqualTo("costly-model");
    assertThat(request.stream()).isTrue();
    assertThat(((Prompt.Chat) request.prompt()).messages().getFirst().get("content"))
        .isEqualTo(new Json.Str("hello"));
  }

  @Test
  void PARSE_04_rewriteOfARepeatedKeyLeavesNoOldValue() {
    byte[] body = file("parse-dup-keys.json");
    ParsedBody read = Dialects.read(ApiKind.CHAT_COMPLETIONS, body, ParseOptions.DEFAULTS);
    byte[] edited =
        Objects.requireNonNull(read.body())
            .apply(List.of(new BodyEdit.Put("model", new Json.Str("safe"))));
    assertThat(new String(edited, UTF_8))
        .isEqualTo(
            new String(body, UTF_8).replace("cheap-model", "safe").replace("costly-model", "safe"));
  }

  @Test
  void PARSE_05_loneSurrogateIsForwardedWithAnUnreadablePrompt() {
    InferenceRequest request = parsed(ApiKind.CHAT_COMPLETIONS, file("parse-lone-surrogate.json"));
    assertThat(request.prompt()).isEqualTo(new Prompt.Unreadable("lone_surrogate", 15));
    assertThat(request.model()).isEqualTo("demo-model");
    String text = "cut emoji \\ud83d end";
    assertThat(doubtOf(ApiKind.COMPLETIONS, "{\"model\":\"m\",\"prompt\":\"" + text + "\"}"))
        .isEqualTo("lone_surrogate");
    for (ApiKind api : List.of(ApiKind.MESSAGES, ApiKind.COUNT_TOKENS)) {
      assertThat(
              doubtOf(
                  api,
                  "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\""
                      + text
                      + "\"}]}"))
          .isEqualTo("lone_surrogate");
    }
  }

  @Test
  void PARSE_06_deepNestingIsRefusedFastAThousandTimes() {
    byte[] body = file("parse-deep.json");
    malformed(ApiKind.CHAT_COMPLETIONS, body);
    long start = System.nanoTime();
    for (int i = 0; i < 1000; i++) {
      assertThat(malformed(ApiKind.CHAT_COMPLETIONS, body).reason()).isEqualTo("too_deep");
    }
    long meanMicros = (System.nanoTime() - start) / 1000 / 1000;
    assertThat(meanMicros).isLessThan(50_000);
  }

  @Test
  void PARSE_07_secondValueIsMalformed() {
    assertThat(malformed(ApiKind.CHAT_COMPLETIONS, file("parse-trailing.json")).reason())
        .isEqualTo("invalid_json");
  }

  @ParameterizedTest
  @ValueSource(strings = {"[]", "1", "null", "\"x\"", "true"})
  void bodyThatIsNoObjectIsMalformed(String body) {
    assertThat(malformed(ApiKind.MESSAGES, body).reason()).isEqualTo("not_an_object");
  }

  @Test
  void wideUnicodeIsForwarded() {
    assertThat(
            Dialects.parse(
                ApiKind.CHAT_COMPLETIONS, minimal(ApiKind.CHAT_COMPLETIONS, "").getBytes(UTF_16LE)))
        .isEqualTo(new PassThrough(ApiKind.CHAT_COMPLETIONS, "not_utf8"));
  }

  // --- API ---

  @ParameterizedTest
  @EnumSource(names = "OTHER", mode = EnumSource.Mode.EXCLUDE)
  void API_01_minimalBodyOfEveryApiIsUnderstoodAndKeptByteExact(ApiKind api) {
    byte[] body = minimal(api, " , \"unknown_field\" : {\"a\":[1.50,\"\\u00e9\"]}").getBytes(UTF_8);
    ParsedBody read = Dialects.read(api, body, ParseOptions.DEFAULTS);
    assertThat(read.parse()).isInstanceOf(Parsed.class);
    InferenceRequest request = ((Parsed) read.parse()).request();
    assertThat(request.api()).isEqualTo(api);
    assertThat(request.prompt()).isNotInstanceOf(Prompt.Unreadable.class);
    byte[] edited =
        Objects.requireNonNull(read.body())
            .apply(List.of(new BodyEdit.Put("model", new Json.Str("other"))));
    assertThat(new String(edited, UTF_8))
        .isEqualTo(new String(body, UTF_8).replace("\"m\"", "\"other\""));
  }

  @Test
  void API_02_nullContentKeepsItsToolCall() {
    Prompt.Chat chat =
        (Prompt.Chat) parsed(ApiKind.CHAT_COMPLETIONS, file("api-null-content.json")).prompt();
    assertThat(chat.messages()).hasSize(4);
    assertThat(chat.messages().get(1).get("content")).isEqualTo(Json.Null.NULL);
    assertThat(chat.messages().get(1).get("tool_calls")).isInstanceOf(Json.Arr.class);
    assertThat(chat.tools()).hasSize(1);
  }

  @Test
  void API_03_toolsArePartOfThePrompt() {
    Prompt a = parsed(ApiKind.CHAT_COMPLETIONS, file("api-tools-a.json")).prompt();
    Prompt b = parsed(ApiKind.CHAT_COMPLETIONS, file("api-tools-b.json")).prompt();
    assertThat(a).isNotEqualTo(b);
  }

  @Test
  void API_04_stringAndOnePartAreBothReadable() {
    Prompt.Chat string =
        (Prompt.Chat) parsed(ApiKind.CHAT_COMPLETIONS, file("api-parts-string.json")).prompt();
    Prompt.Chat parts =
        (Prompt.Chat) parsed(ApiKind.CHAT_COMPLETIONS, file("api-parts-array.json")).prompt();
    assertThat(ChatNormalisation.messages(parts, false))
        .isEqualTo(ChatNormalisation.messages(string, false));
  }

  @Test
  void API_05_anthropicBlocksAreReadAndUnknownOnesForwarded() {
    String body = new String(file("api-messages-blocks.json"), UTF_8);
    Prompt.Chat chat = (Prompt.Chat) parsed(ApiKind.MESSAGES, body).prompt();
    assertThat(chat.messages())
        .extracting(message -> PythonJson.dumps(message))
        .containsExactly(
            "{\"role\": \"system\", \"content\": \"Be brief.\"}",
            "{\"role\": \"user\", \"content\": \"List files\"}",
            "{\"role\": \"assistant\", \"reasoning\": \"I need the tool\", \"tool_calls\": [{\"id\":"
                + " \"tu_1\", \"type\": \"function\", \"function\": {\"name\": \"ls\", \"arguments\":"
                + " \"{\\\"path\\\": \\\"/demo\\\"}\"}}], \"content\": \"Looking.\"}",
            "{\"role\": \"tool\", \"tool_call_id\": \"tu_1\", \"content\": \"a.txt\\nb.txt\"}",
            "{\"role\": \"user\", \"content\": \"Which is newer?\"}");
    assertThat(chat.options().source()).isEqualTo(ApiKind.MESSAGES);
    for (String type : List.of("text", "thinking", "tool_use", "tool_result")) {
      String future = body.replaceFirst("\"type\": \"" + type + "\"", "\"type\": \"future_block\"");
      assertThat(future).isNotEqualTo(body);
      assertThat(doubtOf(ApiKind.MESSAGES, future)).isEqualTo("unknown_block");
    }
  }

  @Test
  void API_06_previousResponseIsNamed() {
    InferenceRequest request = parsed(ApiKind.RESPONSES, file("api-responses-prev.json"));
    assertThat(request.previousResponseId()).isEqualTo("resp_demo1");
    assertThat(request.prompt()).isEqualTo(new Prompt.Unreadable("previous_response_id", 23));
  }

  @Test
  void API_07_oddOutputLimitsNeverRefuseAndNeverGoNegative() {
    List<Long> estimates =
        TestFiles.lines("cases/api-max-tokens.jsonl").stream()
            .map(line -> parsed(ApiKind.CHAT_COMPLETIONS, line).maxTokens().orElse(-7))
            .toList();
    assertThat(estimates)
        .containsExactly(-7L, -7L, 0L, 0L, 65535L, 2147483647L, 2147483647L, 2147483647L, 16L, -7L);
  }

  @Test
  void API_08_maxCompletionTokensWins() {
    assertThat(parsed(ApiKind.CHAT_COMPLETIONS, file("api-max-both.json")).maxTokens())
        .hasValue(500);
    assertThat(chat(",\"max_tokens\":10,\"max_completion_tokens\":null").maxTokens()).hasValue(10);
  }

  @Test
  void outputLimitIsFoundUnderEachApisOwnName() {
    assertThat(parsed(ApiKind.COMPLETIONS, minimal(ApiKind.COMPLETIONS, "")).maxTokens())
        .as("vLLM's default")
        .hasValue(16);
    assertThat(
            parsed(ApiKind.COMPLETIONS, minimal(ApiKind.COMPLETIONS, ",\"max_tokens\":3"))
                .maxTokens())
        .hasValue(3);
    assertThat(
            parsed(ApiKind.RESPONSES, minimal(ApiKind.RESPONSES, ",\"max_output_tokens\":4"))
                .maxTokens())
        .hasValue(4);
    assertThat(parsed(ApiKind.MESSAGES, minimal(ApiKind.MESSAGES, ",\"max_tokens\":5")).maxTokens())
        .hasValue(5);
    assertThat(
            parsed(ApiKind.COUNT_TOKENS, minimal(ApiKind.COUNT_TOKENS, ",\"max_tokens\":5"))
                .maxTokens())
        .isEmpty();
  }

  // --- shared fields ---

  @ParameterizedTest
  @CsvSource({
    "true, true",
    "false, false",
    "null, false",
    "1, true",
    "0.0, false",
    "\"Yes\", true",
    "\"off\", false"
  })
  void streamIsReadAsTheWorkerReadsIt(String value, boolean expected) {
    assertThat(chat(",\"stream\":" + value).stream()).isEqualTo(expected);
  }

  @ParameterizedTest
  @ValueSource(strings = {"2", "\"maybe\"", "[]", "{}", "\"\"", "0.5"})
  void streamThatNoWorkerReadsIsMalformed(String value) {
    assertThat(
            malformed(
                    ApiKind.CHAT_COMPLETIONS,
                    minimal(ApiKind.CHAT_COMPLETIONS, ",\"stream\":" + value))
                .message())
        .isEqualTo("field stream must be a boolean");
  }

  @Test
  void usageOfAStreamMustBeAskedForOnlyInTheOpenAiApis() {
    for (ApiKind api : List.of(ApiKind.CHAT_COMPLETIONS, ApiKind.COMPLETIONS)) {
      assertThat(parsed(api, minimal(api, "")).includeUsage()).isTrue();
      assertThat(parsed(api, minimal(api, ",\"stream\":true")).includeUsage()).isFalse();
      assertThat(
              parsed(
                      api,
                      minimal(api, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}"))
                  .includeUsage())
          .isTrue();
      assertThat(
              parsed(
                      api,
                      minimal(api, ",\"stream\":true,\"stream_options\":{\"include_usage\":null}"))
                  .includeUsage())
          .isFalse();
    }
    for (ApiKind api : List.of(ApiKind.RESPONSES, ApiKind.MESSAGES)) {
      assertThat(parsed(api, minimal(api, ",\"stream\":true")).includeUsage()).isTrue();
    }
  }

  @Test
  void STREAM_07_usageIsAskedForByOneSplice() {
    byte[] body = minimal(ApiKind.CHAT_COMPLETIONS, ",\"stream\":true").getBytes(UTF_8);
    ParsedBody read = Dialects.read(ApiKind.CHAT_COMPLETIONS, body, ParseOptions.DEFAULTS);
    byte[] edited = Objects.requireNonNull(read.body()).apply(List.of(StreamOptions.REQUEST_USAGE));
    assertThat(new String(edited, UTF_8))
        .isEqualTo(
            minimal(
                ApiKind.CHAT_COMPLETIONS,
                ",\"stream\":true,\"stream_options\":{\"include_usage\":true}"));
    assertThat(parsed(ApiKind.CHAT_COMPLETIONS, edited).includeUsage()).isTrue();
  }

  @Test
  void cacheSaltIsPassedOnAndAWrongOneIsADoubt() {
    for (ApiKind api : INFERENCE) {
      assertThat(parsed(api, minimal(api, ",\"cache_salt\":\"t-9\"")).cacheSalt()).isEqualTo("t-9");
      assertThat(parsed(api, minimal(api, ",\"cache_salt\":null")).cacheSalt()).isNull();
      assertThat(doubtOf(api, minimal(api, ",\"cache_salt\":7"))).isEqualTo("cache_salt");
      assertThat(doubtOf(api, minimal(api, ",\"cache_salt\":\"\""))).isEqualTo("cache_salt");
    }
  }

  @Test
  void truncationIsPassedOn() {
    assertThat(chat("").truncation()).isNull();
    assertThat(chat(",\"truncate_prompt_tokens\":8").truncation())
        .isEqualTo(new Truncation(8, Truncation.Side.TOKENIZER_DEFAULT));
    assertThat(chat(",\"truncate_prompt_tokens\":-1,\"truncation_side\":\"right\"").truncation())
        .isEqualTo(new Truncation(-1, Truncation.Side.KEEP_FIRST));
    assertThat(chat(",\"truncate_prompt_tokens\":\"3\",\"truncation_side\":\"left\"").truncation())
        .isEqualTo(new Truncation(3, Truncation.Side.KEEP_LAST));
    for (String odd : List.of("-2", "\"x\"", "1.5", "8,\"truncation_side\":\"up\"")) {
      assertThat(chat(",\"truncate_prompt_tokens\":" + odd).prompt())
          .isInstanceOf(Prompt.Unreadable.class);
    }
  }

  @Test
  void tokensForwardedByAPrefillWorkerReplaceThePrompt() {
    String transfer = ",\"kv_transfer_params\":{\"prompt_token_ids\":[1,2,3]}";
    for (ApiKind api :
        List.of(
            ApiKind.CHAT_COMPLETIONS, ApiKind.COMPLETIONS, ApiKind.RESPONSES, ApiKind.MESSAGES)) {
      assertThat(parsed(api, minimal(api, transfer)).prompt())
          .isInstanceOfSatisfying(
              Prompt.Tokens.class,
              tokens -> assertThat(tokens.prompts()).containsExactly(new int[] {1, 2, 3}));
    }
    assertThat(chat(transfer + ",\"echo\":true").prompt()).isInstanceOf(Prompt.Chat.class);
    assertThat(chat(",\"kv_transfer_params\":{\"prompt_token_ids\":[-1]}").prompt())
        .isInstanceOf(Prompt.Unreadable.class);
    assertThat(chat(",\"kv_transfer_params\":{\"do_remote_decode\":true}").prompt())
        .isInstanceOf(Prompt.Chat.class);
  }

  // --- chat ---

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "{\"model\":\"m\"} | field messages is required",
        "{\"model\":\"m\",\"messages\":null} | field messages is required",
        "{\"model\":\"m\",\"messages\":\"hi\"} | field messages must be an array",
        "{\"model\":\"m\",\"messages\":{}} | field messages must be an array",
        "{\"model\":\"m\",\"messages\":[{},7]} | field messages[1] must be an object"
      })
  void messagesOfAWrongShapeAreNamed(String body, String message) {
    for (ApiKind api : List.of(ApiKind.CHAT_COMPLETIONS, ApiKind.MESSAGES, ApiKind.COUNT_TOKENS)) {
      assertThat(malformed(api, body).message()).isEqualTo(message);
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '~',
      value = {
        "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:x\"}} | image_part",
        "{\"type\":\"input_audio\",\"input_audio\":{}} | audio_part",
        "{\"type\":\"video_url\",\"video_url\":{}} | video_part",
        "{\"type\":\"file\",\"file\":{}} | file_part",
        "{\"type\":\"prompt_embeds\",\"data\":\"\"} | prompt_embeds",
        "{\"type\":\"tool_reference\",\"name\":\"x\"} | tool_reference",
        "{\"type\":\"future\",\"text\":\"x\"} | unknown_part",
        "{\"text\":\"x\"} | untyped_part",
        "{\"type\":\"input_text\",\"text\":null} | part_type",
        "{\"type\":\"text\",\"text\":\"x\",\"uuid\":\"u\"} | unknown_part",
        "7 | part_type",
        "{\"type\":\"text\",\"text\":null} | none",
        "{\"type\":\"text\",\"text\":\"x\"} | none",
        "{\"type\":\"input_text\",\"text\":\"x\"} | none",
        "{\"type\":\"thinking\",\"thinking\":\"x\"} | none",
        "{\"type\":\"refusal\",\"refusal\":\"x\"} | none",
        "\"x\" | none"
      })
  void partsThatAreNotTextMakeThePromptUnreadable(String part, String reason) {
    String body =
        "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":"
            + "[{\"type\":\"text\",\"text\":\"12345\"},"
            + part
            + "]}]}";
    assertThat(doubtOf(ApiKind.CHAT_COMPLETIONS, body)).isEqualTo(reason);
    if (parsed(ApiKind.CHAT_COMPLETIONS, body).prompt() instanceof Prompt.Unreadable unreadable) {
      assertThat(unreadable.approxChars()).isEqualTo(5);
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        ",\"tools\":[] | empty_tools",
        ",\"tools\":{} | option_type",
        ",\"tools\":[{\"type\":\"function\"}] | tool_shape",
        ",\"tools\":[7] | tool_shape",
        ",\"documents\":7 | option_type",
        ",\"chat_template_kwargs\":[] | option_type",
        ",\"reasoning_effort\":3 | option_type",
        ",\"add_generation_prompt\":\"maybe\" | option_type",
        ",\"add_generation_prompt\":true,\"continue_final_message\":true |"
            + " generation_prompt_conflict",
        ",\"add_generation_prompt\":false,\"continue_final_message\":true | none",
        ",\"tools\":null,\"documents\":null,\"chat_template_kwargs\":null | none"
      })
  void optionsThatTheWorkerRefusesAreDoubts(String fields, String reason) {
    Prompt prompt = chat(fields).prompt();
    assertThat(prompt instanceof Prompt.Unreadable(String why, int _, Prompt.Chat _) ? why : "none")
        .isEqualTo(reason);
  }

  @Test
  void chatOptionsArePassedOnAsSent() {
    Prompt.Chat chat =
        (Prompt.Chat)
            chat(",\"add_generation_prompt\":false,\"continue_final_message\":true,"
                    + "\"add_special_tokens\":true,\"reasoning_effort\":\"low\","
                    + "\"chat_template_kwargs\":{\"a\":1},\"documents\":[{\"text\":\"d\"}],"
                    + "\"chat_template\":\"t\",\"tool_choice\":\"none\"")
                .prompt();
    assertThat(chat.options().addGenerationPrompt()).isFalse();
    assertThat(chat.options().continueFinalMessage()).isTrue();
    assertThat(chat.options().addSpecialTokens()).isTrue();
    assertThat(chat.options().reasoningEffort()).isEqualTo("low");
    assertThat(chat.options().chatTemplateKwargs()).isNotNull();
    assertThat(chat.options().documents()).isNotNull();
    assertThat(chat.options().chatTemplate()).isEqualTo("t");
    assertThat(chat.options().toolChoice()).isEqualTo(new Json.Str("none"));
    assertThat(chat.options().source()).isEqualTo(ApiKind.CHAT_COMPLETIONS);
  }

  @Test
  void emptyConversationIsForwarded() {
    assertThat(doubtOf(ApiKind.CHAT_COMPLETIONS, "{\"model\":\"m\",\"messages\":[]}"))
        .isEqualTo("empty_messages");
    assertThat(doubtOf(ApiKind.RESPONSES, "{\"model\":\"m\",\"input\":[]}"))
        .isEqualTo("empty_messages");
  }

  // --- completions ---

  @Test
  void completionsTakeATextOrTexts() {
    assertThat(parsed(ApiKind.COMPLETIONS, minimal(ApiKind.COMPLETIONS, "")).prompt())
        .isEqualTo(new Prompt.Texts(List.of("hello"), true));
    InferenceRequest two =
        parsed(
            ApiKind.COMPLETIONS,
            "{\"model\":\"m\",\"prompt\":[\"a\",\"b\"],\"add_special_tokens\":false}");
    assertThat(two.prompt()).isEqualTo(new Prompt.Texts(List.of("a", "b"), false));
    assertThat(two.promptCount()).isEqualTo(2);
  }

  @Test
  void completionsTakeTokenIdsOrArraysOfThem() {
    InferenceRequest one =
        parsed(ApiKind.COMPLETIONS, "{\"model\":\"m\",\"prompt\":[1,2,2147483647]}");
    assertThat(((Prompt.Tokens) one.prompt()).prompts())
        .containsExactly(new int[] {1, 2, Integer.MAX_VALUE});
    assertThat(one.promptCount()).isEqualTo(1);
    InferenceRequest two = parsed(ApiKind.COMPLETIONS, "{\"model\":\"m\",\"prompt\":[[1],[2,3]]}");
    assertThat(((Prompt.Tokens) two.prompt()).prompts())
        .containsExactly(new int[] {1}, new int[] {2, 3});
    assertThat(two.promptCount()).isEqualTo(2);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "[] | empty_prompt",
        "\"\" | empty_prompt",
        "[\"a\",\"\"] | empty_prompt",
        "[[1],[]] | empty_prompt",
        "[1,\"a\"] | prompt_type",
        "[\"a\",1] | prompt_type",
        "[[1],2] | prompt_type",
        "[1,-1] | prompt_type",
        "[1,2147483648] | prompt_type",
        "[1.0] | prompt_type",
        "[null] | prompt_type",
        "\"x\",\"prompt_embeds\":\"AA\" | prompt_embeds"
      })
  void promptsThatOnlyTheWorkerCanJudgeAreDoubts(String prompt, String reason) {
    assertThat(doubtOf(ApiKind.COMPLETIONS, "{\"model\":\"m\",\"prompt\":" + prompt + "}"))
        .isEqualTo(reason);
  }

  @ParameterizedTest
  @ValueSource(strings = {"[1]", "\"a\""})
  void morePromptsThanAreLookedAtAreADoubt(String prompt) {
    String as = "{\"model\":\"m\",\"prompt\":[%s]}";
    int most = CompletionsDialect.MAX_PROMPTS;

    assertThat(
            doubtOf(
                ApiKind.COMPLETIONS,
                as.formatted(String.join(",", Collections.nCopies(most + 1, prompt)))))
        .isEqualTo("many_prompts");
    assertThat(
            parsed(
                    ApiKind.COMPLETIONS,
                    as.formatted(String.join(",", Collections.nCopies(most, prompt))))
                .promptCount())
        .isEqualTo(most);
  }

  @Test
  void completionsWithoutAPromptAreMalformed() {
    assertThat(malformed(ApiKind.COMPLETIONS, "{\"model\":\"m\"}").message())
        .isEqualTo("field prompt is required");
    assertThat(malformed(ApiKind.COMPLETIONS, "{\"model\":\"m\",\"prompt\":{}}").message())
        .isEqualTo("field prompt must be a string or an array");
    assertThat(doubtOf(ApiKind.COMPLETIONS, "{\"model\":\"m\",\"prompt_embeds\":\"AA\"}"))
        .isEqualTo("prompt_embeds");
  }

  // --- messages ---

  private static List<String> messagesOf(ApiKind api, String fields) {
    Prompt prompt = parsed(api, "{\"model\":\"m\"," + fields + "}").prompt();
    assertThat(prompt).isInstanceOf(Prompt.Chat.class);
    return ((Prompt.Chat) prompt).messages().stream().map(m -> PythonJson.dumps(m)).toList();
  }

  @Test
  void inlineSystemMessagesStayInPlaceWithoutBillingBlocks() {
    assertThat(
            messagesOf(
                ApiKind.MESSAGES,
                "\"system\":\"S\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"},"
                    + "{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: 1\"},"
                    + "{\"type\":\"text\",\"text\":\"R1\"},{\"type\":\"text\",\"text\":\"R2\"}]},"
                    + "{\"role\":\"system\",\"content\":\"x-anthropic-billing-header: 2\\nX\"}]"))
        .containsExactly(
            "{\"role\": \"system\", \"content\": \"S\"}",
            "{\"role\": \"user\", \"content\": \"a\"}",
            "{\"role\": \"system\", \"content\": \"R1R2\"}");
  }

  @Test
  void messageOfToolResultsAloneLeavesNoUserMessage() {
    assertThat(
            messagesOf(
                ApiKind.MESSAGES,
                "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\"},"
                    + "{\"type\":\"tool_result\",\"tool_use_id\":\"u\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]}]"))
        .containsExactly(
            "{\"role\": \"tool\", \"tool_call_id\": \"t\", \"content\": \"\"}",
            "{\"role\": \"tool\", \"tool_call_id\": \"u\", \"content\": \"a\\nb\"}");
  }

  @Test
  void assistantWithNothingLeftKeepsItsTurn() {
    assertThat(
            messagesOf(
                ApiKind.MESSAGES,
                "\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"redacted_thinking\",\"data\":\"x\"}]}]"))
        .containsExactly("{\"role\": \"assistant\"}");
  }

  @Test
  void severalTextBlocksStayParts() {
    assertThat(
            messagesOf(
                ApiKind.MESSAGES,
                "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\"b\"}]}]"))
        .containsExactly(
            "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\":"
                + " \"text\", \"text\": \"b\"}]}");
  }

  @Test
  void toolArgumentsAreWrittenLikeJsonDumps() {
    assertThat(
            messagesOf(
                    ApiKind.MESSAGES,
                    "\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"n\","
                        + "\"input\":{\"a\":1.50,\"b\":\"é\",\"c\":[]}}]}]")
                .getFirst())
        .contains("{\\\"a\\\": 1.5, \\\"b\\\": \\\"\\\\u00e9\\\", \\\"c\\\": []}");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "{\"type\":\"image\",\"source\":{}} | image_part",
        "{\"type\":\"document\"} | file_part",
        "{\"type\":\"tool_reference\",\"tool_name\":\"x\"} | tool_reference",
        "{\"type\":\"server_tool_use\"} | unknown_block",
        "7 | unknown_block",
        "{\"type\":\"tool_use\",\"name\":\"n\",\"input\":{}} | tool_use_without_id",
        "{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"n\",\"input\":[]} | block_type",
        "{\"type\":\"tool_result\",\"content\":[{\"type\":\"image\"}]} | image_part",
        "{\"type\":\"tool_result\",\"content\":[{\"type\":\"future\"}]} | unknown_block",
        "{\"type\":\"tool_result\",\"content\":7} | content_type",
        "{\"type\":\"redacted_thinking\"} | none"
      })
  void anthropicBlocksThatAreNotTextAreDoubts(String block, String reason) {
    assertThat(
            doubtOf(
                ApiKind.MESSAGES,
                "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[" + block + "]}]}"))
        .isEqualTo(reason);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        ",\"thinking\":{\"type\":\"disabled\"} | none",
        ",\"thinking\":{\"type\":\"adaptive\"},\"output_config\":{\"effort\":\"low\"} | low",
        ",\"thinking\":{\"type\":\"disabled\"},\"output_config\":{\"effort\":\"low\"} | none",
        ",\"output_config\":{} | -"
      })
  void effortFollowsFromThinkingAndOutputConfig(String fields, String effort) {
    Prompt.Chat chat =
        (Prompt.Chat) parsed(ApiKind.MESSAGES, minimal(ApiKind.MESSAGES, fields)).prompt();
    assertThat(Objects.requireNonNullElse(chat.options().reasoningEffort(), "-")).isEqualTo(effort);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '~',
      value = {
        "{\"type\":\"auto\"} | \"auto\"",
        "{\"type\":\"any\"} | \"required\"",
        "{\"type\":\"none\"} | \"none\"",
        "null | \"auto\""
      })
  void anthropicToolChoiceIsTranslated(String choice, String expected) {
    Prompt.Chat chat =
        (Prompt.Chat)
            parsed(
                    ApiKind.MESSAGES,
                    minimal(
                        ApiKind.MESSAGES,
                        ",\"tools\":[{\"name\":\"n\",\"input_schema\":{}}],\"tool_choice\":"
                            + choice))
                .prompt();
    assertThat(PythonJson.dumps(Objects.requireNonNull(chat.options().toolChoice())))
        .isEqualTo(expected);
    assertThat(chat.tools().stream().map(t -> PythonJson.dumps(t)))
        .containsExactly(
            "{\"type\": \"function\", \"function\": {\"name\": \"n\", \"description\": null,"
                + " \"parameters\": {\"type\": \"object\"}}}");
  }

  @Test
  void hostedAnthropicToolsAreDoubts() {
    assertThat(
            doubtOf(
                ApiKind.MESSAGES,
                minimal(
                    ApiKind.MESSAGES,
                    ",\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"w\"}]")))
        .isEqualTo("tool_shape");
  }

  // --- responses ---

  @Test
  void itemsOfOneAssistantTurnAreGathered() {
    assertThat(
            messagesOf(
                ApiKind.RESPONSES,
                "\"input\":[{\"role\":\"user\",\"content\":\"q\"},"
                    + "{\"type\":\"reasoning\",\"id\":\"r\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"think\"}]},"
                    + "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"say\"},{\"type\":\"output_text\",\"text\":\"lost\"}]},"
                    + "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{}\"},"
                    + "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"g\",\"namespace\":\"ns\",\"arguments\":\"{}\"},"
                    + "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"o1\"},"
                    + "{\"type\":\"custom_tool_call\",\"call_id\":\"c3\",\"name\":\"h\",\"input\":\"é\"},"
                    + "{\"role\":\"assistant\",\"content\":\"done\"},"
                    + "{\"role\":\"assistant\",\"content\":\"really\"}]"))
        .containsExactly(
            "{\"role\": \"user\", \"content\": \"q\"}",
            "{\"role\": \"assistant\", \"reasoning\": \"think\", \"content\": \"say\", \"tool_calls\":"
                + " [{\"id\": \"c1\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}, \"type\":"
                + " \"function\"}, {\"id\": \"c2\", \"function\": {\"name\": \"ns__g\", \"arguments\":"
                + " \"{}\"}, \"type\": \"function\"}]}",
            "{\"role\": \"tool\", \"content\": \"o1\", \"tool_call_id\": \"c1\"}",
            "{\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"c3\", \"function\": {\"name\": \"h\","
                + " \"arguments\": \"{\\\"input\\\": \\\"\\u00e9\\\"}\"}, \"type\": \"function\"}],"
                + " \"content\": \"done\"}",
            "{\"role\": \"assistant\", \"content\": \"really\"}");
  }

  @Test
  void partialLastItemIsContinued() {
    for (String status : List.of("in_progress", "incomplete", "completed")) {
      Prompt.Chat chat =
          (Prompt.Chat)
              parsed(
                      ApiKind.RESPONSES,
                      "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":\"q\"},"
                          + "{\"type\":\"message\",\"role\":\"assistant\",\"status\":\""
                          + status
                          + "\",\"content\":[{\"type\":\"output_text\",\"text\":\"par\"}]}]}")
                  .prompt();
      boolean partial = !status.equals("completed");
      assertThat(chat.options().continueFinalMessage()).isEqualTo(partial);
      assertThat(chat.options().addGenerationPrompt()).isEqualTo(!partial);
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '~',
      value = {
        "{\"type\":\"item_reference\",\"id\":\"x\"} | unknown_item",
        "{\"type\":\"web_search_call\"} | unknown_item",
        "{\"content\":\"x\"} | message_role",
        "{\"role\":\"user\"} | content_type",
        "{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]} | image_part",
        "{\"role\":\"assistant\",\"content\":null} | content_type",
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"x\"}]} | content_type",
        "{\"type\":\"function_call\",\"name\":\"f\"} | item_shape",
        "{\"type\":\"custom_tool_call\",\"name\":\"f\"} | item_shape",
        "{\"type\":\"function_call_output\",\"output\":\"x\"} | item_shape",
        "{\"type\":\"reasoning\",\"summary\":[],\"encrypted_content\":\"x\"} | encrypted_reasoning",
        "{\"type\":\"reasoning\",\"content\":[]} | item_shape",
        "{\"type\":\"reasoning\",\"summary\":[{\"text\":\"s\"}]} | none"
      })
  void responseItemsThatAreNotTextAreDoubts(String item, String reason) {
    assertThat(doubtOf(ApiKind.RESPONSES, "{\"model\":\"m\",\"input\":[" + item + "]}"))
        .isEqualTo(reason);
  }

  @Test
  void responsesInputMustBeThere() {
    assertThat(malformed(ApiKind.RESPONSES, "{\"model\":\"m\"}").message())
        .isEqualTo("field input is required");
    assertThat(malformed(ApiKind.RESPONSES, "{\"model\":\"m\",\"input\":7}").message())
        .isEqualTo("field input must be a string or an array");
    assertThat(malformed(ApiKind.RESPONSES, "{\"model\":\"m\",\"input\":[7]}").message())
        .isEqualTo("field input[0] must be an object");
  }

  @Test
  void responseToolsAreFlattenedAndHostedOnesAreDoubts() {
    Prompt.Chat chat =
        (Prompt.Chat)
            parsed(
                    ApiKind.RESPONSES,
                    minimal(
                        ApiKind.RESPONSES,
                        ",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"strict\":true},"
                            + "{\"type\":\"namespace\",\"name\":\"ns\",\"tools\":[{\"type\":\"function\",\"name\":\"g\",\"parameters\":{}},{\"type\":\"custom\",\"name\":\"h\"}]}]"))
                .prompt();
    assertThat(chat.tools().stream().map(t -> PythonJson.dumps(t)))
        .containsExactly(
            "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": null,"
                + " \"parameters\": null, \"strict\": true}}",
            "{\"type\": \"function\", \"function\": {\"name\": \"ns__g\", \"description\": null,"
                + " \"parameters\": {}}}");
    assertThat(
            doubtOf(
                ApiKind.RESPONSES,
                minimal(ApiKind.RESPONSES, ",\"tools\":[{\"type\":\"web_search\"}]")))
        .isEqualTo("hosted_tool");
    for (String field : List.of("previous_input_messages", "prompt")) {
      assertThat(
              parsed(ApiKind.RESPONSES, minimal(ApiKind.RESPONSES, ",\"" + field + "\":[{}]"))
                  .prompt())
          .isInstanceOf(Prompt.Unreadable.class);
    }
  }
}
