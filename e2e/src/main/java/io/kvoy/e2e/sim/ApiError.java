// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.Json;
import io.kvoy.inference.json.PythonJsonReader;
import org.jspecify.annotations.Nullable;

/**
 * A refusal, in the words of vLLM 0.32.
 *
 * @param status HTTP status, repeated as {@code code}
 * @param type {@code error.type}
 * @param param field at fault, null when none is named
 * @param beforeRouting whether the API framework itself refused (unreadable body, missing field):
 *     then the Anthropic endpoints answer in OpenAI's shape as well
 */
record ApiError(
    int status, String message, String type, @Nullable String param, boolean beforeRouting) {

  /** A value that the server does not accept. */
  static ApiError badRequest(String message, @Nullable String param) {
    return new ApiError(400, message, "BadRequestError", param, false);
  }

  /** A value that is refused with its name and what it was. */
  static ApiError badValue(String message, String param, Object value) {
    return badRequest("%s (parameter=%s, value=%s)".formatted(message, param, value), param);
  }

  /** One failed check of the body's shape, as pydantic words it. */
  static ApiError validation(
      String type, String location, String message, String input, String more) {
    return new ApiError(
        400,
        "1 validation error:\n  {'type': '%s', 'loc': '%s', 'msg': '%s', 'input': %s%s}"
            .formatted(type, location, message, input, more),
        "Bad Request",
        location,
        true);
  }

  /** The body is not JSON. */
  static ApiError notJson(PythonJsonReader.Outcome.Failed failed) {
    return validation(
        "json_invalid",
        "body." + failed.position(),
        "JSON decode error",
        "'<dict of 0 items>'",
        ", 'ctx': {'error': '%s'}".formatted(failed.message().replace("'", "\\'")));
  }

  /** A required field is not there. */
  static ApiError missing(String field, int fieldsPresent) {
    return validation(
        "missing",
        "body." + field,
        "Field required",
        "'<dict of %d items>'".formatted(fieldsPresent),
        "");
  }

  static ApiError wrongContentType() {
    return new ApiError(
        400,
        "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed",
        "Bad Request",
        null,
        true);
  }

  static ApiError unknownModel(String asked, String served) {
    return new ApiError(
        404,
        "The model `%s` does not exist. Valid aliases: %s.".formatted(asked, served),
        "NotFoundError",
        "model",
        false);
  }

  /**
   * @param atLeast whether the prompt was cut while it was read and may be longer
   */
  static ApiError tooLong(int limit, int tokens, boolean atLeast) {
    return badValue(
        ("This model's maximum context length is %d tokens. However, your prompt contains %s%d input"
                + " tokens, which exceeds this limit even without any output tokens. Please reduce the"
                + " length of the input prompt.")
            .formatted(limit, atLeast ? "at least " : "", tokens),
        "input_tokens",
        tokens);
  }

  Json.Obj openAi() {
    return JsonText.obj(
        "error", JsonText.obj("message", message, "type", type, "param", param, "code", status));
  }

  Json.Obj anthropic() {
    return beforeRouting
        ? openAi()
        : JsonText.obj("type", "error", "error", JsonText.obj("type", type, "message", message));
  }
}
