// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A compiled expression. A tree of small objects whose virtual calls the JVM inlines; names are
 * slots already. Immutable, shared by all renders: everything that changes is in the {@link Frame}.
 */
abstract class Expr {

  private static final Expr[] NO_PARTS = {};

  abstract Object eval(Frame frame);

  /** The expressions right inside of this one; not to be modified. */
  abstract Expr[] parts();

  private static Expr[] join(Expr[] first, Expr[] second) {
    Expr[] all = Arrays.copyOf(first, first.length + second.length);
    System.arraycopy(second, 0, all, first.length, second.length);
    return all;
  }

  /** The truth of the value. */
  boolean test(Frame frame) {
    return Values.truth(eval(frame));
  }

  /** Prints the value. */
  void write(Frame frame, StringBuilder out) {
    Object value = eval(frame);
    append(frame, out, value instanceof String text ? text : Repr.str(frame.render, value));
  }

  static void append(Frame frame, StringBuilder out, String text) {
    frame.render.text(text.length());
    out.append(text);
    frame.render.checkWritten(out);
  }

  /** A fixed value. */
  static final class Const extends Expr {
    final Object value;

    Const(Object value) {
      this.value = value;
    }

    @Override
    Expr[] parts() {
      return NO_PARTS;
    }

    @Override
    Object eval(Frame frame) {
      return value;
    }
  }

  /** A slot of the function at work. */
  static final class Local extends Expr {
    final int slot;

    Local(int slot) {
      this.slot = slot;
    }

    @Override
    Expr[] parts() {
      return NO_PARTS;
    }

    @Override
    Object eval(Frame frame) {
      Object value = frame.slots[slot];
      return value == Frame.MISSING ? Undefined.MISSING : value;
    }
  }

  /** A slot of a function around the one at work. */
  static final class Outer extends Expr {
    private final int hops;
    private final int slot;

    Outer(int hops, int slot) {
      this.hops = hops;
      this.slot = slot;
    }

    @Override
    Expr[] parts() {
      return NO_PARTS;
    }

    @Override
    Object eval(Frame frame) {
      Object value = at(frame, hops).slots[slot];
      return value == Frame.MISSING ? Undefined.MISSING : value;
    }
  }

  static Frame at(Frame frame, int hops) {
    Frame found = frame;
    for (int i = 0; i < hops; i++) {
      found = java.util.Objects.requireNonNull(found.outer);
    }
    return found;
  }

  static final class Attribute extends Expr {
    final Expr node;
    final String name;

    Attribute(Expr node, String name) {
      this.node = node;
      this.name = name;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {node};
    }

    @Override
    Object eval(Frame frame) {
      return Values.attribute(node.eval(frame), name);
    }
  }

  static final class Item extends Expr {
    private final Expr node;
    private final Expr key;

    Item(Expr node, Expr key) {
      this.node = node;
      this.key = key;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {node, key};
    }

    @Override
    Object eval(Frame frame) {
      return Values.item(node.eval(frame), key.eval(frame));
    }
  }

  static final class Slice extends Expr {
    private final Expr node;
    private final Expr start;
    private final Expr stop;
    private final Expr step;

    Slice(Expr node, Expr start, Expr stop, Expr step) {
      this.node = node;
      this.start = start;
      this.stop = stop;
      this.step = step;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {node, start, stop, step};
    }

    @Override
    Object eval(Frame frame) {
      Object value = node.eval(frame);
      return Values.slice(
          frame.render, value, start.eval(frame), stop.eval(frame), step.eval(frame));
    }
  }

  /** Arguments of a call, not yet evaluated. */
  static final class Arguments {
    static final Arguments NONE =
        new Arguments(new Expr[0], new String[0], new Expr[0], null, null);

    private final Expr[] positional;
    private final String[] names;
    private final Expr[] named;
    private final @Nullable Expr star;
    private final @Nullable Expr doubleStar;

    Arguments(
        Expr[] positional,
        String[] names,
        Expr[] named,
        @Nullable Expr star,
        @Nullable Expr doubleStar) {
      this.positional = positional;
      this.names = names;
      this.named = named;
      this.star = star;
      this.doubleStar = doubleStar;
    }

