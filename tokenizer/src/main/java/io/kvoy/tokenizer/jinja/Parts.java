// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The text of a render in parts: what a loop wrote for a known item is a part of its own, the same
 * string in each render that follows the item's {@link Trace}. Belongs to one render.
 */
final class Parts {
  private final List<String> into;

  /** The template's own output since the last part. */
  private final StringBuilder out = new StringBuilder();

  private final StringBuilder scratch = new StringBuilder();
  private long length;
  private boolean isInPass;

  /** The trace that the last pass followed; null when it did not follow one. */
  private @Nullable Trace followed;

  /** Work of each of its steps. */
  private final long[] spent = new long[TraceRecorder.MAX_STEPS];

  Parts(List<String> into) {
    this.into = into;
  }

  StringBuilder out() {
    return out;
  }

  /**
   * Whether passes of a loop that writes there are parts; those of a loop inside of one are not.
   */
  boolean takesPasses(StringBuilder builder) {
    return builder == out && !isInPass;
  }

  /** Length of the text so far when that is where it goes, else of what is in the builder. */
  long lengthWith(StringBuilder builder) {
    return builder == out ? length + builder.length() : builder.length();
  }

  /** Before a pass, which may be of an item that nothing is known of. */
  void forget() {
    followed = null;
  }

  @Nullable Trace followed() {
    return followed;
  }

  long[] spent() {
    return spent;
  }

  /** Follows a stretch of passes; see {@link Stretch#follow}. */
  boolean follow(Stretch stretch, Frame frame, @Nullable LoopState state) {
    boolean room = frame.render.hasRoomFor(lengthWith(out) + stretch.length());
    if (!stretch.follow(frame, state, scratch, room)) {
      return false;
    }
    if (stretch.length() > 0) {
      flush(frame.render);
      length += stretch.length();
      into.addAll(stretch.texts());
    }
    return true;
  }

  /** Runs a loop's body for an item, or follows how it ran before. */
  Stmt.End pass(Stmt.Loop loop, Frame frame, PyDict item, KnownItem known) {
    Trace trace = known.trace(loop);
    loop.target().assign(frame, item);
    Object self = loop.loopSlot() < 0 ? Frame.MISSING : frame.slots[loop.loopSlot()];
    if (trace != null && frame.render.hasRoomFor(lengthWith(out) + trace.length())) {
      if (trace.needsScope()) {
        loop.enter().run(frame);
      }
      if (trace.follow(frame, scratch, spent)) {
        followed = trace;
        frame.render.work(trace.work());
        add(frame.render, trace.text(), trace.length());
        return trace.end();
      }
      // Its steps may have assigned to the loop's own names.
      loop.target().assign(frame, item);
      if (loop.loopSlot() >= 0) {
        frame.slots[loop.loopSlot()] = self;
      }
    }
    flush(frame.render);
    loop.enter().run(frame);
    TraceRecorder recorder = new TraceRecorder(frame, out);
    isInPass = true;
    Stmt.End end = recorder.run(loop);
    isInPass = false;
    String text = out.toString();
    out.setLength(0);
    if (trace != null && trace.text().equals(text)) {
      // The way was another one, the text is not: whoever compares parts finds it sooner.
      text = trace.text();
    }
    Trace told = recorder.trace(loop, text, end);
    if (told != null) {
      known.keep(told);
    }
    add(frame.render, text, text.length());
    return end;
  }

  void finish(Render render) {
    flush(render);
  }

  private void flush(Render render) {
    if (!out.isEmpty()) {
      String text = out.toString();
      out.setLength(0);
      add(render, text, text.length());
    }
  }

  private void add(Render render, String text, int chars) {
    if (chars == 0) {
      return;
    }
    flush(render);
    length += chars;
    render.checkText(length);
    into.add(text);
  }
}
