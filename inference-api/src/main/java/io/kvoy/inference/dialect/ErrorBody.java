// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import io.kvoy.inference.json.JsonWriter;
import java.util.LinkedHashMap;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/**
 * Errors of Kvoy's own in the shape of the API that was called, so that the caller's client library
 * understands them.
 *
 * <p>OpenAI: {@code {"error":{"message","type","param","code"}}}, the code being the HTTP status as
 * in vLLM 0.32. Anthropic: {@code {"type":"error","error":{"type","message"}}}. Paths of no API get
 * the OpenAI shape.
 */
public final class ErrorBody {
  /** Messages are cut to this, so that an error never becomes a carrier of what the client sent. */
  private static final int MAX_MESSAGE_CHARS = 400;

  private ErrorBody() {}

  /** An error whose type follows from the status. */
  public static byte[] of(ApiKind api, int status, String message) {
    return of(api, status, defaultType(api, status), message, null);
  }

  /** An error of the given type. */
  public static byte[] of(ApiKind api, int status, String type, String message) {
    return of(api, status, type, message, null);
  }

  /**
   * An error about one field.
   *
   * @param type word for programs, such as {@code BadRequestError}
   * @param param name of the field; only the OpenAI shape has a place for it
   */
  public static byte[] of(
      ApiKind api, int status, String type, String message, @Nullable String param) {
    SequencedMap<String, Json> error = new LinkedHashMap<>();
    SequencedMap<String, Json> body = new LinkedHashMap<>();
    Json text = new Json.Str(cut(message));
    if (isAnthropic(api)) {
      error.put("type", new Json.Str(type));
      error.put("message", text);
      body.put("type", new Json.Str("error"));
    } else {
      error.put("message", text);
      error.put("type", new Json.Str(type));
      error.put("param", param == null ? Json.Null.NULL : new Json.Str(cut(param)));
      error.put("code", new Json.Int(status));
    }
    body.put("error", new Json.Obj(error));
    return JsonWriter.bytes(new Json.Obj(body));
  }

  /**
   * The type that clients of this API expect with a status (vLLM's names, Anthropic's documented
   * ones).
   */
  public static String defaultType(ApiKind api, int status) {
    if (isAnthropic(api)) {
      return switch (status) {
        case 401 -> "authentication_error";
        case 403 -> "permission_error";
        case 404 -> "not_found_error";
        case 413 -> "request_too_large";
        case 429 -> "rate_limit_error";
        case 503, 529 -> "overloaded_error";
        default -> status < 500 ? "invalid_request_error" : "api_error";
      };
    }
    return switch (status) {
      case 401 -> "AuthenticationError";
      case 403 -> "PermissionDeniedError";
      case 404 -> "NotFoundError";
      case 408 -> "RequestTimeoutError";
      case 413 -> "RequestTooLargeError";
      case 415 -> "UnsupportedMediaTypeError";
      case 429 -> "RateLimitError";
      case 503 -> "ServiceUnavailableError";
      default -> status < 500 ? "BadRequestError" : "InternalServerError";
    };
  }

  private static boolean isAnthropic(ApiKind api) {
    return switch (api) {
      case MESSAGES, COUNT_TOKENS -> true;
      case CHAT_COMPLETIONS, COMPLETIONS, RESPONSES, OTHER -> false;
    };
  }

  private static String cut(String text) {
    return text.length() <= MAX_MESSAGE_CHARS ? text : text.substring(0, MAX_MESSAGE_CHARS);
  }
}
