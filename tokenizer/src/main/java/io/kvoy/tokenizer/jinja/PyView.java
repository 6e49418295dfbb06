// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import java.util.ArrayList;
import java.util.List;

/** What a dict's {@code keys()}, {@code values()} and {@code items()} return. */
record PyView(Kind kind, PyDict dict) {
  enum Kind {
    KEYS("dict_keys"),
    VALUES("dict_values"),
    ITEMS("dict_items");

    final String typeName;

    Kind(String typeName) {
      this.typeName = typeName;
    }
  }

  List<Object> toList() {
    List<Object> list = new ArrayList<>(dict.size());
    for (PyDict.Entry entry : dict.all()) {
      list.add(
          switch (kind) {
            case KEYS -> entry.key();
            case VALUES -> entry.value();
            case ITEMS -> PyTuple.of(entry.key(), entry.value());
          });
    }
    return list;
  }
}
