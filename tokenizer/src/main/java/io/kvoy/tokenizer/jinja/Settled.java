// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.BitSet;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * What a loop's item settles: expressions and statements that give the same whenever the body runs
 * for an equal item, whatever is around it. They know nothing but constants and the slots given as
 * settled, and call nothing but what hangs on such values.
 *
 * <p>All methods take a {@link BitSet} of the frame's slots whose values are settled.
 */
final class Settled {
  /**
   * Filters that leave their value as it is. Others may use up an iterator, and then a second
   * evaluation gives something else.
   */
  private static final Set<Filters.Filter> REPEATABLE =
      Stream.of("count", "d", "default", "int", "length", "lower", "string", "trim", "upper")
          .map(Filters::find)
          .collect(Collectors.toUnmodifiableSet());

  private static final Tests.Test IN = Objects.requireNonNull(Tests.find("in"));

  private Settled() {}

  static boolean isSettled(Expr expr, BitSet slots) {
    return switch (expr) {
      case Expr.Local local -> slots.get(local.slot);
      case Expr.Outer _, Expr.Fail _ -> false;
      default -> {
        for (Expr part : expr.parts()) {
          if (!isSettled(part, slots)) {
            yield false;
          }
        }
        yield true;
      }
    };
  }

  /** Whether an expression may be evaluated once more without anybody noticing. */
  static boolean isRepeatable(Expr expr) {
    boolean isHarmless =
        switch (expr) {
          case Expr.Call _, Expr.Fail _ -> false;
          case Expr.Filter filter ->
              REPEATABLE.contains(filter.filter) && !filter.arguments.hasStars();
          case Expr.MethodCall call -> !call.name.equals("join") && !call.arguments.hasStars();
          // The test looks inside as the operator does.
          case Expr.Test test -> !test.arguments.hasStars() && !test.test.equals(IN);
          case Expr.Compare compare -> !mayUseUp(compare);
          default -> true;
        };
    if (!isHarmless) {
      return false;
    }
    for (Expr part : expr.parts()) {
      if (!isRepeatable(part)) {
        return false;
      }
    }
    return true;
  }

  /** {@code x in iterator} takes items from it. */
  private static boolean mayUseUp(Expr.Compare compare) {
    for (int i = 0; i < compare.comparisons.length; i++) {
      boolean looksInside =
          compare.comparisons[i] == Node.Comparison.IN
              || compare.comparisons[i] == Node.Comparison.NOT_IN;
      boolean isFixed =
          compare.operands[i] instanceof Expr.Const
              || compare.operands[i] instanceof Expr.ListOf
              || compare.operands[i] instanceof Expr.DictOf;
      if (looksInside && !isFixed) {
        return true;
      }
    }
    return false;
  }

  /** Adds the frame's slots that an expression reads. */
  static void addReads(Expr expr, BitSet slots) {
    if (expr instanceof Expr.Local local) {
      slots.set(local.slot);
    }
    for (Expr part : expr.parts()) {
      addReads(part, slots);
    }
  }

  /**
   * Whether a statement writes and binds the same whenever it runs. Slots that it surely binds to
   * settled values are added.
   */
  static boolean isSettled(Stmt statement, BitSet slots) {
    return switch (statement) {
      case Stmt.Data _, Stmt.Jump _ -> true;
      case Stmt.Print print -> isSettled(print.node, slots);
      case Stmt.Block block -> {
        for (Stmt inner : block.statements) {
          if (!isSettled(inner, slots)) {
            yield false;
          }
        }
        yield true;
      }
      case Stmt.If branch -> isSettledIf(branch, slots);
      case Stmt.Assign assign -> isSettled(assign.node, slots) && settle(assign.target, slots);
      case Stmt.Capture capture -> {
        BitSet inside = copy(slots);
        capture.enter.settle(inside);
        if (!isSettled(capture.body, inside)) {
          yield false;
        }
        inside.set(capture.textSlot);
        yield isSettled(capture.result, inside)
            && (capture.target == null || settle(capture.target, slots));
      }
      case Stmt.With with -> {
        BitSet inside = copy(slots);
        with.enter.settle(inside);
        for (Expr value : with.values) {
          if (!isSettled(value, slots)) {
            yield false;
          }
        }
        for (Stmt.Target target : with.targets) {
          if (!settle(target, inside)) {
            yield false;
          }
        }
        yield isSettled(with.body, inside);
      }
      case Stmt.For loop -> isSettledFor(loop.loop, slots);
      // Macros, recursive loops, call blocks.
      default -> false;
    };
  }

  private static boolean isSettledIf(Stmt.If branch, BitSet slots) {
    for (Expr test : branch.tests) {
      if (!isSettled(test, slots)) {
        return false;
      }
    }
    // Which branch is taken is settled too, but not known here: only what all of them bind counts.
    BitSet surely = copy(slots);
    if (!isSettled(branch.otherwise, surely)) {
      return false;
    }
    for (Stmt body : branch.bodies) {
      BitSet inside = copy(slots);
      if (!isSettled(body, inside)) {
        return false;
      }
      surely.and(inside);
    }
    slots.clear();
    slots.or(surely);
    return true;
  }

  private static boolean isSettledFor(Stmt.Loop loop, BitSet slots) {
    if (loop.filter() != null || !isSettled(loop.iterable(), slots)) {
      return false;
    }
    BitSet inside = copy(slots);
    if (!settle(loop.target(), inside)) {
      return false;
    }
    if (loop.loopSlot() >= 0) {
      inside.set(loop.loopSlot());
    }
    loop.enter().settle(inside);
    if (!isSettled(loop.body(), inside)) {
      return false;
    }
    if (loop.otherwiseEnter() == null) {
      return true;
    }
    BitSet otherwise = copy(slots);
    loop.otherwiseEnter().settle(otherwise);
    return isSettled(loop.otherwise(), otherwise);
  }

  /** Marks the slots of a target; false when it is not made of slots. */
  static boolean settle(Stmt.Target target, BitSet slots) {
    return switch (target) {
      case Stmt.Target.Slot slot -> {
        slots.set(slot.slot);
        yield true;
      }
      case Stmt.Target.Unpack unpack -> {
        for (Stmt.Target item : unpack.items) {
          if (!settle(item, slots)) {
            yield false;
          }
        }
        yield true;
      }
      default -> false;
    };
  }

  private static BitSet copy(BitSet slots) {
    BitSet copy = new BitSet();
    copy.or(slots);
    return copy;
  }
}
