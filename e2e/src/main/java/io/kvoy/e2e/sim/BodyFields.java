// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.PythonJsonReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The fields of a JSON object, read leniently: a field of another type counts as absent. */
record BodyFields(Json.Obj object) {

  /** What became of a body that should be a JSON object. */
  sealed interface Outcome {
    record Read(BodyFields fields) implements Outcome {}

    record Refused(ApiError error) implements Outcome {}
  }

  static Outcome read(HttpRequest http) {
    String type = http.header("content-type");
    String media = type == null ? "" : type.toLowerCase(Locale.ROOT).split(";", 2)[0].strip();
    if (!media.equals("application/json")) {
      return new Outcome.Refused(ApiError.wrongContentType());
    }
    return switch (PythonJsonReader.read(new String(http.body(), StandardCharsets.UTF_8))) {
      case PythonJsonReader.Outcome.Failed failed -> new Outcome.Refused(ApiError.notJson(failed));
      case PythonJsonReader.Outcome.Read(Json.Obj object) ->
          new Outcome.Read(new BodyFields(object));
      case PythonJsonReader.Outcome.Read(Json other) ->
          new Outcome.Refused(
              ApiError.validation(
                  "model_attributes_type",
                  "body",
                  "Input should be a valid dictionary or object to extract fields from",
                  python(other),
                  ""));
    };
  }

  /** The fields of a body that was found to be an object; none otherwise. */
  static BodyFields lenient(HttpRequest http) {
    return read(http) instanceof Outcome.Read(BodyFields fields)
        ? fields
        : new BodyFields(Json.Obj.of(Map.of()));
  }

  /** A value the way vLLM's validation messages show it. */
  static String python(Json value) {
    return switch (value) {
      case Json.Null _ -> "None";
      case Json.Bool(boolean bool) -> bool ? "True" : "False";
      case Json.Str(String text) -> "'" + text.replace("'", "\\'") + "'";
      case Json.Arr(List<Json> items) -> "'<list of %d items>'".formatted(items.size());
      case Json.Obj object -> "'<dict of %d items>'".formatted(object.fields().size());
      case Json.Int _, Json.BigInt _, Json.Real _ -> JsonText.write(value);
    };
  }

  @Nullable Json get(String name) {
    return object.get(name);
  }

  int size() {
    return object.fields().size();
  }

  @Nullable String text(String name) {
    return object.get(name) instanceof Json.Str(String value) ? value : null;
  }

  @Nullable Long integer(String name) {
    return object.get(name) instanceof Json.Int(long value) ? value : null;
  }

  @Nullable Double number(String name) {
    return switch (object.get(name)) {
      case Json.Int(long value) -> (double) value;
      case Json.Real(double value) -> value;
      case null, default -> null;
    };
  }

  boolean flag(String name) {
    return object.get(name) instanceof Json.Bool(boolean value) && value;
  }

  /** The object in this field, an empty one when there is none. */
  BodyFields object(String name) {
    return new BodyFields(
        object.get(name) instanceof Json.Obj inner ? inner : Json.Obj.of(Map.of()));
  }
}
