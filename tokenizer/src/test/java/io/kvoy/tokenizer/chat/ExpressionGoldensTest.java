// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.jinja.RenderLimits;
import io.kvoy.tokenizer.jinja.RenderResult;
import io.kvoy.tokenizer.jinja.Template;
import io.kvoy.tokenizer.jinja.TemplateParse;
import java.time.Clock;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/**
 * Random expressions and statements against what Jinja2 3.1.6 makes of them, from {@code
 * tools/chat-templates/expressions.py}: values, operators, filters, tests, methods, formats,
 * scopes, white space.
 */
class ExpressionGoldensTest {

  @Test
  void evaluatesAsPythonDoes() {
    List<Json.Obj> lines = TestData.jsonLines("goldens/expressions.jsonl");
    Map<String, Json> variables = lines.getFirst().fields();
    List<String> differences = new ArrayList<>();
    int unsupported = 0;

    for (Json.Obj golden : lines.subList(1, lines.size())) {
      String source = TestData.string(golden, "source");
      RenderResult result = render(source, variables);
      if (result instanceof RenderResult.Unsupported) {
        unsupported++;
      } else if (!result.equals(expected(golden))) {
        differences.add(source + "\n  expected " + expected(golden) + "\n  but was  " + result);
      }
    }

    assertThat(differences).isEmpty();
    // An honest "not here" is no difference, but must stay rare.
    assertThat(unsupported).isLessThan(lines.size() / 100);
  }

  private static RenderResult render(String source, Map<String, Json> variables) {
    return switch (Template.parse(source)) {
      case TemplateParse.Parsed(Template template) ->
          template.render(variables, RenderLimits.DEFAULTS, Clock.systemUTC());
      case TemplateParse.Unsupported(String feature, _, _) -> new RenderResult.Unsupported(feature);
    };
  }

  private static RenderResult expected(Json.Obj golden) {
    return golden.get("text") instanceof Json.Str(String text)
        ? new RenderResult.Rendered(text)
        : new RenderResult.Failed(TestData.string(golden, "error"));
  }
}