    /** All of them, and what they are arguments of. */
    Expr[] and(Expr subject) {
      List<Expr> all = new ArrayList<>();
      all.add(subject);
      all.addAll(List.of(positional));
      all.addAll(List.of(named));
      if (star != null) {
        all.add(star);
      }
      if (doubleStar != null) {
        all.add(doubleStar);
      }
      return all.toArray(Expr[]::new);
    }

    boolean hasStars() {
      return star != null || doubleStar != null;
    }

    Args eval(Frame frame) {
      if (this == NONE) {
        return Args.NONE;
      }
      ArrayList<Object> values = new ArrayList<>(positional.length);
      for (Expr expr : positional) {
        values.add(expr.eval(frame));
      }
      Map<String, Object> keywords = Map.of();
      if (names.length > 0) {
        keywords = LinkedHashMap.newLinkedHashMap(names.length);
        for (int i = 0; i < names.length; i++) {
          if (keywords.put(names[i], named[i].eval(frame)) != null) {
            throw TemplateError.type();
          }
        }
      }
      if (star != null) {
        values.addAll(Values.toList(frame.render, star.eval(frame)));
      }
      if (doubleStar != null) {
        if (!(doubleStar.eval(frame) instanceof PyDict dict)) {
          throw TemplateError.type();
        }
        Map<String, Object> all = new LinkedHashMap<>(keywords);
        Attributes.keywordMap(dict)
            .forEach(
                (name, value) -> {
                  if (all.put(name, value) != null) {
                    throw TemplateError.type();
                  }
                });
        keywords = all;
      }
      return Args.copy(values, keywords);
    }
  }

  static final class Call extends Expr {
    private final Expr callee;
    private final Arguments arguments;

    Call(Expr callee, Arguments arguments) {
      this.callee = callee;
      this.arguments = arguments;
    }

    @Override
    Expr[] parts() {
      return arguments.and(callee);
    }

    @Override
    Object eval(Frame frame) {
      return Values.call(frame.render, callee.eval(frame), arguments.eval(frame));
    }

    /** The call of a call block, which hands its body over as {@code caller}. */
    Object evalWithCaller(Frame frame, Object caller) {
      Object function = callee.eval(frame);
      return Values.call(
          frame.render, function, arguments.eval(frame).withKeyword("caller", caller));
    }
  }

  /** {@code text.method(…)} without making the bound method when the value is a text. */
  static final class MethodCall extends Expr {
    private final Expr node;
    final String name;
    private final StrMethods.Method method;
    final Arguments arguments;

    MethodCall(Expr node, String name, StrMethods.Method method, Arguments arguments) {
      this.node = node;
      this.name = name;
      this.method = method;
      this.arguments = arguments;
    }

    @Override
    Expr[] parts() {
      return arguments.and(node);
    }

    @Override
    Object eval(Frame frame) {
      Object value = node.eval(frame);
      if (value instanceof String text) {
        frame.render.work(1);
        return method.call(frame.render, text, arguments.eval(frame));
      }
      Object function = Values.attribute(value, name);
      frame.render.call();
      return Values.call(frame.render, function, arguments.eval(frame));
    }
  }

  static final class Filter extends Expr {
    private final Expr node;
    final Filters.Filter filter;
    final Arguments arguments;

    Filter(Expr node, Filters.Filter filter, Arguments arguments) {
      this.node = node;
      this.filter = filter;
      this.arguments = arguments;
    }

    @Override
    Expr[] parts() {
      return arguments.and(node);
    }

    @Override
    Object eval(Frame frame) {
      Object value = node.eval(frame);
      frame.render.work(1);
      return filter.apply(frame.render, value, arguments.eval(frame));
    }
  }

  static final class Test extends Expr {
    private final Expr node;
    final Tests.Test test;
    final Arguments arguments;

    Test(Expr node, Tests.Test test, Arguments arguments) {
      this.node = node;
      this.test = test;
      this.arguments = arguments;
    }

    @Override
    Expr[] parts() {
      return arguments.and(node);
    }

    @Override
    Object eval(Frame frame) {
      return test(frame);
    }

