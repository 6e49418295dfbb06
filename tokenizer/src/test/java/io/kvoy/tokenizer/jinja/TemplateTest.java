// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import java.time.Clock;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What the engine refuses and where it stops. */
class TemplateTest {

  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiterString = "=>",
      textBlock =
          """
          {% include 'x' %} => tag_include
          {% import 'x' as y %} => tag_import
          {% extends 'x' %} => tag_extends
          {% block a %}{% endblock %} => tag_block
          {{ x | random }} => filter_random
          {{ x | urlize }} => filter_urlize
          """)
  void saysWhichFeatureOfJinjaIsMissing(String source, String feature) {
    assertThat(Template.parse("\n" + source))
        .isInstanceOfSatisfying(
            TemplateParse.Unsupported.class,
            refusal -> {
              assertThat(refusal.feature()).isEqualTo(feature);
              assertThat(refusal.line()).isEqualTo(2);
            });
  }

  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiterString = "=>",
      quoteCharacter = '`',
      textBlock =
          """
          {{ x
          {% if x %}
          {% endif %}
          {{ }}
          {{ x | }}
          {{ x | nosuchfilter }}
          {{ x is nosuchtest }}
          {{ 'x }}
          {{ (x] }}
          {{ x ! y }}
          {{ f(a=1, 2) }}
          {{ '\\x4' }}
          {# never closed
          {% raw %} {{ x }}
          {% set 1 = 2 %}
          {% set none = 2 %}
          {% for loop in x %}{% endfor %}
          {% break %}
          {% macro f(a=1, b) %}{% endmacro %}
          {% call x %}{% endcall %}
          {% nosuchtag %}
          {{ x is defined is none }}
          """)
  void callsWhatJinjaRefusesASyntaxError(String source) {
    assertThat(Template.parse(source))
        .isInstanceOfSatisfying(
            TemplateParse.Unsupported.class,
            refusal -> assertThat(refusal.feature()).isEqualTo("syntax_error"));
  }

  @Test
  void filtersThatAreMissingFailOnlyWhenReachedInsideOfAnIf() {
    Template template = parse("{% if x %}{{ x | nosuchfilter }}{% else %}fine{% endif %}");

    assertThat(render(template, Map.of())).isEqualTo(new RenderResult.Rendered("fine"));
    assertThat(render(template, Map.of("x", new Json.Bool(true))))
        .isEqualTo(new RenderResult.Failed("template_error"));
  }

  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiterString = "=>",
      quoteCharacter = '`',
      textBlock =
          """
          {{ 'x' * 1000000000 }} => limit_text
          {{ [1] * 1000000000 }} => limit_items
          {{ 10 ** 100000 }} => limit_int
          {{ '%1000000000d' % 1 }} => limit_text
          {{ '{:1000000000}'.format(1) }} => limit_text
          {{ 'x'.center(1000000000) }} => limit_text
          {{ 'x'.ljust(1000000000) }} => limit_text
          {{ 'x'.zfill(1000000000) }} => limit_text
          {{ 'a\\tb'.expandtabs(1000000000) }} => limit_text
          {{ [1, 2] | tojson(indent=1000000000) }} => limit_text
          {{ 'a\\nb' | indent(1000000000) }} => limit_text
          {{ [1] | batch(1000000000, 0) | list }} => limit_items
          {{ ('x' * 1000000).replace('x', 'y' * 1000) }} => limit_text
          {{ ('x' * 1000000).replace('', 'y' * 1000) }} => limit_text
          {{ ('y' * 1000000).join('z' * 1000) }} => limit_text
          {% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }} => limit_depth
          {% for a in [[1]] recursive %}{{ loop([a]) }}{% endfor %} => limit_depth
          {% set ns = namespace(x=[1]) %}{% for i in range(300) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }} => limit_depth
          {% set ns = namespace(x=[1]) %}{% for i in range(300) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | tojson }} => limit_depth
          {% set ns = namespace(x=[1]) %}{% for i in range(300) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x == [ns.x] }}{{ ns.x < ns.x }} => limit_depth
          {% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %} => limit_work
          {% set ns = namespace(s='xxxxxxxx') %}{% for a in range(1000) %}{% set ns.s = ns.s + ns.s %}{% endfor %} => limit_text
          {% for a in range(100000) %}{{ 'x' * 100000 }}{% endfor %} => limit_text
          {{ lipsum() }} => function_lipsum
          {{ [1] | map('random') | list }} => filter_random
          {{ strftime_now('%E') }} => strftime_directive
          {{ 'x'.upper }} => object_address
          """)
  void stopsBeforeAnyRunsAway(String source, String feature) {
    assertThat(render(parse(source), Map.of())).isEqualTo(new RenderResult.Unsupported(feature));
  }

  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiterString = "=>",
      quoteCharacter = '`',
      textBlock =
          """
          {{ range(1000000) }} => overflow_error
          {{ x.__class__.__mro__ }} => undefined_error
          {{ ''.__class__.__mro__ }} => security_error
          {{ [].append(1) }} => security_error
          {{ {}.update(a=1) }} => security_error
          {{ '{0.__class__.__mro__}'.format(1) }} => security_error
          {% set x.y = 1 %} => template_error
          {{ 1 / 0 }} => zero_division_error
          {% for a, b in [[1, 2, 3]] %}{% endfor %} => value_error
          {{ x.y }} => undefined_error
          {{ none.y.z }} => undefined_error
          {{ none + 1 }} => type_error
          {{ 'x' + 1 }} => type_error
          """)
  void failsWherePythonFails(String source, String kind) {
    assertThat(render(parse(source), Map.of())).isEqualTo(new RenderResult.Failed(kind));
  }

  @Test
  void repeatsTheTemplatesOwnRefusal() {
    assertThat(
            render(
                parse("{{ raise_exception('no ' ~ role) }}"),
                Map.of("role", new Json.Str("narrators"))))
        .isEqualTo(new RenderResult.Refused("no narrators"));
  }

  @Test
  void refusesDeepNestingOfTheSource() {
    assertThat(Template.parse("{{ " + "(".repeat(5000) + "1" + ")".repeat(5000) + " }}"))
        .isInstanceOf(TemplateParse.Unsupported.class);
    assertThat(Template.parse("{% if x %}".repeat(5000) + "{% endif %}".repeat(5000)))
        .isInstanceOf(TemplateParse.Unsupported.class);
  }

  @Test
  void takesLongChainsOfOperators() {
    assertThat(render(parse("{{ 1" + " + 1".repeat(2000) + " }}"), Map.of()))
        .isEqualTo(new RenderResult.Rendered("2001"));
  }

  @Test
  void takesDeepJsonFromARequest() {
    Json value = new Json.Int(1);
    for (int i = 0; i < 90; i++) {
      value = new Json.Arr(List.of(value));
    }

    assertThat(render(parse("{{ x | tojson | length }}"), Map.of("x", value)))
        .isEqualTo(new RenderResult.Rendered("181"));
  }

  @Test
  void keepsAssignmentsOfALoopInsideOfIt() {
    assertThat(
            render(
                parse(
                    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}"),
                Map.of()))
        .isEqualTo(new RenderResult.Rendered("12 13 1"));
  }

  @Test
  void sharesNothingBetweenThreads() throws InterruptedException, ExecutionException {
    Template template =
        parse(
            "{% set ns = namespace(n=0) %}{% macro f(a) %}<{{ a }}>{% endmacro %}"
                + "{% for i in range(200) %}{% set ns.n = ns.n + start %}{{ f(ns.n) }}{% endfor %}");
    List<RenderResult> alone = new ArrayList<>();
    for (int i = 0; i < 8; i++) {
      alone.add(render(template, Map.of("start", new Json.Int(i))));
    }

    try (var executor = Executors.newFixedThreadPool(8)) {
      List<Future<RenderResult>> futures = new ArrayList<>();
      for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 8; i++) {
          Map<String, Json> variables = Map.of("start", new Json.Int(i));
          futures.add(executor.submit(() -> render(template, variables)));
        }
      }
      List<RenderResult> together = new ArrayList<>();
      for (Future<RenderResult> future : futures) {
        together.add(future.get());
      }
      assertThat(together)
          .isEqualTo(Collections.nCopies(50, alone).stream().flatMap(List::stream).toList());
    }
  }

  private static Template parse(String source) {
    TemplateParse parse = Template.parse(source);
    assertThat(parse).isInstanceOf(TemplateParse.Parsed.class);
    return ((TemplateParse.Parsed) parse).template();
  }

  private static RenderResult render(Template template, Map<String, Json> variables) {
    return template.render(variables, RenderLimits.DEFAULTS, Clock.systemUTC());
  }
}
