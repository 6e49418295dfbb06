// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.jinja.Template;
import io.kvoy.tokenizer.jinja.TemplateParse;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Named;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What vLLM 0.32 sees in a template before rendering, from {@code tools/chat-templates/detect.py}.
 */
class TemplateFactsTest {

  static Stream<Named<Json.Obj>> templates() {
    return TestData.jsonLines("goldens/template-facts.jsonl").stream()
        .map(
            golden ->
                Named.of(
                    TestData.string(golden, TestData.has(golden, "source") ? "source" : "template"),
                    golden));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("templates")
  void findsTheContentFormatAsTheWorkerDoes(Json.Obj golden) {
    assertThat(parse(golden).iteratesOverContent() ? "openai" : "string")
        .isEqualTo(TestData.string(golden, "format"));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("templates")
  void findsTheVariablesAsTheWorkerDoes(Json.Obj golden) {
    List<String> expected = new ArrayList<>();
    for (Json name : ((Json.Arr) TestData.field(golden, "variables")).items()) {
      expected.add(((Json.Str) name).value());
    }

    assertThat(parse(golden).undeclaredVariables().stream().sorted(Comparator.naturalOrder()))
        .containsExactlyElementsOf(expected);
  }

  static Stream<Named<Json.Obj>> templatesTriedOut() {
    return templates().filter(named -> TestData.has(named.getPayload(), "merges_system"));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("templatesTriedOut")
  void findsLateSystemMessagesRefusedAsTheWorkerDoes(Json.Obj golden) {
    assertThat(new Json.Bool(ChatRenderer.refusesLateSystemMessages(parse(golden))))
        .isEqualTo(golden.get("merges_system"));
  }

  private static Template parse(Json.Obj golden) {
    String source =
        TestData.has(golden, "source")
            ? TestData.string(golden, "source")
            : TestData.publishedTemplate(TestData.string(golden, "template"));
    TemplateParse parse = Template.parse(source);
    assertThat(parse).isInstanceOf(TemplateParse.Parsed.class);
    return ((TemplateParse.Parsed) parse).template();
  }
}
