// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.time.Clock;
import java.util.Map;

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

  private long workLeft;
  private int depth;

  Render(RenderLimits limits, Clock clock, Map<String, Object> variables, boolean isPlain) {
    this.limits = limits;
    this.clock = clock;
    this.variables = variables;
    this.isPlain = isPlain;
    this.workLeft = limits.maxWork();
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

  /** Accounts for a text of this many UTF-16 units about to be made. */
  void text(long length) {
    checkText(length);
    work(1 + (length >> CHARS_PER_UNIT_SHIFT));
  }

  /** Accounts for a collection of this many items about to be made. */
  void items(long count) {
    if (count > limits.maxItems()) {
      throw TemplateError.unsupported("limit_items");
    }
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
