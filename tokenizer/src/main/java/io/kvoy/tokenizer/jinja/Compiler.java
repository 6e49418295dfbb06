// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Syntax to executable tree. One instance per template, one thread. */
final class Compiler {

  /** A compiled template. */
  record Program(Symbols.Function function, Stmt.Enter enter, Stmt body, Set<String> undeclared) {}

  /**
   * A scope being compiled.
   *
   * @param isSoft whether missing filters fail only when reached, as inside of an {@code if}
   * @param inLoop whether {@code break} and {@code continue} have a loop to act on
   */
  private record Scope(Symbols symbols, boolean isSoft, boolean inLoop) {
    Scope soft() {
      return isSoft ? this : new Scope(symbols, true, inLoop);
    }

    Scope inner() {
      return new Scope(symbols.inner(), false, inLoop);
    }

    Scope function() {
      return new Scope(symbols.inner(new Symbols.Function(symbols.function)), false, false);
    }

    Scope loop() {
      return new Scope(symbols, isSoft, true);
    }
  }

  private static final Stmt NOTHING = new Stmt.Block(new Stmt[0]);
  private static final Expr NONE = new Expr.Const(None.NONE);
  private static final Expr UNDEFINED = new Expr.Const(Undefined.MISSING);

  private final Set<String> undeclared = new HashSet<>();

  private Compiler() {}

  static Program compile(List<Node.Statement> template) {
    Compiler compiler = new Compiler();
    Scope root = new Scope(Symbols.root(), false, false);
    root.symbols.analyzeBody(template);
    Stmt.Enter enter = compiler.enter(root);
    Stmt body = compiler.block(template, root);
    return new Program(root.symbols.function, enter, body, Set.copyOf(compiler.undeclared));
  }

  /** Functions to go out from {@code from} to {@code to}. */
  static int hops(Symbols.Function from, Symbols.Function to) {
    int hops = 0;
    for (Symbols.Function at = from; at != to; at = at.outer) {
      if (at == null) {
        throw new IllegalStateException("slot of a function that is not around");
      }
      hops++;
    }
    return hops;
  }

  /** The scope's entry; its names that come from outside of the template become known here. */
  private Stmt.Enter enter(Scope scope) {
    for (Symbols.Load load : scope.symbols.loads().values()) {
      if (load instanceof Symbols.Load.Resolve(String name) && !Globals.isJinjaGlobal(name)) {
        undeclared.add(name);
      }
    }
    return Stmt.Enter.of(scope.symbols);
  }

  // Statements

  private Stmt block(List<Node.Statement> body, Scope scope) {
    List<Stmt> statements = new ArrayList<>();
    for (Node.Statement node : body) {
      if (node instanceof Node.Output(var nodes)) {
        for (Node.Expression expression : nodes) {
          statements.add(
              expression instanceof Node.Data(String text)
                  ? new Stmt.Data(text)
                  : new Stmt.Print(expr(expression, scope)));
        }
      } else {
        statements.add(statement(node, scope));
      }
    }
    return statements.size() == 1
        ? statements.getFirst()
        : statements.isEmpty() ? NOTHING : new Stmt.Block(statements.toArray(Stmt[]::new));
  }

  private Stmt statement(Node.Statement node, Scope scope) {
    return switch (node) {
      case Node.Output _ -> throw new IllegalStateException("output outside of a block");
      case Node.If branch -> ifBranch(branch, scope.soft());
      case Node.For loop -> forLoop(loop, scope);
      case Node.Assign assign ->
          new Stmt.Assign(target(assign.target(), scope), expr(assign.node(), scope));
      case Node.AssignBlock block -> assignBlock(block, scope);
      case Node.FilterBlock block -> filterBlock(block, scope);
      case Node.With with -> with(with, scope);
      case Node.Macro macro ->
          new Stmt.DefineMacro(
              slot(macro.name(), scope),
              macro(macro.name(), macro.signature(), macro.body(), macro.line(), scope));
      case Node.CallBlock block ->
          new Stmt.CallBlock(
              macro(null, block.signature(), block.body(), block.line(), scope),
              block.call() == null ? null : call(block.call(), scope));
      case Node.Break(int line) -> jump(Stmt.End.BREAK, line, scope);
      case Node.Continue(int line) -> jump(Stmt.End.CONTINUE, line, scope);
    };
  }

