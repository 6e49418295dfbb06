// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import io.kvoy.inference.Json;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A list. The sandbox lets no template change one, so items are fixed once made. One that came as
 * JSON is unpacked on first use only: many are just printed. Belongs to one render.
 */
final class PyList {
  private final Json.@Nullable Arr json;
  private @Nullable List<Object> items;

  PyList(List<Object> items) {
    this.json = null;
    this.items = items;
  }

  PyList(Json.Arr json) {
    this.json = json;
  }

  /** Not to be modified. */
  List<Object> items() {
    List<Object> unpacked = items;
    if (unpacked == null) {
      List<Json> source = java.util.Objects.requireNonNull(json).items();
      unpacked = new ArrayList<>(source.size());
      for (Json item : source) {
        unpacked.add(Values.fromJson(item));
      }
      items = unpacked;
    }
    return unpacked;
  }

  /** The JSON that this list came as, null for lists that a template made. */
  Json.@Nullable Arr json() {
    return json;
  }
}
