// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Tokens to {@link Node}s, with the grammar of Jinja2 3.1.6: its expressions bind in the order or,
 * and, not, comparison, plus and minus, tilde, times and division, power, unary, postfix, filter.
 * Recursive descent; nesting is bounded.
 *
 * <p>One instance per template, one thread.
 */
final class Parser {
  /**
   * Deepest nesting of expressions and blocks; deeper templates are refused, the stack is finite.
   */
  private static final int MAX_NESTING = 150;

  private final List<Token> tokens;
  private int index;
  private int nesting;

  private Parser(List<Token> tokens) {
    this.tokens = tokens;
  }

  /** The statements of a template. */
  static List<Node.Statement> parse(List<Token> tokens) {
    Parser parser = new Parser(tokens);
    return parser.statementsUntil(Set.of());
  }

  private Token current() {
    return tokens.get(index);
  }

  private Token look() {
    return tokens.get(Math.min(index + 1, tokens.size() - 1));
  }

  private Token next() {
    Token token = tokens.get(index);
    if (index < tokens.size() - 1) {
      index++;
    }
    return token;
  }

  private boolean skipName(String name) {
    if (current().isName(name)) {
      next();
      return true;
    }
    return false;
  }

  private boolean skipOperator(String operator) {
    if (current().isOperator(operator)) {
      next();
      return true;
    }
    return false;
  }

  private Token expect(Token.Kind kind) {
    if (current().kind() != kind) {
      throw unexpected("expected " + kind.name().toLowerCase(Locale.ROOT).replace('_', ' '));
    }
    return next();
  }

  private void expectOperator(String operator) {
    if (!skipOperator(operator)) {
      throw unexpected("expected '" + operator + "'");
    }
  }

  private void expectName(String name) {
    if (!skipName(name)) {
      throw unexpected("expected '" + name + "'");
    }
  }

  private ParseFailure unexpected(String wanted) {
    return ParseFailure.syntax(current().line(), wanted + ", got '" + current().describe() + "'");
  }

  private void descend() {
    if (++nesting > MAX_NESTING) {
      throw ParseFailure.unsupported(
          "nesting", current().line(), "more than " + MAX_NESTING + " levels of nesting");
    }
  }

  // Statements

  private List<Node.Statement> statementsUntil(Set<String> endTags) {
    descend();
    List<Node.Statement> body = new ArrayList<>();
    List<Node.Expression> output = new ArrayList<>();
    while (true) {
      Token token = current();
      switch (token.kind()) {
        case DATA -> {
          output.add(new Node.Data(token.text()));
          next();
        }
        case VARIABLE_BEGIN -> {
          next();
          output.add(tuple(true, Set.of(), false));
          expect(Token.Kind.VARIABLE_END);
        }
        case BLOCK_BEGIN -> {
          flush(output, body);
          next();
          if (current().kind() == Token.Kind.NAME && endTags.contains(current().text())) {
            nesting--;
            return body;
          }
          body.add(statement());
          expect(Token.Kind.BLOCK_END);
        }
        case EOF -> {
          if (!endTags.isEmpty()) {
            throw ParseFailure.syntax(
                token.line(),
                "end of template, expected one of " + new java.util.TreeSet<>(endTags));
          }
          flush(output, body);
          nesting--;
          return body;
        }
        case VARIABLE_END, BLOCK_END, NAME, STRING, INTEGER, FLOAT, OPERATOR ->
            throw new IllegalStateException("token " + token.kind() + " outside of a tag");
      }
    }
  }

  private static void flush(List<Node.Expression> output, List<Node.Statement> body) {
    if (!output.isEmpty()) {
      body.add(new Node.Output(List.copyOf(output)));
      output.clear();
    }
  }

  /** Block body after its opening tag; the end tag's name is the current token afterwards. */
  private List<Node.Statement> body(String... endTags) {
    skipOperator(":");
    expect(Token.Kind.BLOCK_END);
    return statementsUntil(Set.of(endTags));
  }

  private List<Node.Statement> bodyAndEnd(String endTag) {
    List<Node.Statement> body = body(endTag);
    next();
    return body;
  }

