// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.Json;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/**
 * Builds and writes JSON the way vLLM's server does: keys in the order given, no spaces, nothing
 * escaped needlessly.
 */
final class JsonText {
  private JsonText() {}

  /**
   * An object from alternating keys and values. Values may be null, strings, booleans, numbers,
   * {@link Json} or lists of those.
   */
  static Json.Obj obj(@Nullable Object... keysAndValues) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    for (int i = 0; i < keysAndValues.length; i += 2) {
      fields.put(String.valueOf(keysAndValues[i]), json(keysAndValues[i + 1]));
    }
    return new Json.Obj(fields);
  }

  private static Json json(@Nullable Object value) {
    return switch (value) {
      case null -> Json.Null.NULL;
      case Json json -> json;
      case String text -> new Json.Str(text);
      case Boolean bool -> new Json.Bool(bool);
      case Integer number -> new Json.Int(number);
      case Long number -> new Json.Int(number);
      case Double number -> new Json.Real(number);
      case int[] ids -> {
        List<Json> items = new java.util.ArrayList<>(ids.length);
        for (int id : ids) {
          items.add(new Json.Int(id));
        }
        yield new Json.Arr(items);
      }
      case List<?> list -> new Json.Arr(list.stream().map(JsonText::json).toList());
      default -> throw new IllegalArgumentException("no JSON for " + value.getClass());
    };
  }

  static String write(Json value) {
    StringBuilder out = new StringBuilder(256);
    write(out, value);
    return out.toString();
  }

  private static void write(StringBuilder out, Json value) {
    switch (value) {
      case Json.Null _ -> out.append("null");
      case Json.Bool(boolean bool) -> out.append(bool);
      case Json.Int(long number) -> out.append(number);
      case Json.BigInt(var number) -> out.append(number);
      case Json.Real(double number) -> out.append(number);
      case Json.Str(String text) -> string(out, text);
      case Json.Arr(List<Json> items) -> {
        out.append('[');
        String separator = "";
        for (Json item : items) {
          out.append(separator);
          write(out, item);
          separator = ",";
        }
        out.append(']');
      }
      case Json.Obj object -> {
        out.append('{');
        String separator = "";
        for (var field : object.fields().entrySet()) {
          out.append(separator);
          string(out, field.getKey());
          out.append(':');
          write(out, field.getValue());
          separator = ",";
        }
        out.append('}');
      }
    }
  }

  static void string(StringBuilder out, String text) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      switch (c) {
        case '"' -> out.append("\\\"");
        case '\\' -> out.append("\\\\");
        case '\n' -> out.append("\\n");
        case '\r' -> out.append("\\r");
        case '\t' -> out.append("\\t");
        case '\b' -> out.append("\\b");
        case '\f' -> out.append("\\f");
        default -> {
          if (c < 0x20) {
            out.append("\\u%04x".formatted((int) c));
          } else {
            out.append(c);
          }
        }
      }
    }
    out.append('"');
  }
}
