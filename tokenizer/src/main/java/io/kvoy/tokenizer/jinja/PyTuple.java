// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.List;

/**
 * A tuple. {@code isGroup} marks what {@code groupby} yields, whose two items also go by the names
 * {@code grouper} and {@code list}.
 */
record PyTuple(List<Object> items, boolean isGroup) {
  static final PyTuple EMPTY = new PyTuple(List.of(), false);

  static PyTuple of(Object... items) {
    return new PyTuple(List.of(items), false);
  }
}