  private Node.Statement statement() {
    Token token = current();
    if (token.kind() != Token.Kind.NAME) {
      throw unexpected("expected the name of a tag");
    }
    int line = token.line();
    return switch (token.text()) {
      case "set" -> set();
      case "for" -> forLoop();
      case "if" -> ifBranch();
      case "macro" -> macro();
      case "call" -> callBlock();
      case "filter" -> filterBlock();
      case "with" -> with();
      case "print" -> print();
      case "generation" -> {
        next();
        yield new Node.CallBlock(Node.Signature.NONE, null, bodyAndEnd("endgeneration"), line);
      }
      case "break" -> {
        next();
        yield new Node.Break(line);
      }
      case "continue" -> {
        next();
        yield new Node.Continue(line);
      }
      case "include", "import", "from", "extends", "block", "autoescape" ->
          throw ParseFailure.unsupported(
              "tag_" + token.text(), line, "the tag '" + token.text() + "' is not supported");
      default -> throw ParseFailure.syntax(line, "unknown tag '" + token.text() + "'");
    };
  }

  private Node.Statement set() {
    int line = next().line();
    Node.Expression target = assignTarget(Set.of(), true);
    if (skipOperator("=")) {
      return new Node.Assign(target, tuple(true, Set.of(), false), line);
    }
    Node.Expression filter = current().isOperator("|") ? filters(null) : null;
    return new Node.AssignBlock(target, (Node.Filter) filter, bodyAndEnd("endset"), line);
  }

  private Node.Statement forLoop() {
    int line = next().line();
    Node.Expression target = assignTarget(Set.of("in"), false);
    expectName("in");
    Node.Expression iterable = tuple(false, Set.of("recursive"), false);
    Node.Expression test = skipName("if") ? expression() : null;
    boolean recursive = skipName("recursive");
    List<Node.Statement> body = body("endfor", "else");
    List<Node.Statement> otherwise = next().isName("else") ? bodyAndEnd("endfor") : List.of();
    return new Node.For(target, iterable, test, recursive, body, otherwise, line);
  }

  private Node.Statement ifBranch() {
    expectName("if");
    Node.Expression test = tuple(false, Set.of(), false);
    List<Node.Statement> body = body("elif", "else", "endif");
    List<Node.If> elifs = new ArrayList<>();
    List<Node.Statement> otherwise = List.of();
    while (true) {
      Token end = next();
      if (end.isName("elif")) {
        Node.Expression elifTest = tuple(false, Set.of(), false);
        elifs.add(new Node.If(elifTest, body("elif", "else", "endif"), List.of(), List.of()));
        continue;
      }
      if (end.isName("else")) {
        otherwise = bodyAndEnd("endif");
      }
      return new Node.If(test, body, List.copyOf(elifs), otherwise);
    }
  }

  private Node.Statement macro() {
    int line = next().line();
    String name = expect(Token.Kind.NAME).text();
    checkAssignable(name, line);
    Node.Signature signature = signature();
    return new Node.Macro(name, signature, bodyAndEnd("endmacro"), line);
  }

  private Node.Statement callBlock() {
    int line = next().line();
    Node.Signature signature = current().isOperator("(") ? signature() : Node.Signature.NONE;
    if (!(expression() instanceof Node.Call call)) {
      throw ParseFailure.syntax(line, "expected a call");
    }
    return new Node.CallBlock(signature, call, bodyAndEnd("endcall"), line);
  }

  private Node.Signature signature() {
    List<Node.Name> parameters = new ArrayList<>();
    List<Node.Expression> defaults = new ArrayList<>();
    expectOperator("(");
    while (!current().isOperator(")")) {
      if (!parameters.isEmpty()) {
        expectOperator(",");
      }
      Token name = expect(Token.Kind.NAME);
      checkAssignable(name.text(), name.line());
      if (skipOperator("=")) {
        defaults.add(expression());
      } else if (!defaults.isEmpty()) {
        throw ParseFailure.syntax(name.line(), "non-default argument follows default argument");
      }
      parameters.add(new Node.Name(name.text()));
    }
    expectOperator(")");
    return new Node.Signature(List.copyOf(parameters), List.copyOf(defaults));
  }

