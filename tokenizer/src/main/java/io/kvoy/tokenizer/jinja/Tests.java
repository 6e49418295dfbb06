// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The tests of Jinja2 3.1.6, what follows {@code is}. */
final class Tests {

  /** A test at work on a value. */
  @FunctionalInterface
  interface Test {
    boolean apply(Render render, Object value, Args args);
  }

  private interface Simple {
    boolean apply(Object value);
  }

  private interface Pair {
    boolean apply(Render render, Object value, Object other);
  }

  private static final Map<String, Test> TESTS = new HashMap<>();

  static {
    simple("defined", v -> !(v instanceof Undefined));
    simple("undefined", v -> v instanceof Undefined);
    simple("none", v -> v == None.NONE);
    simple("boolean", v -> v instanceof Boolean);
    simple("false", v -> Boolean.FALSE.equals(v));
    simple("true", v -> Boolean.TRUE.equals(v));
    simple("integer", v -> Numbers.isInt(v) && !(v instanceof Boolean));
    simple("float", v -> v instanceof Double);
    simple("number", Numbers::isNumber);
    simple("string", v -> Values.asText(v) != null);
    simple("mapping", v -> v instanceof PyDict);
    simple("iterable", Values::isIterable);
    simple("sequence", Tests::isSequence);
    simple("callable", v -> v instanceof Callable || v instanceof Undefined);
    simple("escaped", v -> v instanceof Markup);
    simple("filter", v -> PyDict.hashKey(v) instanceof String name && Filters.exists(name));
    simple("test", v -> PyDict.hashKey(v) instanceof String name && TESTS.containsKey(name));
    TESTS.put("lower", (r, v, a) -> StrMethods.isLower(plain(r, v, a)));
    TESTS.put("upper", (r, v, a) -> StrMethods.isUpper(plain(r, v, a)));
    TESTS.put("odd", (r, v, a) -> remainder(r, v, a, 1));
    TESTS.put("even", (r, v, a) -> remainder(r, v, a, 0));
    pair(
        "divisibleby",
        "num",
        (r, v, o) -> isZero(r, Values.binary(r, Node.BinaryOperator.MODULO, v, o)));
    pair("sameas", "other", (_, v, o) -> isSame(v, o));
    pair("in", "seq", (r, v, o) -> Values.contains(r, o, v));
    for (String name : List.of("==", "eq", "equalto")) {
      operator(name, Values::equal);
    }
    for (String name : List.of("!=", "ne")) {
      operator(name, (r, v, o) -> !Values.equal(r, v, o));
    }
    order(Node.Comparison.GREATER, ">", "gt", "greaterthan");
    order(Node.Comparison.GREATER_EQUAL, ">=", "ge");
    order(Node.Comparison.LESS, "<", "lt", "lessthan");
    order(Node.Comparison.LESS_EQUAL, "<=", "le");
  }

  private Tests() {}

  static @Nullable Test find(String name) {
    return TESTS.get(name);
  }

  /** A test chosen at run time, by {@code select} and its like. */
  static Test named(Object name) {
    String text = Values.asText(name);
    Test test = text == null ? null : TESTS.get(text);
    if (test == null) {
      throw TemplateError.runtime();
    }
    return test;
  }

  private static void simple(String name, Simple test) {
    TESTS.put(
        name,
        (_, value, args) -> {
          if (!args.isEmpty()) {
            args.positional(0, 0);
          }
          return test.apply(value);
        });
  }

  private static void pair(String name, String parameter, Pair test) {
    TESTS.put(
        name,
        (render, value, args) ->
            test.apply(
                render, value, java.util.Objects.requireNonNull(args.bind(1, parameter)[0])));
  }

  /** A test that takes its other side by position only. */
  private static void operator(String name, Pair test) {
    TESTS.put(
        name, (render, value, args) -> test.apply(render, value, args.positional(1, 1).getFirst()));
  }

  private static void order(Node.Comparison comparison, String... names) {
    for (String name : names) {
      operator(name, (render, value, other) -> Values.ordered(render, comparison, value, other));
    }
  }

  private static String plain(Render render, Object value, Args args) {
    args.positional(0, 0);
    return Repr.str(render, value);
  }

  private static boolean remainder(Render render, Object value, Args args, long wanted) {
    args.positional(0, 0);
    Object rest = Values.binary(render, Node.BinaryOperator.MODULO, value, 2L);
    return Values.equal(render, rest, wanted);
  }

  private static boolean isZero(Render render, Object value) {
    return Values.equal(render, value, 0L);
  }

  private static boolean isSequence(Object value) {
    return switch (value) {
      case String _, Markup _, PyList _, PyTuple _, PyDict _, PyRange _, Undefined _ -> true;
      default -> false;
    };
  }

  /** Python's {@code is}: numbers and texts are compared by value, as its small ones are shared. */
  @SuppressWarnings("ReferenceEquality") // is the question
  private static boolean isSame(Object value, Object other) {
    if (value instanceof Boolean || value instanceof Long || value instanceof String) {
      return value.equals(other);
    }
    return value == other;
  }
}