    @Override
    boolean test(Frame frame) {
      Object value = node.eval(frame);
      return test.apply(frame.render, value, arguments.eval(frame));
    }
  }

  /** Fails when reached, as a filter or test that is not there does inside of an {@code if}. */
  static final class Fail extends Expr {
    private final @Nullable String feature;

    Fail(@Nullable String feature) {
      this.feature = feature;
    }

    @Override
    Expr[] parts() {
      return NO_PARTS;
    }

    @Override
    Object eval(Frame frame) {
      throw feature == null ? TemplateError.runtime() : TemplateError.unsupported(feature);
    }
  }

  /** {@code a + b + c}; texts are joined without the steps in between. */
  static final class Sum extends Expr {
    private final Expr[] parts;

    Sum(Expr[] parts) {
      this.parts = parts;
    }

    @Override
    Expr[] parts() {
      return parts;
    }

    @Override
    Object eval(Frame frame) {
      Object sum = parts[0].eval(frame);
      if (!(sum instanceof String text)) {
        return addRest(frame, sum, 1);
      }
      if (parts.length == 2) {
        return Values.add(frame.render, text, parts[1].eval(frame));
      }
      StringBuilder out = new StringBuilder(text.length() + 64).append(text);
      for (int i = 1; i < parts.length; i++) {
        Object part = parts[i].eval(frame);
        if (!(part instanceof String more)) {
          return addRest(frame, Values.add(frame.render, out.toString(), part), i + 1);
        }
        append(frame, out, more);
      }
      return out.toString();
    }

    private Object addRest(Frame frame, Object start, int from) {
      Object sum = start;
      for (int i = from; i < parts.length; i++) {
        sum = Values.add(frame.render, sum, parts[i].eval(frame));
      }
      return sum;
    }

    @Override
    void write(Frame frame, StringBuilder out) {
      Object first = parts[0].eval(frame);
      if (!(first instanceof String text)) {
        append(frame, out, Repr.str(frame.render, addRest(frame, first, 1)));
        return;
      }
      int start = out.length();
      append(frame, out, text);
      for (int i = 1; i < parts.length; i++) {
        Object part = parts[i].eval(frame);
        if (part instanceof String more) {
          append(frame, out, more);
          continue;
        }
        String joined = out.substring(start);
        out.setLength(start);
        Object sum = addRest(frame, Values.add(frame.render, joined, part), i + 1);
        append(frame, out, Repr.str(frame.render, sum));
        return;
      }
    }
  }

  static final class Binary extends Expr {
    final Node.BinaryOperator operator;
    private final Expr left;
    private final Expr right;

    Binary(Node.BinaryOperator operator, Expr left, Expr right) {
      this.operator = operator;
      this.left = left;
      this.right = right;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {left, right};
    }

    @Override
    Object eval(Frame frame) {
      Object a = left.eval(frame);
      return Values.binary(frame.render, operator, a, right.eval(frame));
    }
  }

  static final class And extends Expr {
    final Expr left;
    final Expr right;

    And(Expr left, Expr right) {
      this.left = left;
      this.right = right;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {left, right};
    }

    @Override
    Object eval(Frame frame) {
      Object value = left.eval(frame);
      return Values.truth(value) ? right.eval(frame) : value;
    }

    @Override
    boolean test(Frame frame) {
      return left.test(frame) && right.test(frame);
    }
  }

  static final class Or extends Expr {
    final Expr left;
    final Expr right;

    Or(Expr left, Expr right) {
      this.left = left;
      this.right = right;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {left, right};
    }

    @Override
    Object eval(Frame frame) {
      Object value = left.eval(frame);
      return Values.truth(value) ? value : right.eval(frame);
    }

    @Override
    boolean test(Frame frame) {
      return left.test(frame) || right.test(frame);
    }
  }

  static final class Not extends Expr {
    final Expr node;

    Not(Expr node) {
      this.node = node;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {node};
    }

    @Override
    Object eval(Frame frame) {
      return !node.test(frame);
    }

    @Override
    boolean test(Frame frame) {
      return !node.test(frame);
    }
  }

  static final class Negate extends Expr {
    private final Expr node;

    Negate(Expr node) {
      this.node = node;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {node};
    }

