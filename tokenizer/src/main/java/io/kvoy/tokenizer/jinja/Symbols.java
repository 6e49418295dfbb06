// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Which name of a scope lives in which slot, and what the slot holds when the scope is entered.
 *
 * <p>Jinja2 decides this before a template runs (its {@code idtracking.py}), and what templates
 * print depends on it: a name that a scope only reads is the outer scope's slot; one that it
 * assigns gets a slot of its own, which starts as a copy of the outer one each time the scope is
 * entered. So an assignment inside a loop is gone after the pass. An {@code if} is no scope; a name
 * assigned in one of its branches only starts as what it is outside. A name that no scope assigns
 * comes from the render's variables.
 */
final class Symbols {

  /** Slots of one function: the template, a macro, a loop's filter, a recursive loop. */
  static final class Function {
    final @Nullable Function outer;
    private final Map<String, Integer> slots = new HashMap<>();
    private int size;

    Function(@Nullable Function outer) {
      this.outer = outer;
    }

    /**
     * Scopes of equal depth share the slots of equal names: never two of them are entered at once.
     */
    private Ident ident(int level, String name) {
      return new Ident(this, slots.computeIfAbsent(level + " " + name, _ -> size++));
    }

    /** A slot that no name leads to. */
    Ident hidden() {
      return new Ident(this, size++);
    }

    int size() {
      return size;
    }
  }

  /** A slot of a function. */
  record Ident(Function function, int slot) {}

  /** What a slot holds when its scope is entered. */
  sealed interface Load {
    /** Whatever was assigned just before: a loop's target, a macro's argument. */
    record Parameter() implements Load {}

    /** A variable of the render. */
    record Resolve(String name) implements Load {}

    /** The outer scope's value at that time. */
    record Alias(Ident outer) implements Load {}

    /** Nothing yet. */
    record Missing() implements Load {}
  }

  final Function function;
  private final int level;
  private final @Nullable Symbols parent;
  private final Map<String, Ident> refs;
  private final Map<Ident, Load> loads;
  private final Set<String> stores;

  private Symbols(
      Function function,
      int level,
      @Nullable Symbols parent,
      Map<String, Ident> refs,
      Map<Ident, Load> loads,
      Set<String> stores) {
    this.function = function;
    this.level = level;
    this.parent = parent;
    this.refs = refs;
    this.loads = loads;
    this.stores = stores;
  }

  static Symbols root() {
    return new Symbols(
        new Function(null), 0, null, new HashMap<>(), new LinkedHashMap<>(), new HashSet<>());
  }

  /** A scope inside of this one, in the same function. */
  Symbols inner() {
    return inner(function);
  }

  /** A scope inside of this one, in that function. */
  Symbols inner(Function in) {
    return new Symbols(
        in, level + 1, this, new HashMap<>(), new LinkedHashMap<>(), new HashSet<>());
  }

  private Symbols copy() {
    return new Symbols(
        function,
        level,
        parent,
        new HashMap<>(refs),
        new LinkedHashMap<>(loads),
        new HashSet<>(stores));
  }

  Map<Ident, Load> loads() {
    return loads;
  }

  private @Nullable Ident find(String name) {
    for (Symbols scope = this; scope != null; scope = scope.parent) {
      Ident ident = scope.refs.get(name);
      if (ident != null) {
        return ident;
      }
    }
    return null;
  }

  /** The slot of a name that was analyzed before. */
  Ident ref(String name) {
    Ident ident = find(name);
    if (ident == null) {
      throw new IllegalStateException("name without a slot: " + name);
    }
    return ident;
  }

  private Ident define(String name, Load load) {
    Ident ident = function.ident(level, name);
    refs.put(name, ident);
    loads.put(ident, load);
    return ident;
  }

  Ident declareParameter(String name) {
    stores.add(name);
    return define(name, new Load.Parameter());
  }

  private void store(String name) {
    stores.add(name);
    if (!refs.containsKey(name)) {
      Ident outer = parent == null ? null : parent.find(name);
      define(name, outer == null ? new Load.Missing() : new Load.Alias(outer));
    }
  }

  private void load(String name) {
    if (find(name) == null) {
      define(name, new Load.Resolve(name));
    }
  }

  /** Takes over what the branches of an {@code if} found: none of their assignments is certain. */
  private void merge(List<Symbols> branches) {
    Set<String> assigned = new HashSet<>();
    for (Symbols branch : branches) {
      assigned.addAll(branch.stores);
    }
    assigned.removeAll(stores);
    for (Symbols branch : branches) {
      refs.putAll(branch.refs);
      loads.putAll(branch.loads);
      stores.addAll(branch.stores);
    }
    for (String name : assigned) {
      Ident outer = parent == null ? null : parent.find(name);
      loads.put(ref(name), outer == null ? new Load.Resolve(name) : new Load.Alias(outer));
    }
  }

