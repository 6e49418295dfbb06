// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

/** A {@code range}: {@code length} numbers from {@code start} on, {@code step} apart. */
record PyRange(long start, long stop, long step) {

  int length() {
    if (step > 0 ? start >= stop : start <= stop) {
      return 0;
    }
    long count =
        step > 0 ? (stop - start - 1) / step + 1 : (start - stop - 1) / Math.negateExact(step) + 1;
    return (int) Math.min(count, Integer.MAX_VALUE);
  }

  long get(int index) {
    return start + index * step;
  }
}