    @Override
    Object eval(Frame frame) {
      return Numbers.negate(node.eval(frame));
    }
  }

  static final class Plus extends Expr {
    private final Expr node;

    Plus(Expr node) {
      this.node = node;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {node};
    }

    @Override
    Object eval(Frame frame) {
      return Numbers.plus(node.eval(frame));
    }
  }

  /** {@code a < b <= c}: each operand once, stops at the first pair that does not hold. */
  static final class Compare extends Expr {
    final Expr left;
    final Node.Comparison[] comparisons;
    final Expr[] operands;

    Compare(Expr left, Node.Comparison[] comparisons, Expr[] operands) {
      this.left = left;
      this.comparisons = comparisons;
      this.operands = operands;
    }

    @Override
    Expr[] parts() {
      return join(new Expr[] {left}, operands);
    }

    @Override
    Object eval(Frame frame) {
      return test(frame);
    }

    @Override
    boolean test(Frame frame) {
      Object a = left.eval(frame);
      for (int i = 0; i < operands.length; i++) {
        Object b = operands[i].eval(frame);
        boolean holds =
            switch (comparisons[i]) {
              case EQUAL -> Values.equal(frame.render, a, b);
              case NOT_EQUAL -> !Values.equal(frame.render, a, b);
              case LESS, LESS_EQUAL, GREATER, GREATER_EQUAL ->
                  Values.ordered(frame.render, comparisons[i], a, b);
              case IN -> Values.contains(frame.render, b, a);
              case NOT_IN -> !Values.contains(frame.render, b, a);
            };
        if (!holds) {
          return false;
        }
        a = b;
      }
      return true;
    }
  }

  static final class Concat extends Expr {
    private final Expr[] parts;

    Concat(Expr[] parts) {
      this.parts = parts;
    }

    @Override
    Expr[] parts() {
      return parts;
    }

    @Override
    Object eval(Frame frame) {
      StringBuilder out = new StringBuilder();
      write(frame, out);
      return out.toString();
    }

    @Override
    void write(Frame frame, StringBuilder out) {
      // All values first: one of them may be a macro's or an iterator's.
      Object[] values = new Object[parts.length];
      for (int i = 0; i < parts.length; i++) {
        values[i] = parts[i].eval(frame);
      }
      for (Object value : values) {
        append(frame, out, Repr.str(frame.render, value));
      }
    }
  }

  static final class Conditional extends Expr {
    private final Expr test;
    private final Expr then;
    private final Expr otherwise;

    Conditional(Expr test, Expr then, Expr otherwise) {
      this.test = test;
      this.then = then;
      this.otherwise = otherwise;
    }

    @Override
    Expr[] parts() {
      return new Expr[] {test, then, otherwise};
    }

    @Override
    Object eval(Frame frame) {
      return test.test(frame) ? then.eval(frame) : otherwise.eval(frame);
    }

    @Override
    void write(Frame frame, StringBuilder out) {
      if (test.test(frame)) {
        then.write(frame, out);
      } else {
        otherwise.write(frame, out);
      }
    }
  }

  static final class ListOf extends Expr {
    private final Expr[] items;
    private final boolean isTuple;

    ListOf(Expr[] items, boolean isTuple) {
      this.items = items;
      this.isTuple = isTuple;
    }

    @Override
    Expr[] parts() {
      return items;
    }

    @Override
    Object eval(Frame frame) {
      frame.render.items(items.length);
      List<Object> values = new ArrayList<>(items.length);
      for (Expr item : items) {
        values.add(item.eval(frame));
      }
      return isTuple ? new PyTuple(values, false) : new PyList(values);
    }
  }

  static final class DictOf extends Expr {
    private final Expr[] keys;
    private final Expr[] values;

    DictOf(Expr[] keys, Expr[] values) {
      this.keys = keys;
      this.values = values;
    }

    @Override
    Expr[] parts() {
      return join(keys, values);
    }

    @Override
    Object eval(Frame frame) {
      frame.render.items(keys.length);
      PyDict dict = new PyDict();
      for (int i = 0; i < keys.length; i++) {
        Object key = keys[i].eval(frame);
        dict.put(key, values[i].eval(frame));
      }
      return dict;
    }
  }
}
