// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One pass of a loop over one item, as it went once: what it wrote, and what that hung on besides
 * the item. A later render follows the trace instead of running the body: it evaluates only what
 * the item does not settle, in the order in which the body would, and leaves the trace at the first
 * value that came out differently.
 *
 * <p>Immutable, shared by all renders.
 *
 * @param loop whose body ran
 * @param steps in the order of the body
 * @param text what the pass wrote
 * @param length of the text: long conversations are cheap by not touching it
 * @param end how the pass ended
 * @param needsScope whether a step reads a slot that entering the body sets
 * @param work of the body but for the steps, by the account of {@link Render#work}
 */
record Trace(
    Stmt.Loop loop,
    List<Step> steps,
    String text,
    int length,
    Stmt.End end,
    boolean needsScope,
    long work) {

  /** What is left to do of a body. */
  sealed interface Step {}

  /** A condition that must hold or fail as it did. */
  record Guard(Expr test, boolean outcome) implements Step {}

  /** Something printed that must come out as it did. */
  record Reprint(Stmt statement, String text) implements Step {}

  /** A variable that the item settles, for the steps behind. */
  record Restore(int slot, Object value) implements Step {}

  /** An assignment that is done anew. */
  record Rerun(Stmt.Assign statement) implements Step {}

  /** Characters that are kept for it; a text that is kept twice counts twice. */
  long chars() {
    long chars = length;
    for (Step step : steps) {
      chars +=
          switch (step) {
            case Reprint(Stmt _, String printed) -> printed.length();
            case Restore(int _, Object value) -> value instanceof String kept ? kept.length() : 0;
            case Guard _, Rerun _ -> 0;
          };
    }
    return chars;
  }

  /**
   * Follows the trace.
   *
   * @param scratch for what steps print
   * @param spent takes the work of each step
   * @return false when the body must run after all; then nothing has changed but slots of the body
   * @throws TemplateError that the body would end with
   */
  boolean follow(Frame frame, StringBuilder scratch, long[] spent) {
    if (steps.isEmpty()) {
      return true;
    }
    Render render = frame.render;
    long workLeft = render.workLeft();
    long lasting = render.lastingWork();
    int depth = render.depth();
    Undo undo = new Undo();
    render.following(true);
    boolean isSame;
    try {
      isSame = follow(frame, scratch, spent, undo);
    } catch (Render.Unrepeatable _) {
      isSame = false;
    } catch (TemplateError error) {
      if (render.workLeft() >= work) {
        throw error;
      }
      // The body may come to the end of its work before it comes to this error.
      isSame = false;
    }
    render.following(false);
    if (!isSame) {
      undo.run();
      // The body does the same work once more.
      render.reset(workLeft, lasting, depth);
    }
    return isSame;
  }

  private boolean follow(Frame frame, StringBuilder scratch, long[] spent, Undo undo) {
    for (int i = 0; i < steps.size(); i++) {
      Step step = steps.get(i);
      long before = frame.render.workLeft();
      boolean isSame =
          switch (step) {
            case Guard(Expr test, boolean outcome) -> test.test(frame) == outcome;
            case Reprint(Stmt statement, String expected) -> {
              scratch.setLength(0);
              statement.run(frame, scratch);
              yield expected.contentEquals(scratch);
            }
            case Restore(int slot, Object value) -> {
              frame.slots[slot] = value;
              yield true;
            }
            case Rerun(Stmt.Assign statement) -> {
              if (statement.target instanceof Stmt.Target.Attribute target) {
                undo.note(target, frame);
              }
              statement.run(frame, scratch);
              yield true;
            }
          };
      if (!isSame) {
        return false;
      }
      spent[i] = before - frame.render.workLeft();
    }
    return true;
  }

  /** The namespaces' attributes before they were assigned; nothing else outlives a pass. */
  private static final class Undo {
    private record Before(Namespace namespace, String name, @Nullable Object value) {}

    private List<Before> before = List.of();

    void note(Stmt.Target.Attribute target, Frame frame) {
      if (target.namespace.eval(frame) instanceof Namespace namespace) {
        before = before.isEmpty() ? new ArrayList<>() : before;
        before.add(new Before(namespace, target.name, namespace.attributes.get(target.name)));
      }
    }

    void run() {
      for (Before last : before.reversed()) {
        if (last.value == null) {
          last.namespace.attributes.remove(last.name);
        } else {
          last.namespace.attributes.put(last.name, last.value);
        }
      }
    }
  }
}
