// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.jinja.RenderResult;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/**
 * Rules between request and template that the vectors do not show. Sources: vLLM 0.32 and
 * transformers 5.19.
 */
class ChatRendererTest {
  private static final String ECHO =
      """
      {%- for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}\
      {{- '>' if add_generation_prompt }}""";

  @Test
  void API_02_callsOfAnAssistantWithNullContentStayInThePrompt() {
    RenderResult result =
        render(
            "{% for m in messages %}{{ m.role }}={{ m.content }}"
                + "{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %};{% endfor %}",
            """
            {"messages":[
              {"role":"user","content":"What time is it in Oslo?"},
              {"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",
                "function":{"name":"get_time","arguments":"{\\"city\\":\\"Oslo\\"}"}}]},
              {"role":"tool","tool_call_id":"call_1","content":"14:05"}]}
            """);

    assertThat(result)
        .isEqualTo(
            new RenderResult.Rendered(
                "user=What time is it in Oslo?;assistant="
                    + "{\"arguments\": {\"city\": \"Oslo\"}, \"name\": \"get_time\"};tool=14:05;"));
  }

  @Test
  void API_04_aTextAndOnePartOfItRenderTheSame() {
    assertThat(render(ECHO, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"))
        .isEqualTo(
            render(
                ECHO,
                """
                {"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}
                """))
        .isEqualTo(new RenderResult.Rendered("[user:Hi]>"));
  }

  @Test
  void theRequestsVariablesWinOverTheServersDefaults() {
    ChatTemplateOptions options =
        new ChatTemplateOptions(null, TestData.object("{\"a\":1,\"b\":2}"), false);

    RenderResult result =
        renderer("{{ a }}{{ b }}", options)
            .render(
                TestData.chat(
                    TestData.object(
                        """
                        {"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"b":3}}
                        """)));

    assertThat(result).isEqualTo(new RenderResult.Rendered("13"));
  }

  @Test
  void nullAndAutoAreTakenForNotGiven() {
    ChatTemplateOptions options =
        new ChatTemplateOptions(null, TestData.object("{\"a\":1,\"b\":2}"), false);

    RenderResult result =
        renderer("{{ a }}{{ b }}", options)
            .render(
                TestData.chat(
                    TestData.object(
                        """
                        {"messages":[{"role":"user","content":"x"}],
                         "chat_template_kwargs":{"a":null,"b":"auto"}}
                        """)));

    assertThat(result).isEqualTo(new RenderResult.Rendered("12"));
  }

  @Test
  void theRequestsOwnFieldsWinOverItsTemplateVariables() {
    RenderResult result =
        render(
            "{{ add_generation_prompt }} {{ reasoning_effort }} {{ enable_thinking }}",
            """
            {"messages":[{"role":"user","content":"x"}],"reasoning_effort":"low",
             "chat_template_kwargs":{"add_generation_prompt":false,"reasoning_effort":"high",
              "enable_thinking":"mine"}}
            """);

    assertThat(result).isEqualTo(new RenderResult.Rendered("True low mine"));
  }

  @Test
  void variablesOfJinjaItselfCannotBeReplaced() {
    assertThat(
            render(
                "{{ range(2) | list }}",
                """
                {"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"range":1}}
                """))
        .isEqualTo(new RenderResult.Rendered("[0, 1]"));
  }

  @Test
  void variablesNamedAsThoseOfTheConversationFail() {
    assertThat(
            render(
                ECHO,
                """
                {"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"messages":[]}}
                """))
        .isEqualTo(new RenderResult.Failed("type_error"));
  }

  @Test
  void templatesInRequestsAreRefused() {
    RenderResult inField =
        render(
            ECHO, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"chat_template\":\"\"}");
    RenderResult inVariables =
        render(
            ECHO,
            """
            {"messages":[{"role":"user","content":"x"}],"chat_template_kwargs":{"chat_template":"y"}}
            """);

    assertThat(inField).isInstanceOf(RenderResult.Refused.class).isEqualTo(inVariables);
  }

  @Test
  void anEmptyConversationIsRefused() {
    assertThat(render(ECHO, "{\"messages\":[]}")).isInstanceOf(RenderResult.Refused.class);
  }

  @Test
  void toolsAreLeftOutWhenNotToBeChosenAndToldSo() {
    String request =
        """
        {"messages":[{"role":"user","content":"x"}],"tool_choice":"none",
         "tools":[{"type":"function","function":{"name":"f"}}]}
        """;
    ChatTemplateOptions excluding =
        new ChatTemplateOptions(null, ChatTemplateOptions.DEFAULTS.defaultTemplateKwargs(), true);

    assertThat(render("{{ tools is none }}", request))
        .isEqualTo(new RenderResult.Rendered("False"));
    assertThat(
            renderer("{{ tools is none }}", excluding)
                .render(TestData.chat(TestData.object(request))))
        .isEqualTo(new RenderResult.Rendered("True"));
  }

  @Test
  void theTemplateForToolsRendersRequestsWithTools() {
    ChatTemplates templates =
        ((ChatTemplates.Load.Loaded)
                ChatTemplates.of(
                    new io.kvoy.tokenizer.files.ChatTemplates(
                        new LinkedHashMap<>(Map.of("default", "plain", "tool_use", "tools")),
                        null)))
            .templates();
    ChatRenderer renderer =
        new ChatRenderer(
            templates, SpecialTokens.NONE, ChatTemplateOptions.DEFAULTS, Clock.systemUTC());

    assertThat(renderer.render(chat("{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}")))
        .isEqualTo(new RenderResult.Rendered("plain"));
    assertThat(
            renderer.render(
                chat(
                    """
                    {"messages":[{"role":"user","content":"x"}],
                     "tools":[{"type":"function","function":{"name":"f"}}]}
                    """)))
        .isEqualTo(new RenderResult.Rendered("tools"));
  }

  @Test
  void aContinuedMessageEndsWithItsOwnWhiteSpace() {
    String request =
        """
        {"continue_final_message":true,"add_generation_prompt":false,"messages":[
          {"role":"user","content":"Rhyme"},{"role":"assistant","content":"violets are  "}]}
        """;

    assertThat(render(ECHO, request))
        .isEqualTo(new RenderResult.Rendered("[user:Rhyme][assistant:violets are  "));
  }

  @Test
  void aContinuedMessageThatTheTemplateTrimsLosesItsWhiteSpace() {
    String request =
        """
        {"continue_final_message":true,"add_generation_prompt":false,"messages":[
          {"role":"assistant","content":"violets are  "}]}
        """;

    assertThat(render("{% for m in messages %}<{{ m.content | trim }}>{% endfor %}", request))
        .isEqualTo(new RenderResult.Rendered("<violets are"));
  }

  @Test
  void aMessageThatTheTemplateDropsCannotBeContinued() {
    assertThat(
            render(
                "{{ messages[0].content and 'gone' }}",
                """
                {"continue_final_message":true,"add_generation_prompt":false,
                 "messages":[{"role":"assistant","content":"violets"}]}
                """))
        .isInstanceOf(RenderResult.Refused.class);
  }

  @Test
  void continuingAndStartingAnAnswerExcludeEachOther() {
    assertThat(
            render(
                ECHO,
                """
                {"continue_final_message":true,"messages":[{"role":"assistant","content":"x"}]}
                """))
        .isInstanceOf(RenderResult.Refused.class);
  }

  @Test
  void developersBecomeTheSystemInFrontOfEverybody() {
    assertThat(
            render(
                ECHO,
                """
                {"messages":[{"role":"user","content":"x"},{"role":"developer","content":"d"},
                  {"role":"system","content":"s"}]}
                """))
        .isEqualTo(new RenderResult.Rendered("[system:d\n\ns][user:x]>"));
  }

  @Test
  void developersStayWhereTheTemplateKnowsThem() {
    assertThat(
            render(
                ECHO + "{# 'developer' #}",
                """
                {"messages":[{"role":"user","content":"x"},{"role":"developer","content":"d"}]}
                """))
        .isEqualTo(new RenderResult.Rendered("[user:x][developer:d]>"));
  }

  @Test
  void systemMessagesOfTheMessagesApiGoInFrontWhereTheTemplateWantsThemThere() {
    String strict =
        ECHO
            + "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
            + "{{ raise_exception('late') }}{% endif %}{% endfor %}";
    String request =
        """
        {"messages":[{"role":"system","content":"a"},{"role":"user","content":"x"},
          {"role":"system","content":"b"},{"role":"user","content":"y"}]}
        """;

    assertThat(render(strict, request)).isEqualTo(new RenderResult.Refused("late"));
    assertThat(renderer(strict, ChatTemplateOptions.DEFAULTS).render(messagesApi(request, null)))
        .isEqualTo(new RenderResult.Rendered("[system:ab][user:x][user:y]>"));
    assertThat(renderer(ECHO, ChatTemplateOptions.DEFAULTS).render(messagesApi(request, null)))
        .isEqualTo(new RenderResult.Rendered("[system:a][user:x][system:b][user:y]>"));
  }

  @Test
  void disabledThinkingIsLowEffortWhereTheTemplateKnowsNoOther() {
    String request = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}";
    String ignorant = "{{ reasoning_effort if reasoning_effort in ['low', 'high'] else 'max' }}";
    String knowing = "{{ reasoning_effort }}";

    assertThat(
            renderer(ignorant, ChatTemplateOptions.DEFAULTS).render(messagesApi(request, "none")))
        .isEqualTo(new RenderResult.Rendered("low"));
    assertThat(renderer(knowing, ChatTemplateOptions.DEFAULTS).render(messagesApi(request, "none")))
        .isEqualTo(new RenderResult.Rendered("none"));
  }

  @Test
  void theClockTellsTheTemplatesTime() {
    assertThat(
            render(
                "{{ strftime_now('%d %b %Y %H:%M %A %-d/%-m %j %p %%') }}",
                "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"))
        .isEqualTo(new RenderResult.Rendered("05 Jul 2026 09:08 Sunday 5/7 186 AM %"));
  }

  @Test
  void imagesAreSaidToBeBeyondUs() {
    assertThat(
            render(
                ECHO,
                """
                {"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}
                """))
        .isEqualTo(new RenderResult.Unsupported("content_part"));
  }

  private static Prompt.Chat chat(String request) {
    return TestData.chat(TestData.object(request));
  }

  private static Prompt.Chat messagesApi(String request, @Nullable String effort) {
    ChatOptions options =
        new ChatOptions(null, null, null, effort, null, null, null, null, ApiKind.MESSAGES);
    return new Prompt.Chat(chat(request).messages(), java.util.List.<Json>of(), options);
  }

  private static RenderResult render(String template, String request) {
    return renderer(template, ChatTemplateOptions.DEFAULTS).render(chat(request));
  }

  private static ChatRenderer renderer(String template, ChatTemplateOptions options) {
    return new ChatRenderer(
        ((ChatTemplates.Load.Loaded) ChatTemplates.parse(template)).templates(),
        SpecialTokens.NONE,
        options,
        Clock.fixed(Instant.parse("2026-07-05T09:08:07Z"), ZoneOffset.UTC));
  }
}
