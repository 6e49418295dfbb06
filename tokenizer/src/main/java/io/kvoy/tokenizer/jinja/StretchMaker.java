// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Puts the traces of several passes in a row together to a {@link Stretch}. Only steps whose values
 * are plainly the same in all of these passes, or settled by the items and their places, can be;
 * with any other one there is no stretch. Belongs to one stretch in the making.
 */
final class StretchMaker {
  /** What a value hangs on, as bits; 0 for constants. */
  private static final int SAME = 1;

  /** The number of the pass. */
  private static final int PLACE = 2;

  /** The item, or others of the stretch. */
  private static final int ITEM = 4;

  private static final int ANYTHING = 8;

  /** Longer texts are a request's own more often than not, and would have to be kept. */
  private static final int MAX_SAME_CHARS = 256;

  private static final Set<Node.Comparison> ORDERS =
      Set.of(
          Node.Comparison.LESS,
          Node.Comparison.LESS_EQUAL,
          Node.Comparison.GREATER,
          Node.Comparison.GREATER_EQUAL);

  private record Attribute(int slot, String name) {}

  private final Stmt.Loop loop;
  private final Map<Object, Stretch.Step> steps = new LinkedHashMap<>();
  private final Map<Attribute, Object> assigned = new LinkedHashMap<>();
  private final Map<String, Integer> assignedSlots = new HashMap<>();

  /** Values that must stay what they are, by slot or by attribute. */
  private final Map<Object, Expr> same = new LinkedHashMap<>();

  /** Those that the expression at hand reads. */
  private final Map<Object, Expr> read = new LinkedHashMap<>();

  private final Set<Expr> scalars = Collections.newSetFromMap(new IdentityHashMap<>());

  /** Slots that the item of the pass at hand settles. */
  private final BitSet settled = new BitSet();

  private int pass;
  private boolean needsPlace;
  private boolean needsNext;
  private long workOfSteps;

  private StretchMaker(Stmt.Loop loop) {
    this.loop = loop;
  }

  /**
   * @param frame after the passes
   * @param items of the passes
   * @param next the item behind them
   * @param start number of the first pass
   * @param traces that were followed, one for each pass
   * @param spent work of each step of each trace
   * @param work of all passes
   */
  static Stretch make(
      Stmt.Loop loop,
      boolean isLong,
      Frame frame,
      KnownItem[] items,
      @Nullable KnownItem next,
      int start,
      Trace[] traces,
      long[][] spent,
      long work) {
    StretchMaker maker = new StretchMaker(loop);
    boolean fits = loop.loopSlot() < 0 || !loop.keepsLoop();
    boolean needsScope = false;
    boolean isComplete = false;
    long length = 0;
    List<String> parts = new ArrayList<>();
    for (int i = 0; i < traces.length && fits; i++) {
      Trace trace = traces[i];
      fits = trace.end() != Stmt.End.BREAK && maker.add(trace, spent[i]);
      needsScope |= trace.needsScope();
      isComplete |= trace.end() == Stmt.End.NEXT;
      length += trace.length();
      if (trace.length() > 0) {
        parts.add(trace.text());
      }
    }
    if (!fits || (maker.needsNext && next == null) || !maker.addSame(frame)) {
      return Stretch.none(loop, isLong, traces);
    }
    maker.assigned.forEach(
        (attribute, value) ->
            maker.steps.put(
                attribute, new Stretch.Set(new Expr.Local(attribute.slot), attribute.name, value)));
    return new Stretch(
        loop,
        isLong,
        items,
        traces,
        maker.needsPlace ? start : -1,
        maker.needsNext ? next : null,
        List.copyOf(maker.steps.values()),
        maker.assigned.isEmpty() ? List.of() : List.copyOf(maker.scalars),
        parts.toArray(String[]::new),
        length,
        needsScope,
        isComplete,
        work - maker.workOfSteps);
  }

  /** Notes the values that must stay what they are; they are so at the end of the passes. */
  private boolean addSame(Frame frame) {
    if (same.isEmpty()) {
      return true;
    }
    loop.enter().run(frame);
    for (Map.Entry<Object, Expr> entry : same.entrySet()) {
      if (entry.getKey() instanceof Attribute(int _, String name)
          && assignedSlots.containsKey(name)) {
        return false;
      }
      Object value;
      try {
        value = entry.getValue().eval(frame);
      } catch (TemplateError _) {
        return false;
      }
      if (!Stretch.isScalar(value)
          || (value instanceof String text && text.length() > MAX_SAME_CHARS)) {
        return false;
      }
      steps.put(entry.getKey(), new Stretch.Same(entry.getValue(), value));
    }
    return true;
  }

