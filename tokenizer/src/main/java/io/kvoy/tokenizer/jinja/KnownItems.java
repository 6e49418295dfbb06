// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.AbstractList;
import java.util.RandomAccess;
import org.jspecify.annotations.Nullable;

/**
 * A list of known items, or a slice of one. What templates see of an item is made when it is first
 * looked at: most messages of a long conversation never are. Belongs to one render.
 */
final class KnownItems extends AbstractList<Object> implements RandomAccess {
  private final KnownItem[] all;

  /** What was made of each of them, shared by all slices, as an item is one object everywhere. */
  private final @Nullable PyDict[] made;

  private final int first;
  private final int step;
  private final int count;

  KnownItems(KnownItem[] items) {
    this(items, new @Nullable PyDict[items.length], 0, 1, items.length);
  }

  private KnownItems(KnownItem[] all, @Nullable PyDict[] made, int first, int step, int count) {
    this.all = all;
    this.made = made;
    this.first = first;
    this.step = step;
    this.count = count;
  }

  /**
   * @param from index of the first one
   * @param by from each to the next one, not 0
   */
  KnownItems slice(int from, int by, int size) {
    return new KnownItems(all, made, first + from * step, step * by, size);
  }

  KnownItem known(int index) {
    return all[first + index * step];
  }

  @Override
  public Object get(int index) {
    int at = first + java.util.Objects.checkIndex(index, count) * step;
    PyDict dict = made[at];
    if (dict == null) {
      dict = new PyDict(all[at]);
      made[at] = dict;
    }
    return dict;
  }

  @Override
  public int size() {
    return count;
  }
}
