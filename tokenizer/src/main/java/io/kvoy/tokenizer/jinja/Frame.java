// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The variables of one run of a function: the template itself, a macro, a loop's filter or a
 * recursive loop. A function sees the variables of the functions around it, as they are at the time
 * of looking.
 */
final class Frame {
  /** What a slot holds before anything was assigned. */
  enum Empty {
    MISSING
  }

  static final Empty MISSING = Empty.MISSING;

  final Render render;
  final @Nullable Frame outer;
  final Object[] slots;

  Frame(Render render, @Nullable Frame outer, int size) {
    this.render = render;
    this.outer = outer;
    this.slots = new Object[size];
    Arrays.fill(slots, MISSING);
  }
}