  // Analysis. Called once per scope, before anything in it is compiled.

  void analyzeBody(List<? extends Node> body) {
    for (Node node : body) {
      visit(node);
    }
  }

  void analyzeLoopTarget(Node.Expression target) {
    visitTarget(target, true);
  }

  void analyzeSignature(Node.Signature signature) {
    for (Node.Name parameter : signature.parameters()) {
      declareParameter(parameter.name());
    }
    analyzeBody(signature.defaults());
  }

  void analyzeWith(Node.With with) {
    for (Node.Expression target : with.targets()) {
      visitTarget(target, true);
    }
    analyzeBody(with.body());
  }

  private void visitTarget(Node.Expression target, boolean asParameter) {
    switch (target) {
      case Node.Name(String name) -> {
        if (asParameter) {
          declareParameter(name);
        } else {
          store(name);
        }
      }
      case Node.NamespaceTarget(String name, _) -> load(name);
      case Node.TupleExpr(var items) -> {
        for (Node.Expression item : items) {
          visitTarget(item, asParameter);
        }
      }
      default -> throw new IllegalStateException("not a target: " + target);
    }
  }

  private void visit(Node node) {
    switch (node) {
      case Node.Name(String name) -> load(name);
      case Node.If branch -> visitIf(branch);
      case Node.Macro macro -> store(macro.name());
      case Node.For loop -> visit(loop.iterable());
      case Node.CallBlock block -> {
        if (block.call() != null) {
          visit(block.call());
        }
      }
      case Node.FilterBlock block -> visit(block.filter());
      case Node.With with -> analyzeBody(with.values());
      case Node.Assign assign -> {
        visit(assign.node());
        visitTarget(assign.target(), false);
      }
      case Node.AssignBlock block -> visitTarget(block.target(), false);
      default -> analyzeBody(Node.children(node));
    }
  }

  private void visitIf(Node.If branch) {
    visit(branch.test());
    Symbols body = copy();
    body.analyzeBody(branch.body());
    Symbols elifs = copy();
    elifs.analyzeBody(branch.elifs());
    Symbols otherwise = copy();
    otherwise.analyzeBody(branch.otherwise());
    merge(List.of(body, elifs, otherwise));
  }

  /** Which of {@code names} are read in the nodes without being assigned there first. */
  static Set<String> undeclared(List<? extends Node> nodes, Set<String> names) {
    Set<String> open = new HashSet<>(names);
    Set<String> found = new HashSet<>();
    for (Node node : nodes) {
      collectUndeclared(node, open, found);
    }
    return found;
  }

  private static void collectUndeclared(Node node, Set<String> open, Set<String> found) {
    switch (node) {
      case Node.Name(String name) -> {
        if (open.contains(name)) {
          found.add(name);
        }
      }
      case Node.Assign assign -> {
        closeTarget(assign.target(), open);
        collectUndeclared(assign.node(), open, found);
      }
      case Node.AssignBlock block -> {
        closeTarget(block.target(), open);
        collectAll(block.filter() == null ? List.of() : List.of(block.filter()), open, found);
        collectAll(block.body(), open, found);
      }
      case Node.For loop -> {
        closeTarget(loop.target(), open);
        collectUndeclared(loop.iterable(), open, found);
        collectAll(loop.body(), open, found);
        collectAll(loop.otherwise(), open, found);
        collectAll(loop.test() == null ? List.of() : List.of(loop.test()), open, found);
      }
      case Node.With with -> {
        for (Node.Expression target : with.targets()) {
          closeTarget(target, open);
        }
        collectAll(with.values(), open, found);
        collectAll(with.body(), open, found);
      }
      case Node.Macro macro -> {
        closeSignature(macro.signature(), open, found);
        collectAll(macro.body(), open, found);
      }
      case Node.CallBlock block -> {
        collectAll(block.call() == null ? List.of() : List.of(block.call()), open, found);
        closeSignature(block.signature(), open, found);
        collectAll(block.body(), open, found);
      }
      default -> collectAll(Node.children(node), open, found);
    }
  }

  private static void collectAll(List<? extends Node> nodes, Set<String> open, Set<String> found) {
    for (Node node : nodes) {
      collectUndeclared(node, open, found);
    }
  }

  private static void closeSignature(
      Node.Signature signature, Set<String> open, Set<String> found) {
    for (Node.Name parameter : signature.parameters()) {
      open.remove(parameter.name());
    }
    collectAll(signature.defaults(), open, found);
  }

  private static void closeTarget(Node.Expression target, Set<String> open) {
    switch (target) {
      case Node.Name(String name) -> open.remove(name);
      case Node.TupleExpr(var items) -> {
        for (Node.Expression item : items) {
          closeTarget(item, open);
        }
      }
      default -> {}
    }
  }
}
