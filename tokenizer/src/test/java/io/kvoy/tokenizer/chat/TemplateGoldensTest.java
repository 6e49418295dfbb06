// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.jinja.RenderLimits;
import io.kvoy.tokenizer.jinja.RenderResult;
import io.kvoy.tokenizer.jinja.Template;
import io.kvoy.tokenizer.jinja.TemplateParse;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Published chat templates against what Jinja2 3.1.6 makes of them. The templates are downloaded,
 * the goldens come from {@code tools/chat-templates/golden.py}.
 */
class TemplateGoldensTest {
  private static final Clock CLOCK =
      Clock.fixed(Instant.parse("2026-11-30T12:34:56Z"), ZoneOffset.UTC);

  private static final Map<String, List<Json.Obj>> GOLDENS =
      TestData.jsonLines("goldens/chat-templates.jsonl").stream()
          .collect(
              Collectors.groupingBy(
                  golden -> TestData.string(golden, "template"),
                  LinkedHashMap::new,
                  Collectors.toList()));

  private static final Map<String, Json.Obj> REQUESTS = requests();

  private static Map<String, Json.Obj> requests() {
    Map<String, Json.Obj> requests = new HashMap<>();
    Json.Arr all = (Json.Arr) TestData.json(TestData.resource("goldens/chat-requests.json"));
    for (Json request : all.items()) {
      requests.put(TestData.string((Json.Obj) request, "id"), (Json.Obj) request);
    }
    return requests;
  }

  static Stream<String> templates() {
    return GOLDENS.keySet().stream();
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("templates")
  void rendersAsPythonDoes(String name) {
    Template template = template(name);
    StringBuilder expected = new StringBuilder();
    StringBuilder actual = new StringBuilder();

    for (Json.Obj golden : GOLDENS.getOrDefault(name, List.of())) {
      String id = TestData.string(golden, "request");
      RenderResult result = template.render(variables(id), RenderLimits.DEFAULTS, CLOCK);
      expected.append("== ").append(id).append('\n').append(expected(golden)).append('\n');
      actual.append("== ").append(id).append('\n').append(result).append('\n');
    }

    assertThat(actual.toString()).isEqualTo(expected.toString());
  }

  private static Template template(String name) {
    TemplateParse parse = Template.parse(TestData.publishedTemplate(name));
    assertThat(parse).isInstanceOf(TemplateParse.Parsed.class);
    return ((TemplateParse.Parsed) parse).template();
  }

  private static Map<String, Json> variables(String id) {
    Json.Obj request = REQUESTS.getOrDefault(id, Json.Obj.of(Map.of()));
    Map<String, Json> variables = new HashMap<>();
    for (String token : List.of("bos", "eos", "unk", "pad")) {
      variables.put(token + "_token", new Json.Str("<|" + token + "|>"));
    }
    variables.put("documents", Json.Null.NULL);
    variables.put("add_generation_prompt", new Json.Bool(true));
    if (request.get("kwargs") instanceof Json.Obj kwargs) {
      variables.putAll(kwargs.fields());
    }
    variables.put("messages", TestData.field(request, "messages"));
    Json tools = request.get("tools");
    variables.put("tools", tools == null ? Json.Null.NULL : tools);
    return variables;
  }

  private static RenderResult expected(Json.Obj golden) {
    if (golden.get("text") instanceof Json.Str(String text)) {
      return new RenderResult.Rendered(text);
    }
    String kind = TestData.string(golden, "error");
    return kind.equals("refused")
        ? new RenderResult.Refused(TestData.string(golden, "message"))
        : new RenderResult.Failed(kind);
  }
}
