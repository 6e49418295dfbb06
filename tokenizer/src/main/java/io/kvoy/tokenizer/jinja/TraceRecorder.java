// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Runs the body of a loop once, exactly as it would run anyway, and notes a {@link Trace}. Where
 * the body does something that a trace cannot tell, it just runs on and no trace comes of it.
 * Belongs to one pass.
 */
final class TraceRecorder {
  /** A body that needs more is rare, and better run than followed. */
  static final int MAX_STEPS = 64;

  private final Frame frame;
  private final StringBuilder out;
  private final BitSet settled = new BitSet();
  private final List<Trace.Step> steps = new ArrayList<>();
  private final BitSet reads = new BitSet();
  private final long workBefore;
  private long workOfSteps;
  private boolean failed;

  /**
   * @param out where the pass writes; empty
   */
  TraceRecorder(Frame frame, StringBuilder out) {
    this.frame = frame;
    this.out = out;
    this.workBefore = frame.render.workLeft();
  }

  /** Runs the body; its target and scope are set. */
  Stmt.End run(Stmt.Loop loop) {
    failed = !Settled.settle(loop.target(), settled);
    return run(loop.body());
  }

  /** What came of it; null when the pass cannot be told. */
  @Nullable Trace trace(Stmt.Loop loop, String text, Stmt.End end) {
    if (failed || steps.size() > MAX_STEPS) {
      return null;
    }
    long work = workBefore - frame.render.workLeft() - workOfSteps;
    List<Trace.Step> needed = loop.common().same(needed());
    return new Trace(loop, needed, text, text.length(), end, loop.enter().sets(reads), work);
  }

  /** The steps without variables that no later step reads. */
  private List<Trace.Step> needed() {
    BitSet read = new BitSet();
    List<Trace.Step> needed = new ArrayList<>();
    for (Trace.Step step : steps.reversed()) {
      switch (step) {
        case Trace.Restore(int slot, Object _) -> {
          if (!read.get(slot)) {
            continue;
          }
        }
        case Trace.Guard(Expr test, boolean _) -> Settled.addReads(test, read);
        case Trace.Reprint(Stmt statement, String _) ->
            Settled.addReads(((Stmt.Print) statement).node, read);
        case Trace.Rerun(Stmt.Assign statement) -> addReads(statement, read);
      }
      needed.add(step);
    }
    reads.or(read);
    return List.copyOf(needed.reversed());
  }

  private static void addReads(Stmt.Assign statement, BitSet read) {
    Settled.addReads(statement.node, read);
    if (statement.target instanceof Stmt.Target.Attribute target) {
      Settled.addReads(target.namespace, read);
    }
  }

  private Stmt.End run(Stmt statement) {
    if (failed) {
      return statement.run(frame, out);
    }
    return switch (statement) {
      case Stmt.Block block -> {
        for (Stmt inner : block.statements) {
          Stmt.End end = run(inner);
          if (end != Stmt.End.NEXT) {
            yield end;
          }
        }
        yield Stmt.End.NEXT;
      }
      case Stmt.If branch -> {
        for (int i = 0; i < branch.tests.length; i++) {
          if (decide(branch.tests[i])) {
            yield run(branch.bodies[i]);
          }
        }
        yield run(branch.otherwise);
      }
      case Stmt.Print print -> runPrint(print);
      case Stmt.Assign assign -> runAssign(assign);
      default -> runOther(statement);
    };
  }

  /** The outcome of a condition; only the parts that the item does not settle become guards. */
  private boolean decide(Expr test) {
    if (failed || Settled.isSettled(test, settled)) {
      return test.test(frame);
    }
    return switch (test) {
      case Expr.Or or -> decide(or.left) || decide(or.right);
      case Expr.And and -> decide(and.left) && decide(and.right);
      case Expr.Not not -> !decide(not.node);
      default -> {
        failed = !Settled.isRepeatable(test);
        long before = frame.render.workLeft();
        int calls = frame.render.calls();
        boolean outcome = test.test(frame);
        failed |= frame.render.calls() > calls;
        workOfSteps += before - frame.render.workLeft();
        steps.add(new Trace.Guard(test, outcome));
        yield outcome;
      }
    };
  }

  private Stmt.End runPrint(Stmt.Print print) {
    if (Settled.isSettled(print.node, settled)) {
      return print.run(frame, out);
    }
    failed = !Settled.isRepeatable(print.node);
    int start = out.length();
    long before = frame.render.workLeft();
    int calls = frame.render.calls();
    Stmt.End end = print.run(frame, out);
    failed |= frame.render.calls() > calls;
    workOfSteps += before - frame.render.workLeft();
    steps.add(new Trace.Reprint(print, out.substring(start)));
    return end;
  }

  private Stmt.End runAssign(Stmt.Assign assign) {
    boolean isSettled = Settled.isSettled(assign.node, settled);
    if (isSettled && assign.target instanceof Stmt.Target.Slot target) {
      long before = frame.render.workLeft();
      Stmt.End end = assign.run(frame, out);
      Object value = frame.slots[target.slot];
      settled.set(target.slot);
      if (isShareable(value)) {
        steps.add(new Trace.Restore(target.slot, value));
      } else {
        failed = !isUnpacked(value);
        workOfSteps += before - frame.render.workLeft();
        steps.add(new Trace.Rerun(assign));
      }
      return end;
    }
    failed =
        !Settled.isRepeatable(assign.node)
            || assign.target instanceof Stmt.Target.Unpack
            || (assign.target instanceof Stmt.Target.Attribute attribute
                && !Settled.isRepeatable(attribute.namespace));
    long before = frame.render.workLeft();
    int calls = frame.render.calls();
    Stmt.End end = assign.run(frame, out);
    failed |= frame.render.calls() > calls;
    workOfSteps += before - frame.render.workLeft();
    if (assign.target instanceof Stmt.Target.Slot target) {
      settled.clear(target.slot);
    }
    steps.add(new Trace.Rerun(assign));
    return end;
  }

  private Stmt.End runOther(Stmt statement) {
    failed = !Settled.isSettled(statement, settled);
    Stmt.End end = statement.run(frame, out);
    if (!failed
        && statement instanceof Stmt.Capture capture
        && capture.target instanceof Stmt.Target.Slot target) {
      Object value = frame.slots[target.slot];
      failed = !isShareable(value);
      steps.add(new Trace.Restore(target.slot, value));
    } else if (statement instanceof Stmt.Capture capture && capture.target != null) {
      failed = true;
    }
    return end;
  }

  /** Whether it is a piece of the item, to be taken anew from the next render's. */
  private static boolean isUnpacked(Object value) {
    return (value instanceof PyDict dict && dict.json() != null)
        || (value instanceof PyList list && list.json() != null);
  }

  /**
   * Whether renders of other threads may have that value: it never changes, and is nothing that
   * templates tell from an equal one, as they do floats. Dicts and lists unpack themselves on first
   * use, iterators are used up.
   */
  private static boolean isShareable(Object value) {
    return switch (value) {
      case String _, Boolean _, Long _, None _, Undefined _, Markup _ -> true;
      default -> false;
    };
  }
}
