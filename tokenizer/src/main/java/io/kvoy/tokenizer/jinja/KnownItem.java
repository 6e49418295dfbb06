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
  /** A template that walks its messages more often keeps no more. */
  private static final int MAX_TRACES = 8;

  private static final Trace[] NONE = {};

  private final Json.Obj json;
  private volatile Trace[] traces = NONE;

  /** Characters that all traces together may have. */
  private volatile long maxChars = Long.MAX_VALUE;

  public KnownItem(Json.Obj json) {
    this.json = json;
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
