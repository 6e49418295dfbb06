// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import io.kvoy.inference.Json;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Reads the fields of a line; whatever is wrong is said with the field's name. */
final class Fields {
  private Fields() {}

  /** Null when absent or JSON null. */
  static @Nullable Json optional(Json.Obj line, String name) {
    Json value = line.get(name);
    return value == Json.Null.NULL ? null : value;
  }

  static Json required(Json.Obj line, String name) throws BadLine {
    Json value = optional(line, name);
    if (value == null) {
      throw new BadLine("field " + name + " is required");
    }
    return value;
  }

  static @Nullable String optionalText(Json.Obj line, String name) throws BadLine {
    Json value = optional(line, name);
    return value == null ? null : text(value, name);
  }

  static String text(Json value, String name) throws BadLine {
    if (value instanceof Json.Str(String text)) {
      return text;
    }
    throw new BadLine("field " + name + " must be a string");
  }

  static Json.Obj object(Json value, String name) throws BadLine {
    if (value instanceof Json.Obj object) {
      return object;
    }
    throw new BadLine("field " + name + " must be an object");
  }

  static List<Json> list(Json value, String name) throws BadLine {
    if (value instanceof Json.Arr(List<Json> items)) {
      return items;
    }
    throw new BadLine("field " + name + " must be an array");
  }

  static int integer(Json value, String name, int min, int max) throws BadLine {
    if (value instanceof Json.Int(long number) && number >= min && number <= max) {
      return (int) number;
    }
    throw new BadLine("field " + name + " must be an integer from " + min + " to " + max);
  }

  static int[] tokenIds(Json.Obj line) throws BadLine {
    List<Json> items = list(required(line, "token_ids"), "token_ids");
    int[] ids = new int[items.size()];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = integer(items.get(i), "token_ids[" + i + "]", 0, Integer.MAX_VALUE);
    }
    return ids;
  }
}
