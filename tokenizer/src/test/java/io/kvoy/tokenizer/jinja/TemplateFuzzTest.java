// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.FuzzTest;
import io.kvoy.inference.Json;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Any template and any text in a request: a value comes back, the same each time, within the
 * bounds.
 */
class TemplateFuzzTest {
  private static final RenderLimits LIMITS = new RenderLimits(100_000, 1 << 20, 10_000, 60);
  private static final Clock CLOCK = Clock.fixed(Instant.EPOCH, ZoneOffset.UTC);

  /** Walks a message's text through the operations that published templates use. */
  private static final Template TEXT =
      parsed(
          """
          {%- for m in messages -%}
            {{ m.content.split('</think>')[-1].lstrip('\\n') }}{{ m.content | trim }}{{ m.content[:5] }}
            {{ m.content[::-1] }}{{ m.content | tojson }}{{ m.content | replace('a', 'b') }}
            {{ m.content.startswith('<') }}{{ m.content | length }}{{ m.content | title }}
            {{ m | tojson(indent=2) }}{{ [m.content, 1] }}{{ m.content | upper | lower | capitalize }}
            {{ m.content.splitlines() | join('|') }}{{ m.content | indent }}{{ m.content | wordcount }}
            {{ m.content | int }}{{ m.content | float }}{{ m.content.rsplit(None, 1) }}
            {{ '%s|%r|%5s' | format(m.content, m.content, m.content) }}{{ m.content | e }}
          {%- endfor -%}
          """);

  @FuzzTest(maxDuration = "10m")
  void anySourceIsRenderedWithoutHarm(byte[] source) {
    switch (Template.parse(new String(source, UTF_8))) {
      case TemplateParse.Unsupported(String feature, int line, _) -> {
        assertThat(feature).matches("[a-zA-Z0-9_.]+");
        assertThat(line).isPositive();
      }
      case TemplateParse.Parsed(Template template) -> {
        RenderResult result = template.render(variables("Hi <b>", "it's"), LIMITS, CLOCK);
        check(result);
        assertThat(template.render(variables("Hi <b>", "it's"), LIMITS, CLOCK)).isEqualTo(result);
        assertThat(template.undeclaredVariables()).doesNotContainNull();
        assertThat(template.iteratesOverContent()).isEqualTo(template.iteratesOverContent());
      }
    }
  }

  @FuzzTest(maxDuration = "10m")
  void anyTextIsRenderedWithoutHarm(byte[] text) {
    int half = text.length / 2;
    String first = new String(text, 0, half, UTF_8);
    String second = new String(text, half, text.length - half, UTF_8);

    RenderResult result = TEXT.render(variables(first, second), LIMITS, CLOCK);

    check(result);
    if (result instanceof RenderResult.Rendered(String rendered)) {
      assertThat(rendered).contains(Unicode.strip(first));
    }
  }

  private static void check(RenderResult result) {
    switch (result) {
      case RenderResult.Rendered(String text) ->
          assertThat(text.length()).isLessThanOrEqualTo(LIMITS.maxTextChars());
      case RenderResult.Refused _ -> {}
      case RenderResult.Unsupported(String feature) ->
          assertThat(feature).matches("[a-zA-Z0-9_.]+");
      case RenderResult.Failed(String kind) -> assertThat(kind).matches("[a-z_]+");
    }
  }

  private static Map<String, Json> variables(String first, String second) {
    return Map.of(
        "messages",
        new Json.Arr(List.of(message("user", first), message("assistant", second))),
        "tools",
        Json.Null.NULL,
        "add_generation_prompt",
        new Json.Bool(true),
        "bos_token",
        new Json.Str("<s>"));
  }

  private static Json message(String role, String content) {
    Map<String, Json> fields = new LinkedHashMap<>();
    fields.put("role", new Json.Str(role));
    fields.put("content", new Json.Str(content));
    return Json.Obj.of(fields);
  }

  private static Template parsed(String source) {
    return ((TemplateParse.Parsed) Template.parse(source)).template();
  }
}
