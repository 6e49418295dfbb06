// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.Arrays;

/** A growing list of token ids. Used by one thread. */
final class IdList {

  private int[] ids;
  private int size;

  IdList(int expected) {
    ids = new int[Math.max(16, expected)];
  }

  void add(int id) {
    if (size == ids.length) {
      grow(size + 1);
    }
    ids[size++] = id;
  }

  void addAll(int[] more) {
    addAll(more, more.length);
  }

  void addAll(int[] more, int count) {
    if (size + count > ids.length) {
      grow(size + count);
    }
    System.arraycopy(more, 0, ids, size, count);
    size += count;
  }

  private void grow(int atLeast) {
    ids = Arrays.copyOf(ids, Math.max(atLeast, size + (size >> 1)));
  }

  int size() {
    return size;
  }

  int[] toArray() {
    return Arrays.copyOf(ids, size);
  }

  /** A copy of what was added since {@code from}. */
  int[] toArray(int from) {
    return Arrays.copyOfRange(ids, from, size);
  }
}
