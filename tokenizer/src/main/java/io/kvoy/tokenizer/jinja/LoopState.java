// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A loop at work: hands out the items one by one and is the {@code loop} variable. Looks ahead by
 * one item, and only when asked, so that a filter runs as late as in Jinja2. Belongs to one run of
 * one loop.
 */
final class LoopState implements Callable {
  private final Render render;
  private final Object iterable;
  private final int depth0;
  private final @Nullable Recursion recursion;
  private Iterator<Object> iterator;
  private int index0 = -1;
  private long length = -1;
  private @Nullable Object after;
  private @Nullable Object before;
  private @Nullable Object current;
  private @Nullable Args lastChanged;
  private @Nullable TemplateError failure;

  /** Runs the body of a recursive loop over other items, one level deeper. */
  @FunctionalInterface
  interface Recursion {
    String run(Object iterable, int depth0);
  }

  LoopState(Render render, Object iterable, int depth0, @Nullable Recursion recursion) {
    this.render = render;
    this.iterable = iterable;
    this.depth0 = depth0;
    this.recursion = recursion;
    this.iterator = Values.iterate(iterable);
  }

  /** The next item, or null at the end. */
  @Nullable Object advance() {
    Object next = peek();
    if (next == null) {
      return null;
    }
    after = null;
    index0++;
    before = current;
    current = next;
    return next;
  }

  /** Goes on to the last of so many items of the list that is looped over. */
  void skip(List<Object> items, int count) {
    index0 += count;
    before = index0 == 0 ? null : items.get(index0 - 1);
    current = items.get(index0);
    after = null;
    iterator = items.listIterator(index0 + 1);
  }

  /** A condition as it would be in a pass further on, 0 for the next one. */
  boolean testAhead(Expr test, Frame frame, int passes) {
    int here = index0;
    index0 = here + 1 + passes;
    try {
      return test.test(frame);
    } finally {
      index0 = here;
    }
  }

  private @Nullable Object peek() {
    if (after == null) {
      // Only an iterator of the template's own does work, and fails, when it is asked.
      after = iterable instanceof PyIterator ? lookAhead(this::next) : next();
    }
    return after;
  }

  private @Nullable Object next() {
    return iterator.hasNext() ? iterator.next() : null;
  }

  /** What a look ahead finds or fails with stays, whoever looks again. */
  private <T extends @Nullable Object> T lookAhead(Supplier<T> look) {
    if (failure != null) {
      throw failure;
    }
    long lasting = render.lastingWork();
    long left = render.workLeft();
    try {
      return look.get();
    } catch (TemplateError error) {
      failure = error;
      throw error;
    } finally {
      render.lasts(lasting, left);
    }
  }

  int index0() {
    return index0;
  }

  long length() {
    if (length < 0) {
      if (iterable instanceof PyIterator) {
        List<Object> rest = lookAhead(this::rest);
        iterator = rest.iterator();
        length = rest.size() + index0 + 1L + (after == null ? 0 : 1);
      } else {
        length = Values.length(iterable);
      }
    }
    return length;
  }

  private List<Object> rest() {
    List<Object> rest = new ArrayList<>();
    iterator.forEachRemaining(rest::add);
    render.items(rest.size());
    return rest;
  }

  /** An attribute of {@code loop}, or null when there is none of that name. */
  @Nullable Object attribute(String name) {
    return switch (name) {
      case "index0" -> (long) index0;
      case "index" -> index0 + 1L;
      case "first" -> index0 == 0;
      case "last" -> peek() == null;
      case "length" -> length();
      case "revindex" -> length() - index0;
      case "revindex0" -> length() - index0 - 1;
      case "depth" -> depth0 + 1L;
      case "depth0" -> (long) depth0;
      case "previtem" -> before == null ? Undefined.MISSING : before;
      case "nextitem" -> {
        Object next = peek();
        yield next == null ? Undefined.MISSING : next;
      }
      case "cycle" -> (Callable) (_, args) -> cycle(args);
      case "changed" -> (Callable) (_, args) -> changed(args);
      default -> null;
    };
  }

  private Object cycle(Args args) {
    List<Object> values = args.positional(0, Integer.MAX_VALUE);
    if (values.isEmpty()) {
      throw TemplateError.type();
    }
    return values.get(index0 % values.size());
  }

  private Object changed(Args args) {
    args.positional(0, Integer.MAX_VALUE);
    Args last = lastChanged;
    if (last != null
        && Values.equal(
            render, new PyTuple(last.positional(), false), new PyTuple(args.positional(), false))) {
      return false;
    }
    lastChanged = args;
    return true;
  }

  @Override
  public Object call(Render render, Args args) {
    Object inner = args.bind(1, "iterable")[0];
    if (recursion == null || inner == null) {
      throw TemplateError.type();
    }
    return recursion.run(inner, depth0 + 1);
  }
}
