// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.Json;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Token ids in JSON: non-negative integers that fit an {@code int}; no vocabulary is larger. */
final class TokenIds {
  private TokenIds() {}

  /** The ids of an array, or null when the value is anything else. */
  static int @Nullable [] of(@Nullable Json value) {
    if (!(value instanceof Json.Arr(List<Json> items))) {
      return null;
    }
    int[] ids = new int[items.size()];
    for (int i = 0; i < ids.length; i++) {
      if (!(items.get(i) instanceof Json.Int(long id)) || id < 0 || id > Integer.MAX_VALUE) {
        return null;
      }
      ids[i] = (int) id;
    }
    return ids;
  }
}
