// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.chat;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import io.kvoy.tokenizer.jinja.KnownItem;
import io.kvoy.tokenizer.jinja.RenderLimits;
import io.kvoy.tokenizer.jinja.RenderResult;
import io.kvoy.tokenizer.jinja.Template;
import io.kvoy.tokenizer.jinja.TemplateParse;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Renders that follow traces of earlier ones, against renders that know nothing. */
class KnownItemsTest {
  private static final Clock CLOCK =
      Clock.fixed(Instant.parse("2026-11-30T12:34:56Z"), ZoneOffset.UTC);

  private static final int ROUNDS = 200;

  private final SplittableRandom random = new SplittableRandom(11);

  static Stream<String> templates() {
    return TemplateGoldensTest.templates();
  }

  /**
   * One item per message, however often and wherever the message stands: traces meet every context.
   */
  @ParameterizedTest(name = "{0}")
  @MethodSource("templates")
  void textsEqualThoseOfARenderThatKnowsNothing(String name) {
    Template template = template(TestData.publishedTemplate(name));
    List<KnownItem> pool = pool();
    List<KnownItem> messages = new ArrayList<>();
    List<Json> tools = tools();
    for (int round = 0; round < ROUNDS; round++) {
      change(messages, pool);
      Map<String, Json> variables = variables(tools);
      RenderLimits limits =
          random.nextInt(4) > 0
              ? RenderLimits.DEFAULTS
              : new RenderLimits(
                  random.nextInt(1, 3000),
                  RenderLimits.DEFAULTS.maxTextChars(),
                  RenderLimits.DEFAULTS.maxItems(),
                  RenderLimits.DEFAULTS.maxDepth());

      assertThat(inParts(template, variables, messages, limits))
          .isEqualTo(atOnce(template, variables, messages, limits));
    }
  }

  /** Appends, takes back, replaces, begins anew. */
  private void change(List<KnownItem> messages, List<KnownItem> pool) {
    KnownItem any = pool.get(random.nextInt(pool.size()));
    switch (random.nextInt(8)) {
      case 0 -> messages.clear();
      case 1 -> {
        if (!messages.isEmpty()) {
          messages.removeLast();
        }
      }
      case 2 -> {
        if (!messages.isEmpty()) {
          messages.set(random.nextInt(messages.size()), any);
        }
      }
      default -> {
        if (messages.size() < 24) {
          // Mostly as conversations go, so that templates do not refuse nearly all of them.
          String role = messages.size() % 2 == 0 ? "user" : "assistant";
          KnownItem fitting = any;
          for (int i = 0; i < 40 && !ChatNormalizer.hasRole(fitting.json(), role); i++) {
            fitting = pool.get(random.nextInt(pool.size()));
          }
          messages.add(random.nextInt(8) == 0 ? any : fitting);
        }
      }
    }
    if (messages.isEmpty()) {
      messages.add(any);
    }
  }

  private Map<String, Json> variables(List<Json> tools) {
    Map<String, Json> variables = new HashMap<>();
    for (String token : List.of("bos", "eos", "unk", "pad")) {
      variables.put(token + "_token", new Json.Str("<|" + token + "|>"));
    }
    variables.put("documents", Json.Null.NULL);
    variables.put("add_generation_prompt", new Json.Bool(random.nextInt(4) > 0));
    variables.put("tools", random.nextInt(3) == 0 ? new Json.Arr(tools) : Json.Null.NULL);
    for (String flag : List.of("enable_thinking", "thinking", "content", "clear_thinking")) {
      if (random.nextInt(6) == 0) {
        variables.put(flag, new Json.Bool(random.nextInt(2) == 0));
      }
    }
    return variables;
  }

  /** The messages of the goldens' requests, and some that differ in a detail. */
  private static List<KnownItem> pool() {
    List<KnownItem> pool = new ArrayList<>();
    for (Json request : requests()) {
      for (Json message : ((Json.Arr) TestData.field((Json.Obj) request, "messages")).items()) {
        pool.add(item((Json.Obj) message));
      }
    }
    for (String content :
        List.of(
            "",
            " ",
            "\n x \n",
            "<think>why</think>so",
            "</think>",
            "<tool_response>r</tool_response>")) {
      for (String role : List.of("user", "assistant", "system", "tool")) {
        pool.add(
            item(
                Json.Obj.of(Map.of("role", new Json.Str(role), "content", new Json.Str(content)))));
      }
    }
    return pool;
  }

  private static final AtomicInteger ITEMS = new AtomicInteger();

  /** Every third begins a stretch, every ninth a long one. */
  private static KnownItem item(Json.Obj json) {
    int number = ITEMS.incrementAndGet();
    return new KnownItem(
        json,
        number % 9 == 0
            ? KnownItem.Leads.LONG
            : number % 3 == 0 ? KnownItem.Leads.SHORT : KnownItem.Leads.NONE);
  }

