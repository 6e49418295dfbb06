// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import io.kvoy.inference.Json;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * An item of a list that renders share, such as a message of a conversation that goes on, with what
 * loops wrote for it. Thread-safe; of two renders that trace the same loop at once one wins.
 */
public final class KnownItem {
  /**
   * What begins with an item of a list. Each dozen or so of items should lead, and each fifty or so
   * lead a long stretch.
   */
  public enum Leads {
    NONE,
    /** Up to the next one that leads. */
    SHORT,
    /** Also up to the next one that leads a long one. */
    LONG
  }

  /** A template that walks its messages more often keeps no more. */
  private static final int MAX_TRACES = 8;

  private static final Trace[] NONE = {};

  private static final Stretch[] NO_STRETCHES = {};

  private final Json.Obj json;
  private final Leads leads;
  private volatile Trace[] traces = NONE;

  /** Stretches of passes that begin with this item, each of another loop. */
  private volatile Stretch[] stretches = NO_STRETCHES;

  /** Characters that all traces together may have. */
  private volatile long maxChars = Long.MAX_VALUE;

  /**
   * @param leads what loops take as a whole from this item on, where that goes
   */
  public KnownItem(Json.Obj json, Leads leads) {
    this.json = json;
    this.leads = leads;
  }

  public KnownItem(Json.Obj json) {
    this(json, Leads.NONE);
  }

  /**
   * The same item in another conversation, with its traces. Of its stretches those come along that
   * the other conversation has too; the others would keep items that nobody else has any more.
   *
   * @param items that both conversations have from this one on
   */
  public KnownItem within(int items) {
    KnownItem same = new KnownItem(json, leads);
    same.traces = traces;
    same.maxChars = maxChars;
    Stretch[] all = stretches;
    Stretch[] kept = new Stretch[all.length];
    int count = 0;
    for (Stretch stretch : all) {
      if (stretch.traces().length < items) {
        kept[count++] = stretch;
      }
    }
    same.stretches = count == 0 ? NO_STRETCHES : Arrays.copyOf(kept, count);
    return same;
  }

  Leads leads() {
    return leads;
  }

  /** What templates see. */
  public Json.Obj json() {
    return json;
  }

  /** Characters that loops wrote for it, as far as they are kept. */
  public long chars() {
    return chars(traces);
  }

  private static long chars(Trace[] traces) {
    long chars = 0;
    for (Trace trace : traces) {
      chars += trace.chars();
    }
    return chars;
  }

  /**
   * From now on it is kept and its memory accounted for: it keeps no more than it has, or than a
   * small share. Otherwise one request could put text of its own, such as its tools, to the items
   * of all that is remembered. To be called before other renders meet it.
   *
   * @param least characters that it may always have
   */
  public void remembered(long least) {
    if (maxChars == Long.MAX_VALUE) {
      maxChars = Math.max(least, chars());
    }
  }

  @SuppressWarnings("ReferenceEquality") // a loop is itself only
  @Nullable Trace trace(Stmt.Loop loop) {
    for (Trace trace : traces) {
      if (trace.loop() == loop) {
        return trace;
      }
    }
    return null;
  }

  @SuppressWarnings("ReferenceEquality")
  @Nullable Stretch stretch(Stmt.Loop loop, boolean isLong) {
    for (Stretch stretch : stretches) {
      if (stretch.loop() == loop && stretch.isLong() == isLong) {
        return stretch;
      }
    }
    return null;
  }

  @SuppressWarnings("ReferenceEquality")
  void keep(Stretch stretch) {
    Stretch[] old = stretches;
    int index = 0;
    while (index < old.length
        && (old[index].loop() != stretch.loop() || old[index].isLong() != stretch.isLong())) {
      index++;
    }
    if (index < 2 * MAX_TRACES) {
      Stretch[] kept = Arrays.copyOf(old, Math.max(old.length, index + 1));
      kept[index] = stretch;
      stretches = kept;
    }
  }

  /** Another thread may keep it or another one all the same; it will be forgotten next time. */
  @SuppressWarnings("ReferenceEquality")
  void forget(Stretch stretch) {
    stretches = Arrays.stream(stretches).filter(kept -> kept != stretch).toArray(Stretch[]::new);
  }

  @SuppressWarnings("ReferenceEquality")
  void keep(Trace trace) {
    Trace[] old = traces;
    int index = 0;
    while (index < old.length && old[index].loop() != trace.loop()) {
      index++;
    }
    if (index == MAX_TRACES) {
      return;
    }
    Trace[] kept = Arrays.copyOf(old, Math.max(old.length, index + 1));
    kept[index] = trace;
    if (chars(kept) <= maxChars) {
      traces = kept;
    }
  }
}