  private static Stmt jump(Stmt.End end, int line, Scope scope) {
    if (!scope.inLoop) {
      throw ParseFailure.syntax(line, "break or continue outside of a loop");
    }
    return new Stmt.Jump(end);
  }

  private Stmt ifBranch(Node.If branch, Scope scope) {
    List<Expr> tests = new ArrayList<>();
    List<Stmt> bodies = new ArrayList<>();
    tests.add(expr(branch.test(), scope));
    bodies.add(block(branch.body(), scope));
    for (Node.If elif : branch.elifs()) {
      tests.add(expr(elif.test(), scope));
      bodies.add(block(elif.body(), scope));
    }
    return new Stmt.If(
        tests.toArray(Expr[]::new), bodies.toArray(Stmt[]::new), block(branch.otherwise(), scope));
  }

  private Stmt forLoop(Node.For node, Scope scope) {
    checkNoLoopTarget(node.target(), node.line());
    Scope outer = node.recursive() ? scope.function() : scope;
    Scope body =
        node.recursive()
            ? new Scope(scope.symbols.inner(outer.symbols.function), false, true)
            : scope.inner().loop();
    boolean usesLoop =
        node.recursive() || !Symbols.undeclared(node.body(), Set.of("loop")).isEmpty();
    int loopSlot = usesLoop ? body.symbols.declareParameter("loop").slot() : -1;
    body.symbols.analyzeLoopTarget(node.target());
    body.symbols.analyzeBody(node.body());

    Expr iterable = expr(node.iterable(), scope);
    Stmt.LoopFilter filter = node.test() == null ? null : loopFilter(node, node.test(), scope);
    Stmt.Target target = target(node.target(), body);
    Stmt.Enter enter = enter(body);
    Stmt bodyCode = block(node.body(), body);
    Stmt.Enter otherwiseEnter = null;
    Stmt otherwise = NOTHING;
    if (!node.otherwise().isEmpty()) {
      Scope elseScope = new Scope(scope.symbols.inner(body.symbols.function), false, scope.inLoop);
      if (node.recursive()) {
        elseScope = new Scope(elseScope.symbols, false, false);
      }
      elseScope.symbols.analyzeBody(node.otherwise());
      otherwiseEnter = enter(elseScope);
      otherwise = block(node.otherwise(), elseScope);
    }
    Stmt.Loop loop =
        new Stmt.Loop(
            iterable,
            filter,
            target,
            loopSlot,
            enter,
            bodyCode,
            otherwiseEnter,
            otherwise,
            new CommonSteps(),
            definesFunctions(node.body()),
            keepsLoop(node.body()));
    return node.recursive()
        ? new Stmt.RecursiveFor(loop, body.symbols.function)
        : new Stmt.For(loop);
  }

  /**
   * Whether there are functions that may be kept beyond a pass: macros, the bodies of call blocks,
   * and through the {@code loop} of an inner loop its filter and recursion.
   */
  private static boolean definesFunctions(List<? extends Node> nodes) {
    for (Node node : nodes) {
      boolean isFunction =
          switch (node) {
            case Node.Macro _ -> true;
            case Node.CallBlock block -> block.call() != null;
            case Node.For loop ->
                loop.recursive()
                    || (loop.test() != null
                        && !Symbols.undeclared(loop.body(), Set.of("loop")).isEmpty());
            default -> false;
          };
      if (isFunction || definesFunctions(Node.children(node))) {
        return true;
      }
    }
    return false;
  }

  /** Whether {@code loop} is anything but asked for an attribute, and may be kept beyond a pass. */
  private static boolean keepsLoop(List<? extends Node> nodes) {
    for (Node node : nodes) {
      boolean isAsked =
          node instanceof Node.Attribute attribute
              && attribute.node() instanceof Node.Name(String name)
              && name.equals("loop");
      if (!isAsked && (node.equals(new Node.Name("loop")) || keepsLoop(Node.children(node)))) {
        return true;
      }
    }
    return false;
  }

