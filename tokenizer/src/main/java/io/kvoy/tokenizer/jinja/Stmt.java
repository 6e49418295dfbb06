// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.BitSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.jspecify.annotations.Nullable;

/** A compiled statement. Immutable, shared by all renders. */
abstract class Stmt {

  /** How a statement ended: on to the next one, or out of the loop around it. */
  enum End {
    NEXT,
    BREAK,
    CONTINUE
  }

  abstract End run(Frame frame, StringBuilder out);

  /** Writes what a filter or call block made; Jinja2 fails there when that is no text. */
  private static void appendText(Frame frame, StringBuilder out, Object value) {
    Expr.append(frame, out, StrMethods.text(value));
  }

  /** Statements one after the other. */
  static final class Block extends Stmt {
    final Stmt[] statements;

    Block(Stmt[] statements) {
      this.statements = statements;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      for (Stmt statement : statements) {
        End end = statement.run(frame, out);
        if (end != End.NEXT) {
          return end;
        }
      }
      return End.NEXT;
    }
  }

  /** Text outside of tags. */
  static final class Data extends Stmt {
    private final String text;

    Data(String text) {
      this.text = text;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      Expr.append(frame, out, text);
      return End.NEXT;
    }
  }

  static final class Print extends Stmt {
    final Expr node;

    Print(Expr node) {
      this.node = node;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      node.write(frame, out);
      return End.NEXT;
    }
  }

  static final class Jump extends Stmt {
    private final End end;

    Jump(End end) {
      this.end = end;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      return end;
    }
  }

  static final class If extends Stmt {
    final Expr[] tests;
    final Stmt[] bodies;
    final Stmt otherwise;

    If(Expr[] tests, Stmt[] bodies, Stmt otherwise) {
      this.tests = tests;
      this.bodies = bodies;
      this.otherwise = otherwise;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      for (int i = 0; i < tests.length; i++) {
        if (tests[i].test(frame)) {
          return bodies[i].run(frame, out);
        }
      }
      return otherwise.run(frame, out);
    }
  }

  /** Puts the slots of a scope in order when it is entered. */
  static final class Enter {
    private final int[] slots;
    private final @Nullable String[] resolved;
    private final int[] hops;
    private final int[] outerSlots;

    private static final int NOTHING = -1;

    /** Only slots of {@code function} are a scope's own. */
    static Enter of(Symbols symbols) {
      Map<Symbols.Ident, Symbols.Load> loads = symbols.loads();
      int size = 0;
      for (Symbols.Load load : loads.values()) {
        if (!(load instanceof Symbols.Load.Parameter)) {
          size++;
        }
      }
      Enter enter = new Enter(size);
      int i = 0;
      for (Map.Entry<Symbols.Ident, Symbols.Load> entry : loads.entrySet()) {
        switch (entry.getValue()) {
          case Symbols.Load.Parameter() -> {
            continue;
          }
          case Symbols.Load.Resolve(String name) -> enter.resolved[i] = name;
          case Symbols.Load.Alias(Symbols.Ident outer) -> {
            enter.hops[i] = Compiler.hops(symbols.function, outer.function());
            enter.outerSlots[i] = outer.slot();
          }
          case Symbols.Load.Missing() -> enter.hops[i] = NOTHING;
        }
        enter.slots[i++] = entry.getKey().slot();
      }
      return enter;
    }

    private Enter(int size) {
      slots = new int[size];
      resolved = new @Nullable String[size];
      hops = new int[size];
      outerSlots = new int[size];
    }

    /** Marks which slots hold something settled afterwards; see {@link Settled}. */
    void settle(BitSet settled) {
      for (int i = 0; i < slots.length; i++) {
        boolean isSettled =
            resolved[i] == null
                && (hops[i] == NOTHING || (hops[i] == 0 && settled.get(outerSlots[i])));
        settled.set(slots[i], isSettled);
      }
    }

    /** Whether one of these slots is set. */
    boolean sets(BitSet read) {
      for (int slot : slots) {
        if (read.get(slot)) {
          return true;
        }
      }
      return false;
    }

    void run(Frame frame) {
      for (int i = 0; i < slots.length; i++) {
        String name = resolved[i];
        Object value;
        if (name != null) {
          value = frame.render.resolve(name);
        } else if (hops[i] == NOTHING) {
          value = Frame.MISSING;
        } else {
          value = Expr.at(frame, hops[i]).slots[outerSlots[i]];
        }
        frame.slots[slots[i]] = value;
      }
    }
  }

  /** Where an assignment goes. */
  abstract static class Target {
    abstract void assign(Frame frame, Object value);

    static final class Slot extends Target {
      final int slot;

      Slot(int slot) {
        this.slot = slot;
      }

      @Override
      void assign(Frame frame, Object value) {
        frame.slots[slot] = value;
      }
    }

    static final class Attribute extends Target {
      final Expr namespace;
      final String name;

