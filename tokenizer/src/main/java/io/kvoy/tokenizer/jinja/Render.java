// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.time.Clock;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * One render: its variables, its clock, and what it has used up of its {@link RenderLimits}.
 * Belongs to one thread and is thrown away afterwards.
 */
final class Render {
  /** Characters copied for one unit of work. */
  private static final int CHARS_PER_UNIT_SHIFT = 5;

  private final RenderLimits limits;
  private final Clock clock;
  private final Map<String, Object> variables;

  /** Whether the functions that transformers adds are missing. */
  private final boolean isPlain;

  /** Where the text goes when renders share what they know of items, else null. */
  private final @Nullable Parts parts;

  private long workLeft;
  private int depth;
  private long lastingWork;
  private int calls;
  private boolean isFollowing;

  Render(
      RenderLimits limits,
      Clock clock,
      Map<String, Object> variables,
      boolean isPlain,
      @Nullable Parts parts) {
    this.limits = limits;
    this.clock = clock;
    this.variables = variables;
    this.isPlain = isPlain;
    this.parts = parts;
    this.workLeft = limits.maxWork();
  }

  @Nullable Parts parts() {
    return parts;
  }

  long workLeft() {
    return workLeft;
  }

  int depth() {
    return depth;
  }

  /** Work whose result stays, so that it is never done anew. */
  long lastingWork() {
    return lastingWork;
  }

  /** Adds what was done since to the lasting work. */
  void lasts(long lastingBefore, long leftBefore) {
    // Lasting work inside of it is part of it.
    lastingWork = lastingBefore + leftBefore - workLeft;
  }

  /** Takes back what was accounted for since and does not last: it is done anew. */
  void reset(long leftBefore, long lastingBefore, int depthBefore) {
    workLeft = leftBefore - (lastingWork - lastingBefore);
    depth = depthBefore;
  }

  /** How many functions of unknown effect were called by a method's name. */
  int calls() {
    return calls;
  }

  /**
   * Before a function of unknown effect is called by what looks like a method of a text.
   *
   * @throws Unrepeatable when the call may have to be done once more
   */
  void call() {
    calls++;
    if (isFollowing) {
      throw new Unrepeatable();
    }
  }

  /** Whether a trace is followed, so that all that is done may be done once more. */
  void following(boolean isFollowing) {
    this.isFollowing = isFollowing;
  }

  /** Leaves a trace before something happens that cannot be undone. */
  static final class Unrepeatable extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private Unrepeatable() {
      super(null, null, false, false);
    }
  }

  Clock clock() {
    return clock;
  }

  /** A variable of the request or a global, or {@link Frame#MISSING}. */
  Object resolve(String name) {
    Object value = variables.get(name);
    if (value != null) {
      return value;
    }
    Object global = Globals.get(name);
    boolean hidden = isPlain && !Globals.isJinjaGlobal(name);
    return global == null || hidden ? Frame.MISSING : global;
  }

  /** Accounts for work about to be done. */
  void work(long units) {
    workLeft -= units;
    if (workLeft < 0) {
      throw TemplateError.unsupported("limit_work");
    }
  }

  /** Refuses a text in the making that has become too long; its work is accounted for elsewhere. */
  void checkText(long length) {
    if (length > limits.maxTextChars()) {
      throw TemplateError.unsupported("limit_text");
    }
  }

  /** The same for what is written; the render's own text counts with the parts in front. */
  void checkWritten(StringBuilder out) {
    checkText(parts == null ? out.length() : parts.lengthWith(out));
  }

  /** Whether so much more text may be written. */
  boolean hasRoomFor(long length) {
    return length <= limits.maxTextChars();
  }

  /** Accounts for a text of this many UTF-16 units about to be made. */
  void text(long length) {
    checkText(length);
    work(1 + (length >> CHARS_PER_UNIT_SHIFT));
  }

  /** Refuses a collection in the making that has become too large. */
  void checkItems(long count) {
    if (count > limits.maxItems()) {
      throw TemplateError.unsupported("limit_items");
    }
  }

  /** Accounts for a collection of this many items about to be made. */
  void items(long count) {
    checkItems(count);
    work(1 + (count >> 2));
  }

  /**
   * Goes one level deeper; each call needs a {@link #leave()}, except when the render ends with an
   * error.
   */
  void enter() {
    if (++depth > limits.maxDepth()) {
      throw TemplateError.unsupported("limit_depth");
    }
    work(1);
  }

  void leave() {
    depth--;
  }
}
