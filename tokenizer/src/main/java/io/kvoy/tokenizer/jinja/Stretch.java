// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Several passes of a loop in a row, as their {@link Trace}s were followed once. A later render
 * follows the stretch in place of the traces: what they have to evaluate and is the same in all of
 * these passes is evaluated once, what the items and their places settle is not evaluated at all.
 *
 * <p>Immutable, shared by all renders.
 *
 * @param loop whose passes they are
 * @param isLong whether short ones take its place where it cannot be followed
 * @param items that the loop went through, in its order; another one came behind
 * @param traces of the items, from which this was made
 * @param start {@code loop.index0} of the first item where that matters, else -1
 * @param next the item behind where that matters, else null
 * @param steps what is left to do; null when the traces cannot be put together
 * @param scalars what steps read and must be neither a container nor a namespace
 * @param parts what the passes wrote, but for empty texts
 * @param length of all parts
 * @param needsScope whether a step reads a slot that entering the body sets
 * @param isComplete whether a pass came to its end
 * @param work of the passes but for that of the steps, by the account of {@link Render#work}
 */
@SuppressWarnings("ArrayRecordComponent") // compared nowhere
record Stretch(
    Stmt.Loop loop,
    boolean isLong,
    KnownItem[] items,
    Trace[] traces,
    int start,
    @Nullable KnownItem next,
    @Nullable List<Step> steps,
    List<Expr> scalars,
    String[] parts,
    long length,
    boolean needsScope,
    boolean isComplete,
    long work) {

  /** Says that there is none of these traces. */
  static Stretch none(Stmt.Loop loop, boolean isLong, Trace[] traces) {
    String[] nothing = {};
    KnownItem[] nobody = {};
    return new Stretch(
        loop, isLong, nobody, traces, -1, null, null, List.of(), nothing, 0, false, false, 0);
  }

  /** What is left to do of several passes. */
  sealed interface Step {}

  /**
   * A condition that is the same in each pass.
   *
   * @param count of the passes that evaluate it
   */
  record Guard(Expr test, boolean outcome, int count) implements Step {}

  /**
   * The order of a pass' number and a number that is the same in each pass; as numbers only grow,
   * it holds in between if it holds at both ends.
   *
   * @param other the number besides the pass' own
   * @param first pass that evaluates it, counted from the start of the stretch
   * @param last pass that evaluates it
   */
  record Order(Expr.Compare test, Expr other, boolean outcome, int count, int first, int last)
      implements Step {}

  /** Something printed that is the same in each pass. */
  record Print(Stmt statement, String text, int count) implements Step {}

  /**
   * A value that nothing reads. It may be a sum or difference with the pass' number, which cannot
   * fail where the rest are whole numbers.
   *
   * @param numbers that must be whole
   */
  record Unread(Expr value, List<Expr> numbers, int count) implements Step {}

  /** A value besides the items that must be what it was: what is made of both is then the same. */
  record Same(Expr expr, Object value) implements Step {}

  /** A constant that a namespace's attribute has in the end. */
  record Set(Expr namespace, String name, Object value) implements Step {}

  /** Whether these items of a list, from an index on, are those of the stretch and one more. */
  @SuppressWarnings("ReferenceEquality") // the same item, not an equal one
  boolean isAt(List<Object> list, int from) {
    int behind = from + items.length;
    if (behind >= list.size() || (next != null && known(list, behind) != next)) {
      return false;
    }
    for (int i = 0; i < items.length; i++) {
      if (known(list, from + i) != items[i]) {
        return false;
      }
    }
    return true;
  }

  static @Nullable KnownItem known(List<Object> list, int index) {
    if (list instanceof KnownItems items) {
      return items.known(index);
    }
    return list.get(index) instanceof PyDict dict ? dict.known() : null;
  }

  /**
   * Follows the stretch; the loop is before its first item.
   *
   * @param scratch for what steps print
   * @param room whether the text may be written
   * @return false when the passes must be made one by one; then nothing has changed but slots of
   *     the body
   */
  boolean follow(Frame frame, @Nullable LoopState state, StringBuilder scratch, boolean room) {
    if (steps == null || !room || (start >= 0 && (state == null || state.index0() + 1 != start))) {
      return false;
    }
    Render render = frame.render;
    long workLeft = render.workLeft();
    long lasting = render.lastingWork();
    int depth = render.depth();
    render.following(true);
    long total;
    try {
      total = work(steps, frame, state, scratch);
    } catch (Render.Unrepeatable | TemplateError _) {
      // Whoever makes the passes one by one comes to it at the right time.
      total = -1;
    }
    render.following(false);
    // Work that lasts was done for the first pass only.
    boolean isSame = total >= 0 && total <= workLeft && render.lastingWork() == lasting;
    render.reset(workLeft, lasting, depth);
    if (isSame) {
      render.work(total);
      for (Step step : steps) {
        if (step instanceof Set(Expr target, String name, Object value)) {
          ((Namespace) target.eval(frame)).attributes.put(name, value);
        }
      }
    }
    return isSame;
  }

  /** The work of all passes; negative when something comes out differently. */
  private long work(
      List<Step> known, Frame frame, @Nullable LoopState state, StringBuilder scratch) {
    if (needsScope) {
      loop.enter().run(frame);
    }
    for (Expr expr : scalars) {
      if (!isScalar(expr.eval(frame))) {
        return -1;
      }
    }
    long total = work;
    for (Step step : known) {
      long before = frame.render.workLeft();
      boolean isSame =
          switch (step) {
            case Guard guard -> guard.test.test(frame) == guard.outcome;
            case Print print -> {
              scratch.setLength(0);
              print.statement.run(frame, scratch);
              yield print.text.contentEquals(scratch);
            }
            case Order order -> holds(order, frame, state);
            case Unread(Expr value, List<Expr> numbers, int _) -> {
              if (!areWhole(numbers, frame)) {
                yield false;
              }
              before = frame.render.workLeft();
              if (state != null) {
                frame.slots[loop.loopSlot()] = state;
              }
              value.eval(frame);
              yield true;
            }
            case Same(Expr expr, Object value) -> value.equals(expr.eval(frame));
            case Set set -> set.namespace.eval(frame) instanceof Namespace;
          };
      if (!isSame) {
        return -1;
      }
      long spent = before - frame.render.workLeft();
      total +=
          switch (step) {
            case Guard guard -> spent * guard.count;
            case Print print -> spent * print.count;
            // At both ends, and the other number by itself.
            case Order order -> spent / 3 * order.count;
            case Unread unread -> spent * unread.count;
            case Same _, Set _ -> 0;
          };
    }
    return total;
  }

  private boolean holds(Order order, Frame frame, @Nullable LoopState state) {
    if (state == null || !(order.other.eval(frame) instanceof Long)) {
      return false;
    }
    frame.slots[loop.loopSlot()] = state;
    return state.testAhead(order.test, frame, order.first) == order.outcome
        && state.testAhead(order.test, frame, order.last) == order.outcome;
  }

  private static boolean areWhole(List<Expr> numbers, Frame frame) {
    for (Expr number : numbers) {
      if (!(number.eval(frame) instanceof Long)) {
        return false;
      }
    }
    return true;
  }

  static boolean isScalar(Object value) {
    return switch (value) {
      case String _, Boolean _, Long _, Double _, None _, Undefined _ -> true;
      default -> false;
    };
  }

  /** Whether it was made from these traces. */
  @SuppressWarnings("ReferenceEquality")
  boolean isOf(Trace[] others) {
    if (traces.length != others.length) {
      return false;
    }
    for (int i = 0; i < traces.length; i++) {
      if (traces[i] != others[i]) {
        return false;
      }
    }
    return true;
  }

  /** The parts as a list. */
  List<String> texts() {
    return Arrays.asList(parts);
  }
}