      Attribute(Expr namespace, String name) {
        this.namespace = namespace;
        this.name = name;
      }

      @Override
      void assign(Frame frame, Object value) {
        if (!(namespace.eval(frame) instanceof Namespace target)) {
          throw TemplateError.runtime();
        }
        target.attributes.put(name, value);
      }
    }

    static final class Unpack extends Target {
      final Target[] items;

      Unpack(Target[] items) {
        this.items = items;
      }

      @Override
      void assign(Frame frame, Object value) {
        Iterator<Object> values = Values.iterate(value);
        Object[] unpacked = new Object[items.length];
        for (int i = 0; i < items.length; i++) {
          if (!values.hasNext()) {
            throw TemplateError.value();
          }
          unpacked[i] = values.next();
        }
        if (values.hasNext()) {
          throw TemplateError.value();
        }
        for (int i = 0; i < items.length; i++) {
          items[i].assign(frame, unpacked[i]);
        }
      }
    }
  }

  static final class Assign extends Stmt {
    final Target target;
    final Expr node;

    Assign(Target target, Expr node) {
      this.target = target;
      this.node = node;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      target.assign(frame, node.eval(frame));
      return End.NEXT;
    }
  }

  /** Runs a body on the side and does something with its text: set, filter. */
  static final class Capture extends Stmt {
    final Enter enter;
    final Stmt body;
    final int textSlot;
    final @Nullable Target target;
    final Expr result;

    /**
     * @param textSlot where the body's text goes
     * @param target where the result goes, null when it is printed
     * @param result what is made of the text
     */
    Capture(Enter enter, Stmt body, int textSlot, @Nullable Target target, Expr result) {
      this.enter = enter;
      this.body = body;
      this.textSlot = textSlot;
      this.target = target;
      this.result = result;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      enter.run(frame);
      StringBuilder text = new StringBuilder();
      End end = body.run(frame, text);
      if (end != End.NEXT) {
        return end;
      }
      frame.slots[textSlot] = text.toString();
      if (target == null) {
        appendText(frame, out, result.eval(frame));
      } else {
        target.assign(frame, result.eval(frame));
      }
      return End.NEXT;
    }
  }

  static final class With extends Stmt {
    final Enter enter;
    final Target[] targets;
    final Expr[] values;
    final Stmt body;

    With(Enter enter, Target[] targets, Expr[] values, Stmt body) {
      this.enter = enter;
      this.targets = targets;
      this.values = values;
      this.body = body;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      enter.run(frame);
      for (int i = 0; i < targets.length; i++) {
        targets[i].assign(frame, values[i].eval(frame));
      }
      return body.run(frame, out);
    }
  }

  /** The condition of a loop, a function of its own that runs as late as an item is asked for. */
  static final class LoopFilter {
    private final Symbols.Function function;
    private final Enter enter;
    private final Target target;
    private final Expr test;

    LoopFilter(Symbols.Function function, Enter enter, Target target, Expr test) {
      this.function = function;
      this.enter = enter;
      this.target = target;
      this.test = test;
    }

    Iterator<Object> apply(Frame outer, Iterator<Object> items) {
      Frame frame = new Frame(outer.render, outer, function.size());
      return new Iterator<>() {
        private boolean entered;
        private @Nullable Object next;

        @Override
        public boolean hasNext() {
          if (!entered) {
            entered = true;
            enter.run(frame);
          }
          while (next == null && items.hasNext()) {
            frame.render.work(1);
            Object item = items.next();
            target.assign(frame, item);
            if (test.test(frame)) {
              next = item;
            }
          }
          return next != null;
        }

        @Override
        public Object next() {
          if (!hasNext()) {
            throw new NoSuchElementException();
          }
          Object item = java.util.Objects.requireNonNull(next);
          next = null;
          return item;
        }
      };
    }
  }