  private Stmt.LoopFilter loopFilter(Node.For node, Node.Expression test, Scope scope) {
    Scope inside = scope.function();
    inside.symbols.analyzeLoopTarget(node.target());
    inside.symbols.analyzeBody(List.of(test));
    return new Stmt.LoopFilter(
        inside.symbols.function, enter(inside), target(node.target(), inside), expr(test, inside));
  }

  private static void checkNoLoopTarget(Node.Expression target, int line) {
    switch (target) {
      case Node.Name(String name) -> {
        if (name.equals("loop")) {
          throw ParseFailure.syntax(line, "can't assign to the loop variable");
        }
      }
      case Node.TupleExpr(var items) -> {
        for (Node.Expression item : items) {
          checkNoLoopTarget(item, line);
        }
      }
      default -> {}
    }
  }

  private Stmt assignBlock(Node.AssignBlock node, Scope scope) {
    Scope inside = scope.inner();
    inside.symbols.analyzeBody(node.body());
    if (node.filter() != null) {
      inside.symbols.analyzeBody(List.of(node.filter()));
    }
    Stmt.Enter enter = enter(inside);
    Stmt body = block(node.body(), inside);
    int textSlot = inside.symbols.function.hidden().slot();
    Expr text = new Expr.Local(textSlot);
    Expr result = node.filter() == null ? text : filter(node.filter(), inside, text);
    return new Stmt.Capture(enter, body, textSlot, target(node.target(), scope), result);
  }

  private Stmt filterBlock(Node.FilterBlock node, Scope scope) {
    Scope inside = scope.inner();
    inside.symbols.analyzeBody(node.body());
    inside.symbols.analyzeBody(List.of(node.filter()));
    Stmt.Enter enter = enter(inside);
    Stmt body = block(node.body(), inside);
    int textSlot = inside.symbols.function.hidden().slot();
    Expr result = filter(node.filter(), inside, new Expr.Local(textSlot));
    return new Stmt.Capture(enter, body, textSlot, null, result);
  }

  private Stmt with(Node.With node, Scope scope) {
    Scope inside = scope.inner();
    inside.symbols.analyzeWith(node);
    Stmt.Enter enter = enter(inside);
    List<Stmt.Target> targets = new ArrayList<>();
    for (Node.Expression target : node.targets()) {
      targets.add(target(target, inside));
    }
    return new Stmt.With(
        enter,
        targets.toArray(Stmt.Target[]::new),
        exprs(node.values(), scope),
        block(node.body(), inside));
  }

  private MacroValue.Code macro(
      @Nullable String name,
      Node.Signature signature,
      List<Node.Statement> body,
      int line,
      Scope scope) {
    Scope inside = scope.function();
    Symbols symbols = inside.symbols;
    symbols.analyzeSignature(signature);
    symbols.analyzeBody(body);
    List<String> parameters = new ArrayList<>();
    for (Node.Name parameter : signature.parameters()) {
      parameters.add(parameter.name());
    }
    int firstDefault = parameters.size() - signature.defaults().size();
    Set<String> special = Symbols.undeclared(body, Set.of("caller", "kwargs", "varargs"));
    boolean catchesCaller = special.contains("caller");
    boolean explicitCaller = parameters.contains("caller");
    if (catchesCaller && explicitCaller && parameters.indexOf("caller") < firstDefault) {
      throw ParseFailure.syntax(line, "the parameter 'caller' needs a default");
    }
    int callerSlot = -1;
    if (catchesCaller && !explicitCaller) {
      callerSlot = symbols.declareParameter("caller").slot();
    }
    int kwargsSlot = -1;
    if (special.contains("kwargs") && !parameters.contains("kwargs")) {
      kwargsSlot = symbols.declareParameter("kwargs").slot();
    }
    int varargsSlot = -1;
    if (special.contains("varargs") && !parameters.contains("varargs")) {
      varargsSlot = symbols.declareParameter("varargs").slot();
    }
    Stmt.Enter enter = enter(inside);
    List<MacroValue.Parameter> places = new ArrayList<>();
    for (int i = 0; i < parameters.size(); i++) {
      String parameter = parameters.get(i);
      places.add(
          new MacroValue.Parameter(
              parameter,
              symbols.ref(parameter).slot(),
              i < firstDefault ? null : expr(signature.defaults().get(i - firstDefault), inside)));
    }
    return new MacroValue.Code(
        name,
        symbols.function,
        List.copyOf(places),
        catchesCaller,
        callerSlot,
        kwargsSlot,
        varargsSlot,
        enter,
        block(body, inside));
  }