  /** Whether a value is settled, perhaps by other values that can be asked to be the same. */
  private boolean settle(int kind) {
    needsPlace |= (kind & PLACE) != 0;
    if (isSettled(kind)) {
      return true;
    }
    same.putAll(read);
    return (kind & ANYTHING) == 0;
  }

  private boolean add(Trace trace, long[] spent) {
    settled.clear();
    if (!Settled.settle(loop.target(), settled)) {
      return false;
    }
    List<Trace.Step> all = trace.steps();
    for (int i = 0; i < all.size(); i++) {
      boolean fits =
          switch (all.get(i)) {
            case Trace.Guard(Expr test, boolean outcome) -> addGuard(test, outcome, spent[i]);
            case Trace.Reprint(Stmt statement, String text) ->
                addPrint((Stmt.Print) statement, text, spent[i]);
            case Trace.Restore(int slot, Object _) -> {
              settled.set(slot);
              yield true;
            }
            case Trace.Rerun(Stmt.Assign assign) ->
                addAssign(assign, all.subList(i + 1, all.size()), spent[i]);
          };
      if (!fits) {
        return false;
      }
    }
    pass++;
    return true;
  }

  private boolean addGuard(Expr test, boolean outcome, long spent) {
    if (test instanceof Expr.Compare compare) {
      Expr other = comparedWithPass(compare);
      if (other != null) {
        return addOrder(compare, other, outcome, spent);
      }
    }
    int kind = kindOf(test);
    if (kind != SAME) {
      return settle(kind);
    }
    workOfSteps += spent;
    return switch (steps.get(test)) {
      case null -> {
        steps.put(test, new Stretch.Guard(test, outcome, 1));
        yield true;
      }
      case Stretch.Guard(Expr _, boolean before, int count) -> {
        steps.put(test, new Stretch.Guard(test, outcome, count + 1));
        yield before == outcome;
      }
      default -> false;
    };
  }

  /** What the pass' number is put in an order with; null when the comparison is another one. */
  private @Nullable Expr comparedWithPass(Expr.Compare test) {
    if (test.operands.length != 1 || !ORDERS.contains(test.comparisons[0])) {
      return null;
    }
    if (isNumberOfPass(test.left) && kind(test.operands[0]) == SAME) {
      return test.operands[0];
    }
    return isNumberOfPass(test.operands[0]) && kind(test.left) == SAME ? test.left : null;
  }

  private boolean addOrder(Expr.Compare test, Expr other, boolean outcome, long spent) {
    workOfSteps += spent;
    return switch (steps.get(test)) {
      case null -> {
        steps.put(test, new Stretch.Order(test, other, outcome, 1, pass, pass));
        yield true;
      }
      case Stretch.Order(_, _, boolean before, int count, int first, int _) -> {
        steps.put(test, new Stretch.Order(test, other, outcome, count + 1, first, pass));
        yield before == outcome;
      }
      default -> false;
    };
  }

  private boolean isNumberOfPass(Expr expr) {
    return expr instanceof Expr.Attribute attribute
        && attribute.node instanceof Expr.Local local
        && local.slot == loop.loopSlot()
        && (attribute.name.equals("index0") || attribute.name.equals("index"));
  }

  private boolean addPrint(Stmt.Print print, String text, long spent) {
    int kind = kindOf(print.node);
    if (kind != SAME) {
      return settle(kind);
    }
    workOfSteps += spent;
    return switch (steps.get(print)) {
      case null -> {
        steps.put(print, new Stretch.Print(print, text, 1));
        yield true;
      }
      case Stretch.Print(Stmt _, String before, int count) -> {
        steps.put(print, new Stretch.Print(print, text, count + 1));
        yield before.equals(text);
      }
      default -> false;
    };
  }