  private Node.Statement filterBlock() {
    next();
    Node.Expression filter = filterTail(null);
    filter = current().isOperator("|") ? filters(filter) : filter;
    return new Node.FilterBlock((Node.Filter) filter, bodyAndEnd("endfilter"));
  }

  private Node.Statement with() {
    next();
    List<Node.Expression> targets = new ArrayList<>();
    List<Node.Expression> values = new ArrayList<>();
    while (current().kind() != Token.Kind.BLOCK_END) {
      if (!targets.isEmpty()) {
        expectOperator(",");
      }
      targets.add(assignTarget(Set.of(), false));
      expectOperator("=");
      values.add(expression());
    }
    return new Node.With(List.copyOf(targets), List.copyOf(values), bodyAndEnd("endwith"));
  }

  private Node.Statement print() {
    next();
    List<Node.Expression> nodes = new ArrayList<>();
    while (current().kind() != Token.Kind.BLOCK_END) {
      if (!nodes.isEmpty()) {
        expectOperator(",");
      }
      nodes.add(expression());
    }
    return new Node.Output(List.copyOf(nodes));
  }

  private Node.Expression assignTarget(Set<String> endNames, boolean namespaces) {
    int line = current().line();
    List<Node.Expression> items = new ArrayList<>();
    boolean isTuple = false;
    while (true) {
      if (!items.isEmpty()) {
        expectOperator(",");
      }
      if (isTupleEnd(endNames)) {
        break;
      }
      items.add(primary(namespaces));
      if (!current().isOperator(",")) {
        break;
      }
      isTuple = true;
    }
    if (items.isEmpty()) {
      throw unexpected("expected a name");
    }
    Node.Expression target = isTuple ? new Node.TupleExpr(List.copyOf(items)) : items.getFirst();
    checkTarget(target, line);
    return target;
  }

  private static void checkTarget(Node.Expression target, int line) {
    switch (target) {
      case Node.Name(String name) -> checkAssignable(name, line);
      case Node.NamespaceTarget _ -> {}
      case Node.TupleExpr(var items) -> {
        for (Node.Expression item : items) {
          checkTarget(item, line);
        }
      }
      default -> throw ParseFailure.syntax(line, "can't assign to this expression");
    }
  }

  private static void checkAssignable(String name, int line) {
    switch (name) {
      case "true", "false", "none", "True", "False", "None" ->
          throw ParseFailure.syntax(line, "can't assign to '" + name + "'");
      default -> {}
    }
  }

  // Expressions

  private boolean isTupleEnd(Set<String> endNames) {
    Token token = current();
    return token.kind() == Token.Kind.VARIABLE_END
        || token.kind() == Token.Kind.BLOCK_END
        || token.isOperator(")")
        || (token.kind() == Token.Kind.NAME && endNames.contains(token.text()));
  }

  private Node.Expression tuple(boolean conditional, Set<String> endNames, boolean emptyAllowed) {
    List<Node.Expression> items = new ArrayList<>();
    boolean isTuple = false;
    while (true) {
      if (!items.isEmpty()) {
        expectOperator(",");
      }
      if (isTupleEnd(endNames)) {
        break;
      }
      items.add(conditional ? expression() : nested(this::or));
      if (!current().isOperator(",")) {
        break;
      }
      isTuple = true;
    }
    if (!isTuple) {
      if (!items.isEmpty()) {
        return items.getFirst();
      }
      if (!emptyAllowed) {
        throw unexpected("expected an expression");
      }
    }
    return new Node.TupleExpr(List.copyOf(items));
  }

  private Node.Expression nested(java.util.function.Supplier<Node.Expression> rule) {
    descend();
    Node.Expression result = rule.get();
    nesting--;
    return result;
  }

  private Node.Expression expression() {
    return nested(this::conditional);
  }

  private Node.Expression conditional() {
    Node.Expression result = or();
    while (skipName("if")) {
      Node.Expression test = or();
      Node.Expression otherwise = skipName("else") ? nested(this::conditional) : null;
      result = new Node.Conditional(test, result, otherwise);
    }
    return result;
  }