  private Stmt.Target target(Node.Expression target, Scope scope) {
    return switch (target) {
      case Node.Name(String name) -> slot(name, scope);
      case Node.NamespaceTarget(String name, String attribute) ->
          new Stmt.Target.Attribute(name(name, scope), attribute);
      case Node.TupleExpr(var items) -> {
        List<Stmt.Target> targets = new ArrayList<>();
        for (Node.Expression item : items) {
          targets.add(target(item, scope));
        }
        yield new Stmt.Target.Unpack(targets.toArray(Stmt.Target[]::new));
      }
      default -> throw new IllegalStateException("not a target: " + target);
    };
  }

  private static Stmt.Target slot(String name, Scope scope) {
    Symbols.Ident ident = scope.symbols.ref(name);
    if (ident.function() != scope.symbols.function) {
      throw new IllegalStateException("assignment to another function's slot");
    }
    return new Stmt.Target.Slot(ident.slot());
  }

  // Expressions

  private static Expr name(String name, Scope scope) {
    Symbols.Ident ident = scope.symbols.ref(name);
    int hops = hops(scope.symbols.function, ident.function());
    return hops == 0 ? new Expr.Local(ident.slot()) : new Expr.Outer(hops, ident.slot());
  }

  private Expr[] exprs(List<Node.Expression> nodes, Scope scope) {
    Expr[] exprs = new Expr[nodes.size()];
    for (int i = 0; i < exprs.length; i++) {
      exprs[i] = expr(nodes.get(i), scope);
    }
    return exprs;
  }

  private Expr optional(Node.@Nullable Expression node, Scope scope) {
    return node == null ? NONE : expr(node, scope);
  }

  private Expr expr(Node.Expression node, Scope scope) {
    return switch (node) {
      case Node.Const(Object value) -> new Expr.Const(value);
      case Node.Data(String text) -> new Expr.Const(text);
      case Node.Name(String name) -> name(name, scope);
      case Node.NamespaceTarget _ -> throw new IllegalStateException("target as a value");
      case Node.TupleExpr(var items) -> new Expr.ListOf(exprs(items, scope), true);
      case Node.ListExpr(var items) -> new Expr.ListOf(exprs(items, scope), false);
      case Node.DictExpr(var pairs) -> {
        Expr[] keys = new Expr[pairs.size()];
        Expr[] values = new Expr[pairs.size()];
        for (int i = 0; i < keys.length; i++) {
          keys[i] = expr(pairs.get(i).key(), scope);
          values[i] = expr(pairs.get(i).value(), scope);
        }
        yield new Expr.DictOf(keys, values);
      }
      case Node.Attribute(var inner, String name, _) ->
          new Expr.Attribute(expr(inner, scope), name);
      case Node.Item(var inner, var key, _) ->
          key instanceof Node.Slice(var start, var stop, var step)
              ? new Expr.Slice(
                  expr(inner, scope),
                  optional(start, scope),
                  optional(stop, scope),
                  optional(step, scope))
              : new Expr.Item(expr(inner, scope), expr(key, scope));
      // A slice beside other keys: no value of a template takes such a key.
      case Node.Slice _ -> new Expr.Fail(null);
      case Node.Call call -> call(call, scope, true);
      case Node.Filter filter -> {
        if (filter.node() == null) {
          throw new IllegalStateException("filter without a value");
        }
        yield filter(filter, scope, UNDEFINED);
      }
      case Node.Test test -> test(test, scope);
      case Node.Unary(var operator, var inner) ->
          switch (operator) {
            case NOT -> new Expr.Not(expr(inner, scope));
            case NEGATE -> new Expr.Negate(expr(inner, scope));
            case PLUS -> new Expr.Plus(expr(inner, scope));
          };
      case Node.Binary binary -> binary(binary, scope);
      case Node.Compare(var left, var operands) -> {
        Node.Comparison[] comparisons = new Node.Comparison[operands.size()];
        Expr[] rights = new Expr[operands.size()];
        for (int i = 0; i < rights.length; i++) {
          comparisons[i] = operands.get(i).comparison();
          rights[i] = expr(operands.get(i).right(), scope);
        }
        yield new Expr.Compare(expr(left, scope), comparisons, rights);
      }
      case Node.Concat(var nodes) -> new Expr.Concat(exprs(nodes, scope));
      case Node.Conditional(var test, var then, var otherwise) -> {
        Scope soft = scope.soft();
        yield new Expr.Conditional(
            expr(test, soft),
            expr(then, soft),
            otherwise == null ? UNDEFINED : expr(otherwise, soft));
      }
    };
  }

