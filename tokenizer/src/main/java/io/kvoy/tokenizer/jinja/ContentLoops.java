// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * Looks for loops over the content of a message: over {@code message.content} of a loop over {@code
 * messages} or over something assigned from it, over a macro's parameter that is given such a
 * content, or over a variable named {@code content} outside of macros. The same guesses that vLLM
 * 0.32 makes ({@code vllm/renderers/hf.py}); where those fail on a template, the answer is no.
 */
final class ContentLoops {
  private final List<Node.Statement> template;

  /** A shape of template that vLLM's own search fails on. */
  private static final class Unforeseen extends RuntimeException {
    private static final long serialVersionUID = 1;

    Unforeseen() {
      super(null, null, false, false);
    }
  }

  private ContentLoops(List<Node.Statement> template) {
    this.template = template;
  }

  static boolean found(List<Node.Statement> template) {
    try {
      return new ContentLoops(template).search();
    } catch (Unforeseen e) {
      return false;
    }
  }

  private boolean search() {
    Set<String> messages = messageNames();
    IdentityHashMap<Node.For, Set<String>> contentParameters = new IdentityHashMap<>();
    IdentityHashMap<Node.For, Boolean> inMacros = new IdentityHashMap<>();
    for (Node.Macro macro : all(Node.Macro.class)) {
      Set<String> parameters = contentParameters(macro, messages);
      walk(
          macro,
          node -> {
            if (node instanceof Node.For loop) {
              inMacros.put(loop, true);
              if (!parameters.isEmpty()) {
                contentParameters.put(loop, parameters);
              }
            }
          });
    }
    for (Node.For loop : all(Node.For.class)) {
      boolean overContent =
          messages.stream().anyMatch(name -> reads(loop.iterable(), name, "content"));
      if (!overContent && loop.iterable() instanceof Node.Name(String name)) {
        Set<String> parameters = contentParameters.get(loop);
        overContent =
            (parameters != null && parameters.contains(name))
                || (!inMacros.containsKey(loop) && name.equals("content"));
      }
      if (overContent) {
        nameOf(loop.target());
        return true;
      }
    }
    return false;
  }

  /** Names of the loop variables that stand for one message. */
  private Set<String> messageNames() {
    Set<String> lists = new HashSet<>();
    Deque<String> open = new ArrayDeque<>();
    lists.add("messages");
    open.add("messages");
    while (!open.isEmpty()) {
      String known = open.remove();
      for (Node.Assign assign : all(Node.Assign.class)) {
        if (reads(assign.node(), known, null)) {
          String name = nameOf(assign.target());
          if (lists.add(name)) {
            open.add(name);
          }
        }
      }
    }
    Set<String> names = new HashSet<>();
    for (Node.For loop : all(Node.For.class)) {
      if (lists.stream().anyMatch(list -> reads(loop.iterable(), list, null))) {
        names.add(nameOf(loop.target()));
      }
    }
    return names;
  }

  private Set<String> contentParameters(Node.Macro macro, Set<String> messages) {
    List<Node.Name> parameters = macro.signature().parameters();
    Set<String> found = new HashSet<>();
    for (Node.Call call : all(Node.Call.class)) {
      if (!(call.callee() instanceof Node.Name(String callee)) || !callee.equals(macro.name())) {
        continue;
      }
      List<Node.Expression> positional = call.arguments().positional();
      for (int i = 0; i < Math.min(positional.size(), parameters.size()); i++) {
        Node.Expression argument = positional.get(i);
        if (messages.stream().anyMatch(name -> reads(argument, name, "content"))) {
          found.add(parameters.get(i).name());
        }
      }
      for (Node.Keyword keyword : call.arguments().keywords()) {
        if (parameters.contains(new Node.Name(keyword.name()))
            && messages.stream().anyMatch(name -> reads(keyword.value(), name, "content"))) {
          found.add(keyword.name());
        }
      }
    }
    return found;
  }

  private static String nameOf(Node.Expression target) {
    if (target instanceof Node.Name(String name)) {
      return name;
    }
    throw new Unforeseen();
  }

  /**
   * Whether the expression is the variable, or its item {@code key}, perhaps sliced, filtered or
   * tested.
   */
  private static boolean reads(Node.Expression node, String variable, @Nullable String key) {
    return switch (node) {
      case Node.Filter filter -> filter.node() != null && reads(filter.node(), variable, key);
      case Node.Test test -> reads(test.node(), variable, key);
      case Node.Item(var inner, Node.Slice _, _) -> reads(inner, variable, key);
      case Node.Item(var inner, Node.Const(Object constant), _) ->
          key != null && isVariable(inner, variable) && key.equals(constant);
      case Node.Attribute(var inner, String name, _) ->
          key != null && isVariable(inner, variable) && key.equals(name);
      default -> key == null && isVariable(node, variable);
    };
  }

  private static boolean isVariable(Node.Expression node, String variable) {
    return node instanceof Node.Name(String name) && name.equals(variable);
  }

  private <T extends Node> List<T> all(Class<T> type) {
    List<T> found = new ArrayList<>();
    for (Node.Statement statement : template) {
      walk(
          statement,
          node -> {
            if (type.isInstance(node)) {
              found.add(type.cast(node));
            }
          });
    }
    return found;
  }

  private static void walk(Node node, Consumer<Node> visitor) {
    visitor.accept(node);
    for (Node child : Node.children(node)) {
      walk(child, visitor);
    }
  }
}