  /**
   * Turn by turn, now and then from an earlier message on, in other circumstances, or cut short.
   */
  @ParameterizedTest(name = "{0}")
  @MethodSource("templates")
  void textsOfLongConversationsEqualThoseOfARenderThatKnowsNothing(String name) {
    assertLongConversationsSame(template(TestData.publishedTemplate(name)));
  }

  private void assertLongConversationsSame(Template template) {
    List<KnownItem> pool = pool();
    List<KnownItem> messages = new ArrayList<>();
    Map<String, Json> variables = variables(List.of());
    for (int turn = 0; turn < 60; turn++) {
      if (random.nextInt(10) == 0) {
        messages.subList(random.nextInt(messages.size() + 1), messages.size()).clear();
      }
      for (String role : List.of("user", "assistant")) {
        if (messages.size() % 2 == (role.equals("user") ? 0 : 1)) {
          KnownItem fitting = random.nextInt(4) > 0 ? message(role, "text " + turn) : null;
          while (fitting == null || !ChatNormalizer.hasRole(fitting.json(), role)) {
            fitting = pool.get(random.nextInt(pool.size()));
          }
          messages.add(fitting);
        }
      }
      if (random.nextInt(4) == 0) {
        int index = random.nextInt(messages.size());
        messages.set(index, message(index % 2 == 0 ? "user" : "assistant", "other " + turn));
      }
      if (random.nextInt(8) == 0) {
        variables = variables(List.of());
      }
      List<KnownItem> sent = messages.subList(0, messages.size() - random.nextInt(2));
      RenderLimits limits =
          new RenderLimits(
              random.nextInt(4) == 0 ? random.nextInt(1, 5000) : RenderLimits.DEFAULTS.maxWork(),
              random.nextInt(4) == 0
                  ? random.nextInt(1, 5000)
                  : RenderLimits.DEFAULTS.maxTextChars(),
              RenderLimits.DEFAULTS.maxItems(),
              RenderLimits.DEFAULTS.maxDepth());
      for (RenderLimits at : List.of(RenderLimits.DEFAULTS, RenderLimits.DEFAULTS, limits)) {
        assertThat(inParts(template, variables, sent, at))
            .isEqualTo(atOnce(template, variables, sent, at));
      }
    }
  }

  private static List<Json> tools() {
    for (Json request : requests()) {
      if (((Json.Obj) request).get("tools") instanceof Json.Arr(List<Json> tools)) {
        return tools;
      }
    }
    throw new AssertionError("no request with tools");
  }

  private static List<Json> requests() {
    return ((Json.Arr) TestData.json(TestData.resource("goldens/chat-requests.json"))).items();
  }

  private static Template template(String source) {
    return ((TemplateParse.Parsed) Template.parse(source)).template();
  }

  private static RenderResult atOnce(
      Template template,
      Map<String, Json> variables,
      List<KnownItem> messages,
      RenderLimits limits) {
    Map<String, Json> all = new HashMap<>(variables);
    List<Json> plain = new ArrayList<>();
    messages.forEach(message -> plain.add(message.json()));
    all.put("messages", new Json.Arr(plain));
    return template.render(all, limits, CLOCK);
  }

  private static RenderResult inParts(
      Template template,
      Map<String, Json> variables,
      List<KnownItem> messages,
      RenderLimits limits) {
    List<String> parts = new ArrayList<>();
    RenderResult failure = template.renderParts(variables, messages, limits, CLOCK, parts);
    return failure == null ? new RenderResult.Rendered(String.join("", parts)) : failure;
  }

  private static final AtomicInteger NEXT = new AtomicInteger();

  private static KnownItem message(String role, String content) {
    return item(Json.Obj.of(Map.of("role", new Json.Str(role), "content", new Json.Str(content))));
  }

