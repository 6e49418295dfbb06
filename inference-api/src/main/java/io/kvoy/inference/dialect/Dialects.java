// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.RequestParse.Malformed;
import io.kvoy.inference.RequestParse.PassThrough;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.SpliceableBody;
import org.jspecify.annotations.Nullable;

/**
 * Front door of the dialects: which API a path is, and what its body says.
 *
 * <p>Called once per request on the thread that owns the exchange. Never throws for bad input, and
 * no message holds text of the body. Three answers, in this order of preference for anything odd:
 * <em>parsed</em> with an unreadable prompt (the model, stream and limits are known, the worker
 * decides about the rest), <em>pass through</em>, and only for what no worker can serve
 * <em>malformed</em>.
 */
public final class Dialects {
  private static final ApiPaths PATHS = new ApiPaths("");

  private Dialects() {}

  /** The API kind of a request path without a configured prefix, see {@link ApiPaths}. */
  public static ApiKind ofPath(String path) {
    return PATHS.kindOf(path);
  }

  /** Reads a whole body with default limits. */
  public static RequestParse parse(ApiKind api, byte[] body) {
    return read(api, body, ParseOptions.DEFAULTS).parse();
  }

  /** Reads a whole body; the array must not change while the result is in use. */
  public static ParsedBody read(ApiKind api, byte[] body, ParseOptions options) {
    if (api == ApiKind.OTHER) {
      return new ParsedBody(new PassThrough(api, "not_an_inference_path"), null);
    }
    return switch (options.reader().read(body)) {
      case JsonRead.Failure failure -> new ParsedBody(refusal(api, failure), null);
      case JsonRead.Document document -> {
        if (!(document.value() instanceof Json.Obj root)) {
          yield new ParsedBody(
              new Malformed(api, "the body must be a JSON object", "not_an_object"), null);
        }
        yield new ParsedBody(
            request(api, root, document.hasLoneSurrogate(), options.defaultModel()),
            SpliceableBody.of(body, document));
      }
    };
  }

  private static RequestParse refusal(ApiKind api, JsonRead.Failure failure) {
    JsonRead.Reason reason = failure.reason();
    return switch (reason) {
      // The worker reads these; here they are only not understood.
      case NOT_UTF8, TOO_MANY_ELEMENTS -> new PassThrough(api, reason.metricWord());
      case EMPTY, SYNTAX, ENCODING, TOO_LARGE, TOO_DEEP, STRING_TOO_LONG, NUMBER_TOO_LONG ->
          new Malformed(
              api, reason.sentence() + " (byte " + failure.byteOffset() + ")", reason.metricWord());
    };
  }

  private static RequestParse request(
      ApiKind api, Json.Obj root, boolean hasLoneSurrogate, @Nullable String defaultModel) {
    String model = defaultModel;
    switch (Envelope.present(root, "model")) {
      case null -> {}
      case Json.Str(String name) -> model = name.isEmpty() ? defaultModel : name;
      case Json _ -> {
        return new Malformed(api, "field model must be a string", "field_type");
      }
    }
    if (model == null) {
      return new Malformed(api, "field model is required", "missing_model");
    }
    Json streamField = Envelope.present(root, "stream");
    Boolean stream = streamField == null ? Boolean.FALSE : Lax.bool(streamField);
    if (stream == null) {
      return new Malformed(api, "field stream must be a boolean", "field_type");
    }
    Envelope envelope = new Envelope(api, root, model, stream);
    if (hasLoneSurrogate) {
      envelope.doubt("lone_surrogate");
    }
    InferenceRequest request =
        switch (api) {
          case CHAT_COMPLETIONS -> ChatDialect.read(envelope);
          case COMPLETIONS -> CompletionsDialect.read(envelope);
          case RESPONSES -> ResponsesDialect.read(envelope);
          case MESSAGES, COUNT_TOKENS -> MessagesDialect.read(envelope);
          case OTHER -> throw new IllegalStateException("other paths have no dialect");
        };
    Envelope.Mistake mistake = envelope.mistake();
    return mistake == null
        ? new RequestParse.Parsed(request)
        : new Malformed(api, mistake.message(), mistake.reason());
  }
}
