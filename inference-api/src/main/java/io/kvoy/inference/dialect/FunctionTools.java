// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.Json;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/** Tool definitions of other dialects in the shape of a chat request's {@code tools}. */
final class FunctionTools {
  private FunctionTools() {}

  /**
   * A chat tool of a flat definition: name, description and parameters are always there, null when
   * not given, then what else {@code FunctionDefinition} knows (vLLM 0.32 {@code
   * entrypoints/generate/base/protocol.py}).
   */
  static Json.Obj of(Json.Obj flat, Json.Str name, @Nullable Json parameters) {
    SequencedMap<String, Json> function = new LinkedHashMap<>();
    function.put("name", name);
    Json description = flat.get("description");
    function.put("description", description == null ? Json.Null.NULL : description);
    function.put("parameters", parameters == null ? Json.Null.NULL : parameters);
    for (String extra : List.of("strict", "defer_loading")) {
      Json value = Envelope.present(flat, extra);
      if (value != null) {
        function.put(extra, value);
      }
    }
    SequencedMap<String, Json> tool = new LinkedHashMap<>();
    tool.put("type", new Json.Str("function"));
    tool.put("function", new Json.Obj(function));
    return new Json.Obj(tool);
  }

  /**
   * A tool that takes free text, shown to the model as a function of one string ({@code
   * custom_tool_as_function_dict} in vLLM 0.32 {@code tool_parsers/utils.py}).
   */
  static Json.Obj ofFreeText(Json.Obj custom, Json.Str name) {
    SequencedMap<String, Json> input = new LinkedHashMap<>();
    input.put("type", new Json.Str("string"));
    input.put("description", new Json.Str("The freeform text payload for this tool."));
    SequencedMap<String, Json> properties = new LinkedHashMap<>();
    properties.put("input", new Json.Obj(input));
    SequencedMap<String, Json> parameters = new LinkedHashMap<>();
    parameters.put("type", new Json.Str("object"));
    parameters.put("properties", new Json.Obj(properties));
    parameters.put("required", new Json.Arr(List.of(new Json.Str("input"))));
    parameters.put("additionalProperties", new Json.Bool(false));
    SequencedMap<String, Json> flat = new LinkedHashMap<>();
    Json description = custom.get("description");
    flat.put("description", description == null ? Json.Null.NULL : description);
    return of(new Json.Obj(flat), name, new Json.Obj(parameters));
  }
}