  private boolean addAssign(Stmt.Assign assign, List<Trace.Step> later, long spent) {
    return switch (assign.target) {
      case Stmt.Target.Slot target -> {
        if (!isRead(target.slot, later)) {
          yield addUnread(assign.node, spent);
        }
        int kind = kindOf(assign.node);
        settled.set(target.slot);
        yield settle(kind);
      }
      case Stmt.Target.Attribute target -> {
        if (!(target.namespace instanceof Expr.Local local)
            || local.slot == loop.loopSlot()
            || settled.get(local.slot)
            || !(assign.node instanceof Expr.Const constant)) {
          yield false;
        }
        Integer before = assignedSlots.putIfAbsent(target.name, local.slot);
        assigned.put(new Attribute(local.slot, target.name), constant.value);
        yield before == null || before == local.slot;
      }
      default -> false;
    };
  }

  private static boolean isRead(int slot, List<Trace.Step> steps) {
    BitSet read = new BitSet();
    for (Trace.Step step : steps) {
      switch (step) {
        case Trace.Guard(Expr test, boolean _) -> Settled.addReads(test, read);
        case Trace.Reprint(Stmt statement, String _) ->
            Settled.addReads(((Stmt.Print) statement).node, read);
        case Trace.Rerun(Stmt.Assign assign) -> {
          Settled.addReads(assign.node, read);
          if (assign.target instanceof Stmt.Target.Attribute target) {
            Settled.addReads(target.namespace, read);
          }
        }
        case Trace.Restore _ -> {}
      }
    }
    return read.get(slot);
  }

  private boolean addUnread(Expr value, long spent) {
    int kind = kindOf(value);
    List<Expr> numbers = new ArrayList<>();
    if (kind != SAME && ((kind & PLACE) == 0 || !addNumbers(value, numbers))) {
      kindOf(value);
      return settle(kind);
    }
    workOfSteps += spent;
    int count =
        steps.get(value) instanceof Stretch.Unread(Expr _, List<Expr> _, int before)
            ? before + 1
            : 1;
    steps.put(value, new Stretch.Unread(value, List.copyOf(numbers), count));
    return true;
  }

  /** What a sum is made of but for the pass' number; false when it is none. */
  private boolean addNumbers(Expr expr, List<Expr> numbers) {
    if (isNumberOfPass(expr)
        || (expr instanceof Expr.Const constant && constant.value instanceof Long)) {
      return true;
    }
    if (expr instanceof Expr.Sum
        || (expr instanceof Expr.Binary binary
            && (binary.operator == Node.BinaryOperator.SUBTRACT
                || binary.operator == Node.BinaryOperator.ADD))) {
      for (Expr part : expr.parts()) {
        if (!addNumbers(part, numbers)) {
          return false;
        }
      }
      return true;
    }
    numbers.add(expr);
    return kind(expr) == SAME;
  }

  private static boolean isSettled(int kind) {
    return (kind & (SAME | ANYTHING)) == 0;
  }

  private int kindOf(Expr expr) {
    read.clear();
    return kind(expr);
  }

  private int kind(Expr expr) {
    return switch (expr) {
      case Expr.Const _ -> 0;
      case Expr.Local local -> kindOfSlot(local);
      case Expr.Outer _, Expr.Fail _ -> ANYTHING;
      case Expr.Attribute attribute when attribute.node instanceof Expr.Local local ->
          local.slot == loop.loopSlot()
              ? kindOfLoop(attribute.name)
              : kindOfAttribute(attribute, local);
      default -> {
        int kind = 0;
        for (Expr part : expr.parts()) {
          kind |= kind(part);
        }
        yield kind;
      }
    };
  }

  private int kindOfSlot(Expr.Local local) {
    if (settled.get(local.slot)) {
      return ITEM;
    }
    if (local.slot == loop.loopSlot()) {
      return ANYTHING;
    }
    scalars.add(local);
    read.put(local.slot, local);
    return SAME;
  }

  private int kindOfLoop(String name) {
    return switch (name) {
      case "index0", "index", "first" -> PLACE;
      // One more item comes behind the stretch.
      case "last", "depth", "depth0" -> ITEM;
      case "nextitem" -> {
        needsNext = true;
        yield ITEM;
      }
      case "previtem" -> pass > 0 ? ITEM : ANYTHING;
      default -> ANYTHING;
    };
  }

  private int kindOfAttribute(Expr.Attribute attribute, Expr.Local local) {
    if (settled.get(local.slot)) {
      return ITEM;
    }
    Integer slot = assignedSlots.get(attribute.name);
    if (slot != null) {
      return slot == local.slot ? ITEM : ANYTHING;
    }
    scalars.add(attribute);
    read.put(new Attribute(local.slot, attribute.name), attribute);
    return SAME;
  }
}