  /**
   * A loop.
   *
   * @param loopSlot -1 when its body has no use for {@code loop}
   * @param common of its traces
   * @param hasFunctions whether its body defines functions; they may be called after a pass, and
   *     see what the pass left in its slots
   * @param keepsLoop whether {@code loop} may be kept beyond a pass
   */
  record Loop(
      Expr iterable,
      @Nullable LoopFilter filter,
      Target target,
      int loopSlot,
      Enter enter,
      Stmt body,
      @Nullable Enter otherwiseEnter,
      Stmt otherwise,
      CommonSteps common,
      boolean hasFunctions,
      boolean keepsLoop) {

    private Object items(Frame frame, Object value) {
      return filter == null ? value : new PyIterator(filter.apply(frame, Values.iterate(value)));
    }

    private End pass(Frame frame, StringBuilder out, Object item) {
      Parts parts = frame.render.parts();
      if (parts != null
          && !hasFunctions
          && parts.takesPasses(out)
          && item instanceof PyDict dict
          && dict.known() != null) {
        return parts.pass(this, frame, dict, dict.known());
      }
      target.assign(frame, item);
      enter.run(frame);
      return body.run(frame, out);
    }

    /**
     * Runs over a list whose items renders may share.
     *
     * @param loop the {@code loop} variable, null when the body has none
     */
    private End run(
        Frame frame, StringBuilder out, Parts parts, List<Object> items, @Nullable LoopState loop) {
      Passes passes = new Passes(this, frame, parts, items, loop);
      boolean complete = false;
      int index = 0;
      while (index < items.size()) {
        Stretch stretch = passes.follow(index);
        if (stretch != null) {
          index += stretch.items().length;
          complete |= stretch.isComplete();
          continue;
        }
        long before = frame.render.workLeft();
        frame.render.work(1);
        if (loop != null) {
          loop.advance();
          frame.slots[loopSlot] = loop;
        }
        parts.forget();
        End end = pass(frame, out, items.get(index));
        passes.passed(index, parts.followed(), parts.spent(), before - frame.render.workLeft());
        if (end == End.BREAK) {
          break;
        }
        complete |= end == End.NEXT;
        index++;
      }
      return complete ? End.NEXT : runOtherwise(frame, out);
    }

    /** Runs over items that the filter let through already. */
    private End run(Frame frame, StringBuilder out, LoopState loop) {
      boolean complete = false;
      Object item;
      while ((item = loop.advance()) != null) {
        frame.render.work(1);
        // Each time anew: a pass may have assigned to the name.
        frame.slots[loopSlot] = loop;
        End end = pass(frame, out, item);
        if (end == End.BREAK) {
          break;
        }
        complete |= end == End.NEXT;
      }
      return complete ? End.NEXT : runOtherwise(frame, out);
    }

    private End run(Frame frame, StringBuilder out, Iterator<Object> items) {
      boolean complete = false;
      while (items.hasNext()) {
        frame.render.work(1);
        End end = pass(frame, out, items.next());
        if (end == End.BREAK) {
          break;
        }
        complete |= end == End.NEXT;
      }
      return complete ? End.NEXT : runOtherwise(frame, out);
    }

    /**
     * Also runs when no pass came to its end, as in Jinja2, where a {@code continue} skips the
     * mark.
     */
    private End runOtherwise(Frame frame, StringBuilder out) {
      if (otherwiseEnter == null) {
        return End.NEXT;
      }
      otherwiseEnter.run(frame);
      return otherwise.run(frame, out);
    }
  }

  static final class For extends Stmt {
    final Loop loop;

    For(Loop loop) {
      this.loop = loop;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      Object items = loop.items(frame, loop.iterable.eval(frame));
      Parts parts = frame.render.parts();
      if (parts != null
          && !loop.hasFunctions
          && parts.takesPasses(out)
          && items instanceof PyList list) {
        LoopState state = loop.loopSlot < 0 ? null : new LoopState(frame.render, items, 0, null);
        return loop.run(frame, out, parts, list.items(), state);
      }
      return loop.loopSlot < 0
          ? loop.run(frame, out, Values.iterate(items))
          : loop.run(frame, out, new LoopState(frame.render, items, 0, null));
    }
  }

  /** A loop whose body can run itself over inner items. */
  static final class RecursiveFor extends Stmt {
    private final Loop loop;
    private final Symbols.Function function;

    RecursiveFor(Loop loop, Symbols.Function function) {
      this.loop = loop;
      this.function = function;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      Expr.append(frame, out, run(frame, loop.iterable.eval(frame), 0));
      return End.NEXT;
    }

    private String run(Frame outer, Object iterable, int depth0) {
      outer.render.enter();
      Frame frame = new Frame(outer.render, outer, function.size());
      Object items = loop.items(outer, iterable);
      StringBuilder out = new StringBuilder();
      LoopState state =
          new LoopState(outer.render, items, depth0, (inner, depth) -> run(outer, inner, depth));
      loop.run(frame, out, state);
      outer.render.leave();
      return out.toString();
    }
  }

  static final class DefineMacro extends Stmt {
    private final Target target;
    private final MacroValue.Code code;

    DefineMacro(Target target, MacroValue.Code code) {
      this.target = target;
      this.code = code;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      target.assign(frame, new MacroValue(code, frame));
      return End.NEXT;
    }
  }

  static final class CallBlock extends Stmt {
    private final MacroValue.Code code;
    private final Expr.@Nullable Call call;

    CallBlock(MacroValue.Code code, Expr.@Nullable Call call) {
      this.code = code;
      this.call = call;
    }

    @Override
    End run(Frame frame, StringBuilder out) {
      MacroValue body = new MacroValue(code, frame);
      Object result =
          call == null ? body.call(frame.render, Args.NONE) : call.evalWithCaller(frame, body);
      appendText(frame, out, result);
      return End.NEXT;
    }
  }
}