  /** The parts of two renders of the same messages, the second with one more. */
  private static List<List<String>> twice(String source) {
    Template template = template(source);
    List<KnownItem> messages = new ArrayList<>();
    for (int i = 0; i < 6; i++) {
      messages.add(message(i % 2 == 0 ? "user" : "assistant", "text " + NEXT.incrementAndGet()));
    }
    List<List<String>> both = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      List<String> parts = new ArrayList<>();
      Map<String, Json> variables = Map.of("bos_token", new Json.Str("<s>"));
      @Nullable RenderResult failure =
          template.renderParts(variables, messages, RenderLimits.DEFAULTS, CLOCK, parts);
      assertThat(failure).isNull();
      both.add(parts);
      messages.add(message("user", "one more"));
    }
    return both;
  }

  @SuppressWarnings("ReferenceEquality") // the very string
  private static int shared(List<List<String>> both) {
    int shared = 0;
    for (int i = 0; i < both.get(0).size() && i < both.get(1).size(); i++) {
      shared += both.get(0).get(i) == both.get(1).get(i) ? 1 : 0;
    }
    return shared;
  }

  @Test
  void whatTheItemSettlesIsNotRenderedAgain() {
    assertThat(shared(twice("{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}")))
        .isEqualTo(6);
  }

  @Test
  void onlyPassesThatWentAnotherWayAreRenderedAgain() {
    String source =
        "{% for m in messages %}{{ m.content }}{% if loop.last %} (last){% endif %}{% endfor %}";
    assertThat(shared(twice(source))).isEqualTo(5);
  }

  @Test
  void valuesFromElsewhereArePrintedAgainAndCompared() {
    String counted = "{% for m in messages %}{{ m.content ~ messages|length }}{% endfor %}";
    assertThat(shared(twice(counted))).isZero();
    String numbered = "{% for m in messages %}{{ loop.index ~ m.content }}{% endfor %}";
    assertThat(shared(twice(numbered))).isEqualTo(6);
  }

  @Test
  void namespacesAreAssignedAgain() {
    String source =
        "{% set ns = namespace(seen=0) %}{% for m in messages %}{% set ns.seen = ns.seen + 1 %}"
            + "{{ m.content }}{% endfor %}{{ ns.seen }}";
    List<List<String>> both = twice(source);
    assertThat(shared(both)).isEqualTo(6);
    assertThat(both.get(0).getLast()).isEqualTo("6");
    assertThat(both.get(1).getLast()).isEqualTo("7");
  }

  /** The pass assigns, then goes another way: the assignment must not count twice. */
  @Test
  void aPassThatIsLeftHalfwayHasChangedNothing() {
    String source =
        "{% set ns = namespace(seen=0) %}{% for m in messages %}{% set ns.seen = ns.seen + 1 %}"
            + "{% if loop.last %}last {% endif %}{{ m.content }}{% endfor %}{{ ns.seen }}";
    assertThat(twice(source).get(1).getLast()).isEqualTo("7");
  }

  @Test
  void variablesOfThePassAreThereForWhatIsEvaluatedAgain() {
    String source =
        "{% for m in messages %}{% set who = m.role|upper %}{{ m.content }}"
            + "{{ who if loop.index > 0 else '' }}{% endfor %}";
    assertThat(shared(twice(source))).isEqualTo(6);
  }

  @Test
  void iteratorsAreNotUsedUpTwice() {
    String source =
        "{% for m in messages %}{% set letters = m.content|map('upper') %}{{ letters|join }}"
            + "{% if loop.index > 0 and letters|join %}again{% endif %}{% endfor %}";
    List<List<String>> both = twice(source);
    assertThat(String.join("", both.get(0))).doesNotContain("again");
    assertThat(String.join("", both.get(1))).doesNotContain("again");
  }

  @Test
  void macrosSeeWhatIsAroundThem() {
    String source =
        "{% set ns = namespace(n=0) %}{% macro count(m) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}"
            + "{{ m.content }}{% endmacro %}{% for m in messages %}{{ count(m) }}{% endfor %}";
    assertThat(String.join("", twice(source).get(1))).contains("7one more");
  }

  private static final List<String> CONTENTS = List.of("a", "b", "", "a", "ccc");

  /** Conversations that grow, shrink and grow again, at these limits. */
  private static void assertSame(String source, RenderLimits limits) {
    Template template = template(source);
    List<KnownItem> pool = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      pool.add(message(i % 2 == 0 ? "user" : "assistant", CONTENTS.get(i % CONTENTS.size())));
    }
    Map<String, Json> variables = Map.of("bos_token", new Json.Str("<s>"));
    for (int count : List.of(3, 4, 6, 2, 5, 7, 7, 10, 1, 9)) {
      for (RenderLimits at : List.of(RenderLimits.DEFAULTS, limits)) {
        List<KnownItem> messages = pool.subList(0, count);
        assertThat(inParts(template, variables, messages, at))
            .as("%s messages, %s, %s", count, at, source)
            .isEqualTo(atOnce(template, variables, messages, at));
      }
    }
  }

  private static void assertSame(String source) {
    assertSame(source, RenderLimits.DEFAULTS);
  }

  /** At each limit of work and of text that a render of that template may meet. */
  private static void assertSameAtAllLimits(String source) {
    for (int limit = 0; limit < 160; limit++) {
      RenderLimits defaults = RenderLimits.DEFAULTS;
      assertSame(
          source,
          new RenderLimits(
              limit, defaults.maxTextChars(), defaults.maxItems(), defaults.maxDepth()));
      assertSame(
          source,
          new RenderLimits(defaults.maxWork(), limit, defaults.maxItems(), defaults.maxDepth()));
    }
  }

  @Test
  void workOfTraceThatIsLeftHalfwayCountsOnce() {
    assertSameAtAllLimits(
        "{% for m in messages %}{{ loop.index }}{{ 'x' * loop.index }}{% if loop.last %}last"
            + "{% endif %}{{ m.content }}{% endfor %}");
  }

  @Test
  void errorsAndLimitsComeInTheOrderOfTheBody() {
    String heavy = "{% for i in [1, 2, 3, 4, 5, 6, 7, 8] %}{{ m.content|upper }}{% endfor %}";
    String error = "{{ (messages|length > 6 and loop.index == 4 and 1 + 'x') or '' }}";
    for (String body : List.of(heavy + error, error + heavy, heavy + error + heavy)) {
      assertSameAtAllLimits("{% for m in messages %}" + body + "{% endfor %}");
      assertSameAtAllLimits("{% for m in messages %}" + body + "{% endfor %}{{ 1 + 'x' }}");
    }
    assertSameAtAllLimits(
        "{% for m in messages if not loop and m.content != 'ccc' or 1 + 'x' %}"
            + "{% if loop.last %}!{% endif %}"
            + heavy
            + "{% endfor %}");
    assertSameAtAllLimits(
        "{% for m in messages if m.content != 'ccc' or messages|length < 7 or 1 + 'x' %}"
            + "{% if loop.last %}!{% endif %}"
            + heavy
            + "{{ loop.length }}{% endfor %}");
    assertSameAtAllLimits(
        "{% for m in messages %}{% if m.content == 'ccc' and not loop.last %}"
            + "{{ 'much too long a text' }}{{ 1 + 'x' }}{% endif %}{{ m.content }}{% endfor %}");
  }

  @Test
  void functionsCalledLikeMethodsOfTextAreNotCalledTwice() {
    String counting =
        "{% set ns = namespace(n=0) %}{% macro count() %}{% set ns.n = ns.n + 1 %}{{ ns.n }}"
            + "{% endmacro %}";
    assertSame(
        counting
            + "{% set ns.title = count %}{% for m in messages %}{{ m.content }}"
            + "{% if ns.title() and loop.last %}last{% endif %}{% endfor %}{{ ns.n }}");
    assertSame(
        counting
            + "{% set by = {'title': count} %}{% for m in messages %}{% set ns.x = by.title() %}"
            + "{% if loop.last %}last{% endif %}{% endfor %}{{ ns.n }}");
    // The trace is of a text, what follows it is not.
    assertSame(
        counting
            + "{% set ns.o = 'text' %}{% if messages|length > 4 %}{% set ns.o = namespace("
            + "title=count) %}{% endif %}{% for m in messages %}{{ m.content }}"
            + "{% if ns.o.title() and loop.last %}last{% endif %}{% endfor %}{{ ns.n }}");
  }

  @Test
  void testsUseUpNoIteratorTwice() {
    assertSame(
        "{% set ns = namespace(it=messages|map(attribute='content')) %}{% for m in messages %}"
            + "{{ m.content }}{% if m.content is in(ns.it) and loop.last %}!{% endif %}"
            + "{% endfor %}{{ ns.it|list|length }}");
    assertSame(
        "{% set ns = namespace(it=messages|map(attribute='content')) %}{% for m in messages %}"
            + "{{ m.content }}{{ m.content is in ns.it }}{% if loop.last %}!{% endif %}"
            + "{% endfor %}{{ ns.it|list|length }}");
  }

  @Test
  void functionsOfPassSeeWhatLaterPassesLeave() {
    String start = "{% set ns = namespace(f='') %}{% for m in messages %}";
    String end = "{% set y = m.content %}{{ y }}{% endfor %}{{ ns.f() }}";
    assertSame(
        start
            + "{% if loop.first %}{% macro f() %}[{{ y }}{{ m.content }}]{% endmacro %}"
            + "{% set ns.f = f %}{% endif %}"
            + end);
    assertSame(
        "{% macro keep() %}{% set ns.f = caller %}{% endmacro %}"
            + start
            + "{% if loop.first %}{% call keep() %}[{{ y }}]{% endcall %}{% endif %}"
            + end);
  }

  @Test
  void loopVariableIsItselfInEachPass() {
    assertSame("{% for m in messages %}{{ loop.index }}{% set loop = m.content %}{% endfor %}");
    assertSame("{% for m in messages %}{{ loop.last }}{% set loop = m %}{{ loop }}{% endfor %}");
  }

  private static final String SEEN = "{% set ns = namespace(a=0, b=0, seen=0) %}";

  /** What may be said once for several passes, and what may not. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "{% for m in messages %}{{ loop.index }}{{ bos_token }}{{ m.content }}{% endfor %}",
        "{% for m in messages[1:] %}{{ loop.index }}{{ bos_token }}{{ m.content }}{% endfor %}",
        "{% for m in messages[::-1] %}{{ loop.index }}{{ m.content }}{% endfor %}",
        "{% for m in messages[::-1] %}{% set i = messages|length - 1 - loop.index0 %}"
            + "{% if bos_token %}{{ m.content }}{% endif %}{% endfor %}",
        "{% for m in messages[::-1] %}{% set i = messages|length - 1 - loop.index0 %}"
            + "{% if i > 2 %}{{ m.content }}{% endif %}{% endfor %}",
        "{% for m in messages %}{% set i = bos_token ~ loop.index0 %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{% set i = bos_token - loop.index0 %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{% if loop.index0 < messages|length - 5 %}{{ m.content }}"
            + "{% else %}{{ m.role }}{% endif %}{% endfor %}",
        "{% for m in messages %}{% if messages|length / 2 <= loop.index %}{{ m.content }}"
            + "{% else %}{{ m.role }}{% endif %}{% endfor %}",
        "{% for m in messages %}{% if loop.index0 != messages|length - 5 %}{{ m.content }}"
            + "{% else %}{{ m.role }}{% endif %}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{% if loop.nextitem is defined %}"
            + "{{ loop.nextitem.content }}{% endif %}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{% if loop.previtem is defined %}"
            + "{{ loop.previtem.content }}{% endif %}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ loop.revindex }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{% if m.content == messages[-1].content %}!"
            + "{% endif %}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{% if messages[loop.index0 + 1].role %}!"
            + "{% endif %}{% endfor %}",
        "{% for m in messages %}{% set was = ns %}{% set ns = m.role %}{{ was }}{{ ns }}"
            + "{{ loop.index }}{% endfor %}",
        SEEN
            + "{% for m in messages %}{% set ns.seen = ns.seen + 1 %}{{ m.content }}{% endfor %}"
            + "{{ ns.seen }}",
        SEEN
            + "{% for m in messages %}{% if m.role == 'user' %}{% set ns.a = 1 %}{% else %}"
            + "{{ ns.a }}{{ m.content }}{% set ns.a = 2 %}{% endif %}{% endfor %}{{ ns.a }}",
        SEEN
            + "{% for m in messages %}{{ ns.a }}{% set ns.a = m.content|length %}{% endfor %}"
            + "{{ ns.a }}",
        SEEN
            + "{% for m in messages %}{% if ns.a == 0 and loop.index == 3 %}{% set ns.a = 1 %}"
            + "{% endif %}{{ m.content }}{{ ns.a }}{{ ns.b }}{% if loop.last %}{% set ns.b = 1 %}"
            + "{% endif %}{% endfor %}{{ ns.a }}{{ ns.b }}",
        SEEN
            + "{% set other = ns %}{% for m in messages %}{{ m.content }}{{ ns.a }}{{ other.a }}"
            + "{% if m.role == 'user' %}{% set other.a = 3 %}{% else %}{% set ns.a = 4 %}"
            + "{% endif %}{% endfor %}",
        SEEN
            + "{% set list = [ns] %}{% for m in messages %}{{ m.content }}{{ list[0].a }}"
            + "{% if loop.index > 4 %}{% set ns.a = 3 %}{% endif %}{% endfor %}",
        SEEN
            + "{% set ns.b = ns %}{% for m in messages %}{{ m.content }}{{ ns.b.a }}"
            + "{% if m.content %}{% set ns.a = 3 %}{% endif %}{% endfor %}",
        SEEN
            + "{% for m in messages %}{% if loop.first %}{% set ns.a = loop %}{% endif %}"
            + "{{ m.content }}{{ ns.a.index }}{% endfor %}",
        SEEN
            + "{% for m in messages %}{% set l = [loop] %}{{ m.content }}{{ l[0].index }}"
            + "{% endfor %}",
        "{% for m in messages %}{{ loop.index }}{% set loop = m %}{{ loop.content }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{{ loop.changed(m.role) }}{% endfor %}",
        "{% for m in messages %}{{ m.content }}{% if loop.index > 6 %}{{ loop.changed(m.role) }}"
            + "{% endif %}{% endfor %}",
        "{% for m in messages %}{% if m.role == 'user' %}{% continue %}{% endif %}{{ m.content }}"
            + "{% else %}none{% endfor %}",
        "{% for m in messages %}{% if m.content == 'ccc' %}{% break %}{% endif %}{{ m.content }}"
            + "{% else %}none{% endfor %}",
        SEEN
            + "{% for m in messages %}{% if loop.first %}{% set ns.a = loop %}{% endif %}"
            + "{{ m.content }}{% if ns.a.index0 == messages|length - 5 %}!{% endif %}{% endfor %}",
        "{% for m in messages %}{{ m.content ~ bos_token ~ thinking }}{% endfor %}",
        "{% for m in messages %}{{ m.content ~ messages|length }}{% endfor %}",
        "{% set n = messages|length // 5 %}{% for m in messages %}{{ loop.index ~ m.role ~ n }}"
            + "{% if m.content != n %}{{ m.content }}{% endif %}{% endfor %}",
        "{% for m in messages %}{{ m.role ~ tools }}{% set tools = m.role %}{{ tools ~ loop.index }}"
            + "{% endfor %}",
        SEEN
            + "{% for m in messages %}{{ m.role ~ ns.a }}{% if loop.index == 5 %}"
            + "{% set ns.a = 1 %}{% endif %}{% endfor %}",
        SEEN
            + "{% for m in messages %}{{ m.role ~ ns.a }}{% if loop.index == 9 %}"
            + "{% set ns.a = messages|length // 9 %}{% endif %}{% endfor %}",
        "{% for m in messages %}{% if messages|length > 0 %}{{ m.content }}{% endif %}"
            + "{% if loop.index0 < messages|length + 1 %}!{% endif %}{% endfor %}",
        "{% for x in [1, 2] %}{% for m in messages %}{{ x }}{{ m.content }}{{ loop.index }}"
            + "{% endfor %}{% endfor %}",
        "{% for x in [1, 2] %}{% set outer = loop %}{% for m in messages %}{{ outer.index }}"
            + "{{ m.content }}{{ outer.last }}{% endfor %}{% endfor %}",
        "{% for x in [1, 2, 3]|map('abs') %}{% set outer = loop %}{% for m in messages %}"
            + "{{ m.content }}{{ outer.length }}{% endfor %}{% endfor %}",
      })
  void stretchesSayWhatTheirPassesSay(String source) {
    assertSame(source);
    assertLongConversationsSame(template(source));
    assertSameAtAllLimits(source);
  }

  /** A request's own text, such as its tools, does not stay with what others remember. */
  @Test
  void rememberedItemsKeepNoTextBeyondTheirAccount() {
    Template template =
        template(
            "{% for m in messages %}{{ m.content }}{{ big }}{{ loop.index }}{% set x = big ~ x %}"
                + "{% endfor %}");
    KnownItem item = message("user", "hi");
    List<KnownItem> messages = List.of(item);
    Map<String, Json> small = Map.of("big", new Json.Str("small"));
    Map<String, Json> big = Map.of("big", new Json.Str("tools".repeat(10_000)));
    RenderLimits limits = RenderLimits.DEFAULTS;
    for (Map<String, Json> variables : List.of(small, big, small, big)) {
      assertThat(inParts(template, variables, messages, limits))
          .isEqualTo(atOnce(template, variables, messages, limits));
      item.remembered(100);
      assertThat(item.chars()).isBetween(1L, 100L);
    }
  }

  @Test
  void floatsAreTheirOwn() {
    String source =
        "{% for m in messages %}{% set x = m.n %}{{ x is sameas messages[loop.index0].n }}"
            + "{% endfor %}";
    Template template = template(source);
    List<KnownItem> messages = List.of(new KnownItem(Json.Obj.of(Map.of("n", new Json.Real(0.5)))));
    for (int i = 0; i < 2; i++) {
      assertThat(inParts(template, Map.of(), messages, RenderLimits.DEFAULTS))
          .isEqualTo(new RenderResult.Rendered("True"));
    }
  }

  @Test
  void namesOfTheLoopAreWhatTheyWereWhenAPassIsLeft() {
    assertSame(
        "{% for m in messages %}{{ m.content|length }}{% set m = messages|length > 0 %}"
            + "{% if loop.last %}{{ m }}{% endif %}{% endfor %}");
    assertSame(
        "{% for m in messages %}{{ loop.index }}{% set i = loop.index %}{% set last = loop.last %}"
            + "{% set loop = messages|length > 0 %}{% if last %}{{ loop }}{{ i }}{% endif %}"
            + "{% endfor %}");
  }

  @Test
  void oddBodies() {
    String ns = "{% set ns = namespace(n=0, s='') %}";
    for (String source :
        List.of(
            "{% for m in messages %}{% set x = m.content %}{{ x is sameas messages[loop.index0]"
                + ".content }}{% endfor %}",
            "{% for m in messages %}{% set x = m.content|length %}{{ x is sameas messages[loop"
                + ".index0].content|length }}{% endfor %}",
            "{% for m in messages %}{% with x = m.content %}{% set x = x ~ loop.index %}{{ x }}"
                + "{% endwith %}{{ x }}{% endfor %}",
            "{% set x = messages|length %}{% for m in messages %}{{ x }}{% if m.content %}"
                + "{% set x = m.content %}{% endif %}{{ x }}{% endfor %}",
            "{% set x = messages|length %}{% for m in messages %}{% if m.content %}{% set x = 1 %}"
                + "{% endif %}{% set y %}{{ x }}{% endset %}{{ y }}{% endfor %}",
            "{% set x = messages|length %}{% for m in messages %}{% set y %}{% if m.content %}"
                + "{% continue %}{% endif %}q{% endset %}{{ y }}{{ x }}{% else %}none{% endfor %}",
            "{% for m in messages %}{% for c in m.content %}{% set loop2 = loop.index %}{{ c }}"
                + "{% else %}{{ loop.index }}{% endfor %}{% if loop.last %}!{% endif %}{% endfor %}",
            "{% for m in messages %}{% for c in m.content if c != 'a' %}{{ c }}{{ loop.last }}"
                + "{% else %}{{ loop.index }}{% endfor %}{% endfor %}",
            ns
                + "{% for m in messages if m.content != ns.s %}{{ m.content }}{{ loop.last }}"
                + "{% set ns.s = m.content %}{% endfor %}{{ ns.s }}",
            ns
                + "{% for m in messages if ns.n < 5 %}{% set ns.n = ns.n + 1 %}{% if loop.last %}"
                + "{% set ns.n = ns.n + 2 %}{% endif %}{% endfor %}{{ ns.n }}",
            ns
                + "{% for m in messages %}{% set ns.a = m.content %}{% set ns.b = ns.a %}"
                + "{% if loop.last and ns.b %}{% set ns.c = ns.n %}{% endif %}{% endfor %}{{ ns }}"
                + "{{ ns.a }}{{ ns.b }}{{ ns.c }}",
            ns
                + "{% for k in [1, 2] %}{% for m in messages %}{{ k }}{{ m.content }}"
                + "{% set ns.n = ns.n + k %}{% if ns.n == 4 %}{% break %}{% endif %}{% endfor %}"
                + "{{ ns.n }}{% endfor %}",
            "{% for m in messages|reverse %}{{ m.content }}{{ loop.previtem.content }}"
                + "{{ (loop.nextitem or {}).content }}{% endfor %}",
            "{% for m in messages recursive %}{{ m.content }}{{ loop.depth }}{% if loop.last and "
                + "loop.depth < 2 %}{{ loop(messages) }}{% endif %}{% endfor %}",
            "{% for a, b in messages %}{{ a }}{{ b }}{{ loop.last }}{% endfor %}",
            "{% for m in messages %}{% filter upper %}{{ m.content }}{{ bos_token }}{% endfilter %}"
                + "{% filter upper %}{{ m.content }}{% endfilter %}{{ loop.last }}{% endfor %}",
            "{% for g in messages|groupby('role') %}{% for m in g.list %}{{ m.content }}"
                + "{{ loop.last }}{{ g.grouper }}{% endfor %}{% endfor %}",
            "{% set r %}{% for m in messages %}{{ m.content }}{{ loop.last }}{% endfor %}"
                + "{% endset %}{{ r }}{{ r|length }}",
            "{% for m in messages %}{% set t = {'a': m.content} %}{% if loop.last %}{{ t.a }}"
                + "{% endif %}{% set u = m %}{{ u.content ~ loop.last }}{% endfor %}",
            "{% for m in messages %}{% if loop.changed(m.content) %}{{ m.content }}{% endif %}"
                + "{{ loop.cycle('x', 'y') }}{% endfor %}")) {
      assertSame(source);
      assertSameAtAllLimits(source);
    }
  }

  /** Templates that nobody would write. */
  @Test
  void templatesOfChance() {
    for (int i = 0; i < RANDOM_TEMPLATES; i++) {
      String source =
          "{% set ns = namespace(a=0, b='', it=messages|map(attribute='content')) %}"
              + (random.nextInt(2) == 0 ? "{% set x = messages|length %}" : "")
              + "{% macro f(v) %}{% set ns.a = ns.a + 1 %}{{ v }}{{ ns.a }}{% endmacro %}"
              + (random.nextInt(3) == 0 ? "{% set ns.title = f %}" : "")
              + loop(3)
              + statement(1)
              + "{{ ns.a }}{{ ns.b }}{{ x }}{{ ns.it|list|length }}";
      if (Template.parse(source) instanceof TemplateParse.Parsed) {
        RenderLimits defaults = RenderLimits.DEFAULTS;
        assertSame(
            source,
            new RenderLimits(
                random.nextInt(400),
                random.nextInt(2) == 0 ? random.nextInt(200) : defaults.maxTextChars(),
                defaults.maxItems(),
                defaults.maxDepth()));
      }
    }
  }

  private static final int RANDOM_TEMPLATES = 500;

  private String loop(int depth) {
    String items =
        any("messages", "messages", "messages[1:]", "messages|reverse", "messages + messages");
    return "{% for m in "
        + items
        + any("", "", "", " if m.content != ns.b", " if ns.a < 9", " if f(m.role)")
        + " %}"
        + body(depth)
        + any("", "", "{% else %}" + statement(1))
        + "{% endfor %}";
  }

  private String body(int depth) {
    StringBuilder body = new StringBuilder();
    for (int i = random.nextInt(1, 5); i > 0; i--) {
      body.append(statement(depth - 1));
    }
    return body.toString();
  }

  private String statement(int depth) {
    return switch (random.nextInt(depth > 0 ? 14 : 6)) {
      case 0, 1 -> "{{ " + expression(2) + " }}";
      case 2 -> "{% set " + any("x", "y", "m", "loop", "ns.a", "ns.b") + " = " + value() + " %}";
      case 3 -> any("{% set ns.a = ns.a + 1 %}", "{% set ns.b = m.content %}", "-");
      case 4 -> "{{ m.content }}";
      case 5 ->
          random.nextInt(4) == 0
              ? "{% if "
                  + expression(2)
                  + " %}"
                  + any("{% break %}", "{% continue %}", "")
                  + "{% endif %}"
              : "{{ x }}{{ y }}";
      case 6, 7, 8 ->
          "{% if "
              + expression(2)
              + " %}"
              + body(depth)
              + any("", "{% elif " + expression(1) + " %}" + body(depth))
              + any("", "{% else %}" + body(depth))
              + "{% endif %}";
      case 9, 10 ->
          "{% for "
              + any("c", "x", "m", "y")
              + " in "
              + any("m.content", "m.content", "'ab'", "messages", "[x, y]", "m", "ns.it")
              + any("", "", " if loop", " if x", " if m.content")
              + " %}"
              + body(depth)
              + any("", "{% else %}" + body(depth))
              + "{% endfor %}";
      case 11 ->
          "{% with "
              + any("x", "y", "c")
              + " = "
              + expression(2)
              + any("", ", y = x")
              + " %}"
              + body(depth)
              + "{% endwith %}";
      case 12 ->
          "{% set "
              + any("x", "y", "m", "ns.b")
              + any("", "", " | upper")
              + " %}"
              + body(depth)
              + "{% endset %}";
      default ->
          any(
              "{% filter upper %}" + body(depth) + "{% endfilter %}",
              "{% macro g() %}" + body(depth) + "{% endmacro %}{{ g() }}",
              "{% call f(1) %}" + body(depth) + "{% endcall %}",
              "{% generation %}" + body(depth) + "{% endgeneration %}");
    };
  }

  /** Mostly what can be told from the item. */
  private String value() {
    return random.nextInt(3) == 0 ? any("x", "m.content", "m", "m.role|upper") : expression(2);
  }

  private String expression(int depth) {
    if (depth == 0 || random.nextInt(3) == 0) {
      return any(
          "x",
          "y",
          "c",
          "m.content",
          "m.role",
          "m",
          "ns.a",
          "ns.b",
          "1",
          "'q'",
          "loop.last",
          "loop.index",
          "loop.first",
          "loop.length",
          "loop.previtem",
          "(loop.nextitem or {}).role",
          "messages|length",
          "messages[0].content",
          "bos_token",
          "m.content|trim",
          "ns.it");
    }
    String a = expression(depth - 1);
    String b = expression(depth - 1);
    return switch (random.nextInt(12)) {
      case 0 -> "(" + a + " and " + b + ")";
      case 1 -> "(" + a + " or " + b + ")";
      case 2 -> "(not " + a + ")";
      case 3 -> "(" + a + " == " + b + ")";
      case 4 -> "(" + a + " ~ " + b + ")";
      case 5 -> "(" + a + " if " + b + " else " + expression(0) + ")";
      case 6 -> "(" + a + ")|" + any("upper", "length", "string", "default('d')", "list", "first");
      case 7 -> "(" + a + " in " + b + ")";
      case 8 ->
          "(" + a + " is " + any("defined", "string", "in(" + b + ")", "sameas(" + b + ")") + ")";
      case 9 -> any("f(" + a + ")", "ns.title(1)", "(" + a + ").title()", "m.get('content')");
      case 10 -> "(" + a + ")" + any("[0]", "[1:]", ".content", "[-1]", "[" + b + "]");
      default -> "[" + a + ", " + b + "]";
    };
  }

  private String any(String... choices) {
    return choices[random.nextInt(choices.length)];
  }
}