  private Node.Expression or() {
    Node.Expression left = and();
    while (skipName("or")) {
      left = new Node.Binary(Node.BinaryOperator.OR, left, and());
    }
    return left;
  }

  private Node.Expression and() {
    Node.Expression left = not();
    while (skipName("and")) {
      left = new Node.Binary(Node.BinaryOperator.AND, left, not());
    }
    return left;
  }

  private Node.Expression not() {
    if (skipName("not")) {
      return new Node.Unary(Node.UnaryOperator.NOT, nested(this::not));
    }
    return compare();
  }

  private Node.Expression compare() {
    Node.Expression left = sum();
    List<Node.Operand> operands = new ArrayList<>();
    while (true) {
      Node.Comparison comparison = comparison();
      if (comparison == null) {
        break;
      }
      operands.add(new Node.Operand(comparison, sum()));
    }
    return operands.isEmpty() ? left : new Node.Compare(left, List.copyOf(operands));
  }

  private Node.@Nullable Comparison comparison() {
    Token token = current();
    if (token.kind() == Token.Kind.OPERATOR) {
      Node.Comparison comparison =
          switch (token.text()) {
            case "==" -> Node.Comparison.EQUAL;
            case "!=" -> Node.Comparison.NOT_EQUAL;
            case "<" -> Node.Comparison.LESS;
            case "<=" -> Node.Comparison.LESS_EQUAL;
            case ">" -> Node.Comparison.GREATER;
            case ">=" -> Node.Comparison.GREATER_EQUAL;
            default -> null;
          };
      if (comparison != null) {
        next();
      }
      return comparison;
    }
    if (skipName("in")) {
      return Node.Comparison.IN;
    }
    if (token.isName("not") && look().isName("in")) {
      next();
      next();
      return Node.Comparison.NOT_IN;
    }
    return null;
  }

  private Node.Expression sum() {
    Node.Expression left = concat();
    while (true) {
      if (skipOperator("+")) {
        left = new Node.Binary(Node.BinaryOperator.ADD, left, concat());
      } else if (skipOperator("-")) {
        left = new Node.Binary(Node.BinaryOperator.SUBTRACT, left, concat());
      } else {
        return left;
      }
    }
  }

  private Node.Expression concat() {
    Node.Expression first = product();
    if (!current().isOperator("~")) {
      return first;
    }
    List<Node.Expression> nodes = new ArrayList<>();
    nodes.add(first);
    while (skipOperator("~")) {
      nodes.add(product());
    }
    return new Node.Concat(List.copyOf(nodes));
  }

  private Node.Expression product() {
    Node.Expression left = power();
    while (true) {
      Node.BinaryOperator operator;
      if (skipOperator("*")) {
        operator = Node.BinaryOperator.MULTIPLY;
      } else if (skipOperator("/")) {
        operator = Node.BinaryOperator.DIVIDE;
      } else if (skipOperator("//")) {
        operator = Node.BinaryOperator.FLOOR_DIVIDE;
      } else if (skipOperator("%")) {
        operator = Node.BinaryOperator.MODULO;
      } else {
        return left;
      }
      left = new Node.Binary(operator, left, power());
    }
  }

  private Node.Expression power() {
    Node.Expression left = unary(true);
    while (skipOperator("**")) {
      left = new Node.Binary(Node.BinaryOperator.POWER, left, unary(true));
    }
    return left;
  }

  private Node.Expression unary(boolean withFilters) {
    Node.Expression node;
    if (skipOperator("-")) {
      node = new Node.Unary(Node.UnaryOperator.NEGATE, nested(() -> unary(false)));
    } else if (skipOperator("+")) {
      node = new Node.Unary(Node.UnaryOperator.PLUS, nested(() -> unary(false)));
    } else {
      node = primary(false);
    }
    node = postfix(node);
    return withFilters ? filterExpression(node) : node;
  }

