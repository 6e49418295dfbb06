// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Syntax of a template, before any name has a place. Shaped like the tree of Jinja2, whose scope
 * rules work on it.
 */
sealed interface Node {

  /** Something with a value. */
  sealed interface Expression extends Node {}

  /** Something that writes, binds or branches. */
  sealed interface Statement extends Node {}

  /** A literal; {@code value} is a value of {@link Values}. */
  record Const(Object value) implements Expression {}

  /** Text outside of tags. */
  record Data(String text) implements Expression {}

  record Name(String name) implements Expression {}

  /** {@code ns.attribute} as the target of an assignment. */
  record NamespaceTarget(String name, String attribute) implements Expression {}

  record TupleExpr(List<Expression> items) implements Expression {}

  record ListExpr(List<Expression> items) implements Expression {}

  record Pair(Expression key, Expression value) {}

  record DictExpr(List<Pair> pairs) implements Expression {}

  record Attribute(Expression node, String name, int line) implements Expression {}

  record Item(Expression node, Expression key, int line) implements Expression {}

  record Slice(@Nullable Expression start, @Nullable Expression stop, @Nullable Expression step)
      implements Expression {}

  record Call(Expression callee, Arguments arguments, int line) implements Expression {}

  /** {@code node} is null when the filter applies to the text of a block. */
  record Filter(@Nullable Expression node, String name, Arguments arguments, int line)
      implements Expression {}

  record Test(Expression node, String name, Arguments arguments, int line) implements Expression {}

  enum UnaryOperator {
    NEGATE,
    PLUS,
    NOT
  }

  record Unary(UnaryOperator operator, Expression node) implements Expression {}

  enum BinaryOperator {
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    FLOOR_DIVIDE,
    MODULO,
    POWER,
    AND,
    OR
  }

  record Binary(BinaryOperator operator, Expression left, Expression right) implements Expression {}

  enum Comparison {
    EQUAL,
    NOT_EQUAL,
    LESS,
    LESS_EQUAL,
    GREATER,
    GREATER_EQUAL,
    IN,
    NOT_IN
  }

  record Operand(Comparison comparison, Expression right) {}

  record Compare(Expression left, List<Operand> operands) implements Expression {}

  /** {@code a ~ b ~ c}. */
  record Concat(List<Expression> nodes) implements Expression {}

  record Conditional(Expression test, Expression then, @Nullable Expression otherwise)
      implements Expression {}

  record Keyword(String name, Expression value) {}

  record Arguments(
      List<Expression> positional,
      List<Keyword> keywords,
      @Nullable Expression star,
      @Nullable Expression doubleStar) {

    static final Arguments NONE = new Arguments(List.of(), List.of(), null, null);

    private void addTo(List<Node> children) {
      children.addAll(positional);
      for (Keyword keyword : keywords) {
        children.add(keyword.value());
      }
      if (star != null) {
        children.add(star);
      }
      if (doubleStar != null) {
        children.add(doubleStar);
      }
    }
  }

  record Output(List<Expression> nodes) implements Statement {}

  record For(
      Expression target,
      Expression iterable,
      @Nullable Expression test,
      boolean recursive,
      List<Statement> body,
      List<Statement> otherwise,
      int line)
      implements Statement {}

  record If(Expression test, List<Statement> body, List<If> elifs, List<Statement> otherwise)
      implements Statement {}

  /** Parameters of a macro or call block; the defaults belong to the last parameters. */
  record Signature(List<Name> parameters, List<Expression> defaults) {
    static final Signature NONE = new Signature(List.of(), List.of());
  }

  record Macro(String name, Signature signature, List<Statement> body, int line)
      implements Statement {}

  /** {@code call} is null for a {@code generation} block, which only writes its body. */
  record CallBlock(Signature signature, @Nullable Call call, List<Statement> body, int line)
      implements Statement {}

  record FilterBlock(Filter filter, List<Statement> body) implements Statement {}

  record With(List<Expression> targets, List<Expression> values, List<Statement> body)
      implements Statement {}

  record Assign(Expression target, Expression node, int line) implements Statement {}

  record AssignBlock(Expression target, @Nullable Filter filter, List<Statement> body, int line)
      implements Statement {}

  record Break(int line) implements Statement {}

  record Continue(int line) implements Statement {}

  /** Nodes right below this one, in Jinja2's order. */
  static List<Node> children(Node node) {
    List<Node> children = new ArrayList<>();
    switch (node) {
      case Const _, Data _, Name _, NamespaceTarget _, Break _, Continue _ -> {}
      case TupleExpr(var items) -> children.addAll(items);
      case ListExpr(var items) -> children.addAll(items);
      case DictExpr(var pairs) -> {
        for (Pair pair : pairs) {
          children.add(pair.key());
          children.add(pair.value());
        }
      }
      case Attribute attribute -> children.add(attribute.node());
      case Item item -> {
        children.add(item.node());
        children.add(item.key());
      }
      case Slice(var start, var stop, var step) -> {
        addIfPresent(children, start);
        addIfPresent(children, stop);
        addIfPresent(children, step);
      }
      case Call call -> {
        children.add(call.callee());
        call.arguments().addTo(children);
      }
      case Filter filter -> {
        addIfPresent(children, filter.node());
        filter.arguments().addTo(children);
      }
      case Test test -> {
        children.add(test.node());
        test.arguments().addTo(children);
      }
      case Unary unary -> children.add(unary.node());
      case Binary binary -> addOperands(children, binary);
      case Compare(var left, var operands) -> {
        children.add(left);
        for (Operand operand : operands) {
          children.add(operand.right());
        }
      }
      case Concat(var nodes) -> children.addAll(nodes);
      case Conditional(var test, var then, var otherwise) -> {
        children.add(test);
        children.add(then);
        addIfPresent(children, otherwise);
      }
      case Output(var nodes) -> children.addAll(nodes);
      case For loop -> {
        children.add(loop.target());
        children.add(loop.iterable());
        children.addAll(loop.body());
        children.addAll(loop.otherwise());
        addIfPresent(children, loop.test());
      }
      case If branch -> {
        children.add(branch.test());
        children.addAll(branch.body());
        children.addAll(branch.elifs());
        children.addAll(branch.otherwise());
      }
      case Macro macro -> {
        children.addAll(macro.signature().parameters());
        children.addAll(macro.signature().defaults());
        children.addAll(macro.body());
      }
      case CallBlock block -> {
        addIfPresent(children, block.call());
        children.addAll(block.signature().parameters());
        children.addAll(block.signature().defaults());
        children.addAll(block.body());
      }
      case FilterBlock(var filter, var body) -> {
        children.addAll(body);
        children.add(filter);
      }
      case With(var targets, var values, var body) -> {
        children.addAll(targets);
        children.addAll(values);
        children.addAll(body);
      }
      case Assign assign -> {
        children.add(assign.target());
        children.add(assign.node());
      }
      case AssignBlock block -> {
        children.add(block.target());
        addIfPresent(children, block.filter());
        children.addAll(block.body());
      }
    }
    return children;
  }

  /** All operands of a chain such as {@code a + b + c}, which is as deep as it is long. */
  private static void addOperands(List<Node> children, Binary binary) {
    List<Node> operands = new ArrayList<>();
    Expression left = binary;
    while (left instanceof Binary inner) {
      operands.add(inner.right());
      left = inner.left();
    }
    operands.add(left);
    children.addAll(operands.reversed());
  }

  private static void addIfPresent(List<Node> children, @Nullable Node child) {
    if (child != null) {
      children.add(child);
    }
  }
}
