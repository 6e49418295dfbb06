// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.List;

/**
 * The few ways in which a loop's passes go, so that the traces of a long conversation share their
 * steps: following them is waiting for memory more than anything else. Thread-safe.
 */
final class CommonSteps {
  private static final int MAX_LISTS = 16;

  private volatile List<List<Trace.Step>> lists = List.of();

  /** An equal list that other traces have, or this one. */
  List<Trace.Step> same(List<Trace.Step> steps) {
    List<List<Trace.Step>> known = lists;
    int index = known.indexOf(steps);
    if (index >= 0) {
      return known.get(index);
    }
    // What an item alone settles is hardly ever the same for two.
    if (known.size() < MAX_LISTS
        && steps.stream()
            .noneMatch(step -> step instanceof Trace.Restore || step instanceof Trace.Reprint)) {
      List<List<Trace.Step>> more = new ArrayList<>(known);
      more.add(steps);
      lists = List.copyOf(more);
    }
    return steps;
  }
}