  private Node.Expression primary(boolean namespaces) {
    Token token = current();
    switch (token.kind()) {
      case NAME -> {
        next();
        return switch (token.text()) {
          case "true", "True" -> new Node.Const(true);
          case "false", "False" -> new Node.Const(false);
          case "none", "None" -> new Node.Const(None.NONE);
          default -> {
            if (namespaces && skipOperator(".")) {
              yield new Node.NamespaceTarget(token.text(), expect(Token.Kind.NAME).text());
            }
            yield new Node.Name(token.text());
          }
        };
      }
      case STRING -> {
        next();
        if (current().kind() != Token.Kind.STRING) {
          return new Node.Const(token.text());
        }
        StringBuilder text = new StringBuilder(token.text());
        while (current().kind() == Token.Kind.STRING) {
          text.append(next().text());
        }
        return new Node.Const(text.toString());
      }
      case INTEGER, FLOAT -> {
        next();
        return new Node.Const(token.value());
      }
      case OPERATOR -> {
        switch (token.text()) {
          case "(" -> {
            next();
            Node.Expression inner = nested(() -> tuple(true, Set.of(), true));
            expectOperator(")");
            return inner;
          }
          case "[" -> {
            return list();
          }
          case "{" -> {
            return dict();
          }
          default -> throw unexpected("expected an expression");
        }
      }
      case DATA, VARIABLE_BEGIN, VARIABLE_END, BLOCK_BEGIN, BLOCK_END, EOF ->
          throw unexpected("expected an expression");
    }
    throw new IllegalStateException("unreachable");
  }

  private Node.Expression list() {
    expectOperator("[");
    List<Node.Expression> items = new ArrayList<>();
    while (!current().isOperator("]")) {
      if (!items.isEmpty()) {
        expectOperator(",");
      }
      if (current().isOperator("]")) {
        break;
      }
      items.add(expression());
    }
    expectOperator("]");
    return new Node.ListExpr(List.copyOf(items));
  }

  private Node.Expression dict() {
    expectOperator("{");
    List<Node.Pair> pairs = new ArrayList<>();
    while (!current().isOperator("}")) {
      if (!pairs.isEmpty()) {
        expectOperator(",");
      }
      if (current().isOperator("}")) {
        break;
      }
      Node.Expression key = expression();
      expectOperator(":");
      pairs.add(new Node.Pair(key, expression()));
    }
    expectOperator("}");
    return new Node.DictExpr(List.copyOf(pairs));
  }

  private Node.Expression postfix(Node.Expression start) {
    Node.Expression node = start;
    while (true) {
      Token token = current();
      if (token.isOperator(".") || token.isOperator("[")) {
        node = subscript(node);
      } else if (token.isOperator("(")) {
        node = call(node);
      } else {
        return node;
      }
    }
  }

  private Node.Expression filterExpression(Node.Expression start) {
    Node.Expression node = start;
    while (true) {
      Token token = current();
      if (token.isOperator("|")) {
        node = filters(node);
      } else if (token.isName("is")) {
        node = test(node);
      } else if (token.isOperator("(")) {
        node = call(node);
      } else {
        return node;
      }
    }
  }

  private Node.Expression subscript(Node.Expression node) {
    Token token = next();
    if (token.text().equals(".")) {
      Token attribute = next();
      return switch (attribute.kind()) {
        case NAME -> new Node.Attribute(node, attribute.text(), token.line());
        case INTEGER -> new Node.Item(node, new Node.Const(attribute.value()), token.line());
        case DATA,
            VARIABLE_BEGIN,
            VARIABLE_END,
            BLOCK_BEGIN,
            BLOCK_END,
            STRING,
            FLOAT,
            OPERATOR,
            EOF ->
            throw ParseFailure.syntax(attribute.line(), "expected a name or a number after '.'");
      };
    }
    List<Node.Expression> keys = new ArrayList<>();
    while (!current().isOperator("]")) {
      if (!keys.isEmpty()) {
        expectOperator(",");
      }
      keys.add(subscribed());
    }
    expectOperator("]");
    Node.Expression key =
        keys.size() == 1 ? keys.getFirst() : new Node.TupleExpr(List.copyOf(keys));
    return new Node.Item(node, key, token.line());
  }

