// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * The passes of a loop over a list that may have known items: follows {@link Stretch}es where there
 * are any, and makes them of passes that followed traces. A stretch goes from an item that {@link
 * KnownItem#leads} to the next such item: a short one from one that leads at all, a long one, made
 * once the short ones inside of it are there, from one that leads a long one. Belongs to one run of
 * one loop.
 */
final class Passes {
  /** Longer ones would be lost too often. */
  private static final int MAX_SHORT = 32;

  private static final int MAX_LONG = 128;

  private final Stmt.Loop loop;
  private final Frame frame;
  private final Parts parts;
  private final List<Object> items;
  private final @Nullable LoopState state;
  private final Open openShort = new Open(false, MAX_SHORT);
  private final Open openLong = new Open(true, MAX_LONG);

  Passes(Stmt.Loop loop, Frame frame, Parts parts, List<Object> items, @Nullable LoopState state) {
    this.loop = loop;
    this.frame = frame;
    this.parts = parts;
    this.items = items;
    this.state = state;
  }

  /** The stretch that leads on from an item; null when there is none or it cannot be followed. */
  @Nullable Stretch follow(int from) {
    KnownItem first = Stretch.known(items, from);
    if (first == null || first.leads() == KnownItem.Leads.NONE) {
      return null;
    }
    openShort.close(from);
    if (first.leads() == KnownItem.Leads.LONG) {
      openLong.close(from);
      Stretch stretch = first.stretch(loop, true);
      if (stretch == null && areShortOnesThere(from)) {
        openLong.open(from);
      } else if (stretch != null && follow(stretch, first, from)) {
        return stretch;
      }
    }
    if (openLong.isOpen()) {
      // Made of passes that follow their traces one by one.
      return null;
    }
    Stretch stretch = first.stretch(loop, false);
    return stretch != null && follow(stretch, first, from) ? stretch : null;
  }

  private boolean follow(Stretch stretch, KnownItem first, int from) {
    if (stretch.steps() == null || !stretch.isAt(items, from)) {
      return false;
    }
    if (!parts.follow(stretch, frame, state)) {
      // Its passes will go another way, and what they wrote so far is not to be kept.
      first.forget(stretch);
      return false;
    }
    if (state != null) {
      state.skip(items, stretch.items().length);
    }
    return true;
  }

  /** Whether short stretches lead from an item to the next one that leads a long one. */
  private boolean areShortOnesThere(int from) {
    int at = from;
    do {
      KnownItem first = Objects.requireNonNull(Stretch.known(items, at));
      Stretch stretch = first.stretch(loop, false);
      if (stretch == null || stretch.steps() == null || !stretch.isAt(items, at)) {
        return false;
      }
      at += stretch.items().length;
      KnownItem next = Stretch.known(items, at);
      if (next == null || next.leads() == KnownItem.Leads.NONE) {
        return false;
      }
      if (next.leads() == KnownItem.Leads.LONG) {
        return at - from <= MAX_LONG;
      }
    } while (at - from < MAX_LONG);
    return false;
  }

  /**
   * Takes note of a pass.
   *
   * @param followed its trace, null when it had none
   * @param spent work of each step of it
   * @param work all of it
   */
  void passed(int index, @Nullable Trace followed, long[] spent, long work) {
    KnownItem known = Stretch.known(items, index);
    if (followed == null || known == null) {
      openShort.start = -1;
      openLong.start = -1;
      return;
    }
    if (known.leads() != KnownItem.Leads.NONE) {
      openShort.open(index);
    }
    openShort.add(index, followed, spent, work);
    openLong.add(index, followed, spent, work);
  }

  /** A stretch in the making. */
  private final class Open {
    private final boolean isLong;
    private final int max;

    /** Index of its first item, or -1. */
    private int start = -1;

    private Trace[] traces = {};
    private long[][] spent = {};
    private long work;

    Open(boolean isLong, int max) {
      this.isLong = isLong;
      this.max = max;
    }

    boolean isOpen() {
      return start >= 0;
    }

    void open(int index) {
      start = index;
      work = 0;
      if (traces.length == 0) {
        traces = new Trace[max];
        spent = new long[max][];
      }
    }

    void add(int index, Trace followed, long[] spentBySteps, long workOfPass) {
      if (start < 0) {
        return;
      }
      int pass = index - start;
      if (pass == max) {
        start = -1;
        return;
      }
      traces[pass] = followed;
      spent[pass] = Arrays.copyOf(spentBySteps, followed.steps().size());
      work += workOfPass;
    }

    /** Before the pass of the item at the end: what that changes is not part of it. */
    void close(int end) {
      if (start < 0) {
        return;
      }
      KnownItem[] known = new KnownItem[end - start];
      for (int i = 0; i < known.length; i++) {
        known[i] = Objects.requireNonNull(Stretch.known(items, start + i));
      }
      Trace[] followed = Arrays.copyOf(traces, known.length);
      Stretch before = known[0].stretch(loop, isLong);
      if (before == null || !before.isOf(followed)) {
        KnownItem next = Stretch.known(items, end);
        known[0].keep(
            StretchMaker.make(loop, isLong, frame, known, next, start, followed, spent, work));
      }
      start = -1;
    }
  }
}