  private Expr binary(Node.Binary binary, Scope scope) {
    return switch (binary.operator()) {
      case AND -> new Expr.And(expr(binary.left(), scope), expr(binary.right(), scope));
      case OR -> new Expr.Or(expr(binary.left(), scope), expr(binary.right(), scope));
      case ADD -> {
        List<Node.Expression> parts = new ArrayList<>();
        Node.Expression left = binary;
        while (left instanceof Node.Binary sum && sum.operator() == Node.BinaryOperator.ADD) {
          parts.addFirst(sum.right());
          left = sum.left();
        }
        parts.addFirst(left);
        yield new Expr.Sum(exprs(parts, scope));
      }
      case SUBTRACT, MULTIPLY, DIVIDE, FLOOR_DIVIDE, MODULO, POWER ->
          new Expr.Binary(
              binary.operator(), expr(binary.left(), scope), expr(binary.right(), scope));
    };
  }

  private Expr.Call call(Node.Call call, Scope scope) {
    return new Expr.Call(expr(call.callee(), scope), arguments(call.arguments(), scope));
  }

  private Expr call(Node.Call call, Scope scope, boolean mayBind) {
    if (mayBind && call.callee() instanceof Node.Attribute(var inner, String name, _)) {
      StrMethods.Method method = StrMethods.find(name);
      if (method != null) {
        return new Expr.MethodCall(
            expr(inner, scope), name, method, arguments(call.arguments(), scope));
      }
    }
    return call(call, scope);
  }

  private Expr.Arguments arguments(Node.Arguments arguments, Scope scope) {
    if (arguments.equals(Node.Arguments.NONE)) {
      return Expr.Arguments.NONE;
    }
    List<Node.Keyword> keywords = arguments.keywords();
    String[] names = new String[keywords.size()];
    Expr[] named = new Expr[keywords.size()];
    for (int i = 0; i < names.length; i++) {
      names[i] = keywords.get(i).name();
      named[i] = expr(keywords.get(i).value(), scope);
    }
    return new Expr.Arguments(
        exprs(arguments.positional(), scope),
        names,
        named,
        arguments.star() == null ? null : expr(arguments.star(), scope),
        arguments.doubleStar() == null ? null : expr(arguments.doubleStar(), scope));
  }

  /** A filter; {@code text} stands in when it applies to the text of a block. */
  private Expr filter(Node.Filter node, Scope scope, Expr text) {
    Expr value =
        node.node() == null
            ? text
            : node.node() instanceof Node.Filter inner
                ? filter(inner, scope, text)
                : expr(node.node(), scope);
    Filters.Filter filter = Filters.find(node.name());
    if (filter == null) {
      return missing("filter", node.name(), Filters.exists(node.name()), node.line(), scope);
    }
    return new Expr.Filter(value, filter, arguments(node.arguments(), scope));
  }

  private Expr test(Node.Test node, Scope scope) {
    Tests.Test test = Tests.find(node.name());
    if (test == null) {
      return missing("test", node.name(), false, node.line(), scope);
    }
    return new Expr.Test(expr(node.node(), scope), test, arguments(node.arguments(), scope));
  }

  private static Expr missing(String kind, String name, boolean inJinja, int line, Scope scope) {
    if (scope.isSoft) {
      return new Expr.Fail(inJinja ? kind + "_" + name : null);
    }
    String detail = "no " + kind + " named '" + name + "'";
    throw inJinja
        ? ParseFailure.unsupported(kind + "_" + name, line, detail)
        : ParseFailure.syntax(line, detail);
  }
}