  private Node.Expression subscribed() {
    Node.Expression start = null;
    if (!current().isOperator(":")) {
      start = expression();
      if (!current().isOperator(":")) {
        return start;
      }
    }
    expectOperator(":");
    Node.Expression stop = null;
    if (!current().isOperator(":") && !isSubscriptEnd()) {
      stop = expression();
    }
    Node.Expression step = null;
    if (skipOperator(":") && !isSubscriptEnd()) {
      step = expression();
    }
    return new Node.Slice(start, stop, step);
  }

  private boolean isSubscriptEnd() {
    return current().isOperator("]") || current().isOperator(",");
  }

  private Node.Call call(Node.Expression callee) {
    int line = current().line();
    return new Node.Call(callee, arguments(), line);
  }

  private Node.Arguments arguments() {
    int line = current().line();
    expectOperator("(");
    List<Node.Expression> positional = new ArrayList<>();
    List<Node.Keyword> keywords = new ArrayList<>();
    Node.Expression star = null;
    Node.Expression doubleStar = null;
    boolean first = true;
    while (!current().isOperator(")")) {
      if (!first) {
        expectOperator(",");
        if (current().isOperator(")")) {
          break;
        }
      }
      first = false;
      if (current().isOperator("*")) {
        ensure(star == null && doubleStar == null, line);
        next();
        star = expression();
      } else if (current().isOperator("**")) {
        ensure(doubleStar == null, line);
        next();
        doubleStar = expression();
      } else if (current().kind() == Token.Kind.NAME && look().isOperator("=")) {
        ensure(doubleStar == null, line);
        String name = next().text();
        next();
        keywords.add(new Node.Keyword(name, expression()));
      } else {
        ensure(star == null && doubleStar == null && keywords.isEmpty(), line);
        positional.add(expression());
      }
    }
    expectOperator(")");
    if (first) {
      return Node.Arguments.NONE;
    }
    return new Node.Arguments(List.copyOf(positional), List.copyOf(keywords), star, doubleStar);
  }

  private static void ensure(boolean condition, int line) {
    if (!condition) {
      throw ParseFailure.syntax(line, "invalid syntax for the arguments of a call");
    }
  }

  private Node.Expression filters(Node.@Nullable Expression start) {
    Node.Expression node = start;
    while (skipOperator("|")) {
      node = filterTail(node);
    }
    return java.util.Objects.requireNonNull(node);
  }

  private Node.Expression filterTail(Node.@Nullable Expression node) {
    int line = current().line();
    String name = dottedName();
    Node.Arguments arguments = current().isOperator("(") ? arguments() : Node.Arguments.NONE;
    return new Node.Filter(node, name, arguments, line);
  }

  private String dottedName() {
    StringBuilder name = new StringBuilder(expect(Token.Kind.NAME).text());
    while (skipOperator(".")) {
      name.append('.').append(expect(Token.Kind.NAME).text());
    }
    return name.toString();
  }

  private Node.Expression test(Node.Expression node) {
    int line = next().line();
    boolean negated = skipName("not");
    String name = dottedName();
    Node.Arguments arguments = Node.Arguments.NONE;
    if (current().isOperator("(")) {
      arguments = arguments();
    } else if (startsTestArgument()) {
      if (current().isName("is")) {
        throw ParseFailure.syntax(line, "tests can't be chained with 'is'");
      }
      Node.Expression argument = nested(() -> postfix(primary(false)));
      arguments = new Node.Arguments(List.of(argument), List.of(), null, null);
    }
    Node.Expression test = new Node.Test(node, name, arguments, line);
    return negated ? new Node.Unary(Node.UnaryOperator.NOT, test) : test;
  }

  private boolean startsTestArgument() {
    Token token = current();
    return switch (token.kind()) {
      case NAME -> !token.isName("else") && !token.isName("or") && !token.isName("and");
      case STRING, INTEGER, FLOAT -> true;
      case OPERATOR -> token.isOperator("[") || token.isOperator("{");
      case DATA, VARIABLE_BEGIN, VARIABLE_END, BLOCK_BEGIN, BLOCK_END, EOF -> false;
    };
  }
}
