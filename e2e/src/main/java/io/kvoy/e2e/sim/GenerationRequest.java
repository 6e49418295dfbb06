// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Json;
import io.kvoy.tokenizer.Tokenization;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A checked request to generate, in whichever of the APIs it came.
 *
 * @param model as asked for, the base model's name when the request named none
 * @param prompts token ids, at least one array
 * @param answersPerPrompt {@code n}
 * @param includeUsage usage in a last chunk of a stream
 * @param continuousUsage usage in every chunk
 * @param maxTokens limit on each answer, at least 1
 * @param returnTokenIds {@code return_token_ids}
 */
record GenerationRequest(
    String model,
    EngineRequest.@Nullable Lora lora,
    List<int[]> prompts,
    int answersPerPrompt,
    boolean stream,
    boolean includeUsage,
    boolean continuousUsage,
    int maxTokens,
    int minTokens,
    boolean ignoreEos,
    @Nullable String cacheSalt,
    @Nullable String sessionId,
    boolean fullReport,
    boolean returnTokenIds) {

  /** What became of a body. */
  sealed interface Outcome {
    record Accepted(GenerationRequest request) implements Outcome {}

    record Refused(ApiError error) implements Outcome {}
  }

  int totalPromptTokens() {
    return prompts.stream().mapToInt(p -> p.length).sum();
  }

  /**
   * Reads and checks a body in vLLM's order: shape, model, template, limits, tokens, sampling.
   *
   * @param loras adapters by name
   */
  static Outcome read(
      ApiKind api,
      HttpRequest http,
      SimOptions options,
      Map<String, EngineRequest.Lora> loras,
      SimTokenizer tokenizer) {
    BodyFields body;
    switch (BodyFields.read(http)) {
      case BodyFields.Outcome.Refused(ApiError error) -> {
        return new Outcome.Refused(error);
      }
      case BodyFields.Outcome.Read(BodyFields fields) -> body = fields;
    }
    ApiError error = shape(api, body);
    if (error != null) {
      return new Outcome.Refused(error);
    }
    String model = Objects.requireNonNullElse(body.text("model"), options.model());
    EngineRequest.Lora lora = loras.get(model);
    if (lora == null && !model.equals(options.model())) {
      return new Outcome.Refused(ApiError.unknownModel(model, options.model()));
    }
    error = content(api, body);
    if (error != null) {
      return new Outcome.Refused(error);
    }
    int limit = options.engine().maxModelLen();
    String limitField = limitField(api, body);
    Long asked = body.integer(limitField);
    if (asked != null && asked > limit) {
      return new Outcome.Refused(
          ApiError.badValue(
              "%s=%d cannot be greater than max_model_len=%d. Please request fewer output tokens."
                  .formatted(limitField, asked, limit),
              limitField,
              asked));
    }
    List<int[]> prompts;
    switch (tokenizer.prompts(api, http.body())) {
      case Tokenization.Exact exact -> prompts = exact.prompts();
      case Tokenization.Estimated(int _, String reason, int[] _) -> {
        return notTokenized(reason);
      }
      case Tokenization.Unavailable(String reason) -> {
        return notTokenized(reason);
      }
    }
    boolean given = api == ApiKind.COMPLETIONS && isIds(body.get("prompt"));
    int longest = 0;
    for (int[] prompt : prompts) {
      if (prompt.length == 0) {
        return new Outcome.Refused(emptyPrompt());
      }
      if (prompt.length > limit) {
        // A text is cut while it is tokenized, one past the limit; given ids are counted.
        int seen = given ? prompt.length : limit + 1;
        return new Outcome.Refused(ApiError.tooLong(limit, seen, seen == limit + 1));
      }
      for (int id : prompt) {
        if (id < 0 || id >= tokenizer.vocabularySize()) {
          return new Outcome.Refused(
              ApiError.badRequest("Token id %d is out of vocabulary".formatted(id), null));
        }
      }
      longest = Math.max(longest, prompt.length);
    }
    Double temperature = body.number("temperature");
    if (temperature != null && temperature < 0) {
      return new Outcome.Refused(
          ApiError.badValue(
              "temperature must be non-negative, got %s.".formatted(temperature),
              "temperature",
              temperature));
    }
    long fallback = api == ApiKind.COMPLETIONS ? 16 : limit;
    long maxTokens = Math.min(limit - longest, asked != null ? asked : fallback);
    if (maxTokens < 1) {
      return new Outcome.Refused(
          ApiError.badValue(
              "max_tokens must be at least 1, got %d.".formatted(maxTokens),
              "max_tokens",
              maxTokens));
    }
    BodyFields streamOptions = body.object("stream_options");
    String session = http.header("x-session-id");
    Long n = body.integer("n");
    Long minTokens = body.integer("min_tokens");
    return new Outcome.Accepted(
        new GenerationRequest(
            model,
            lora,
            prompts,
            n == null ? 1 : Math.clamp(n, 1, 64),
            body.flag("stream"),
            streamOptions.flag("include_usage"),
            streamOptions.flag("continuous_usage_stats"),
            (int) maxTokens,
            minTokens == null ? 0 : (int) Math.clamp(minTokens, 0L, maxTokens),
            body.flag("ignore_eos"),
            body.text("cache_salt"),
            session != null ? session : body.text("session_id"),
            "full".equals(body.object("vllm_xargs").text("kv_cache_report_mode")),
            body.flag("return_token_ids")));
  }

  private static String limitField(ApiKind api, BodyFields body) {
    if (api == ApiKind.RESPONSES) {
      return "max_output_tokens";
    }
    return body.integer("max_completion_tokens") != null ? "max_completion_tokens" : "max_tokens";
  }

  private static Outcome notTokenized(String reason) {
    return new Outcome.Refused(
        ApiError.badRequest("The simulated worker cannot tokenize this prompt: " + reason, null));
  }

  private static @Nullable ApiError shape(ApiKind api, BodyFields body) {
    if (api == ApiKind.RESPONSES && body.get("input") == null) {
      return ApiError.missing("input", body.size());
    }
    if (api == ApiKind.CHAT_COMPLETIONS || api == ApiKind.MESSAGES) {
      Json messages = body.get("messages");
      if (messages == null) {
        return ApiError.missing("messages", body.size());
      }
      if (!(messages instanceof Json.Arr)) {
        return ApiError.validation(
            "list_type",
            "body.messages",
            "Input should be a valid list",
            BodyFields.python(messages),
            "");
      }
    }
    if (api == ApiKind.MESSAGES && body.get("max_tokens") == null) {
      return ApiError.missing("max_tokens", body.size());
    }
    for (String field :
        List.of("max_tokens", "max_completion_tokens", "max_output_tokens", "n", "min_tokens")) {
      Json value = body.get(field);
      if (value != null && value != Json.Null.NULL && !(value instanceof Json.Int)) {
        return ApiError.validation(
            "int_type",
            "body." + field,
            "Input should be a valid integer",
            BodyFields.python(value),
            "");
      }
    }
    return null;
  }

  private static @Nullable ApiError content(ApiKind api, BodyFields body) {
    if (api == ApiKind.COMPLETIONS) {
      Json prompt = body.get("prompt");
      boolean empty =
          prompt == null
              || prompt == Json.Null.NULL
              || (prompt instanceof Json.Str(String text) && text.isEmpty())
              || (prompt instanceof Json.Arr(List<Json> items) && items.isEmpty());
      return empty ? emptyPrompt() : null;
    }
    if (api == ApiKind.CHAT_COMPLETIONS && body.text("chat_template") != null) {
      return ApiError.badRequest(
          "Chat template is passed with request, but --trust-request-chat-template is not set."
              + " Refused request with untrusted chat template.",
          null);
    }
    if (body.get("messages") instanceof Json.Arr(List<Json> messages) && messages.isEmpty()) {
      return ApiError.badRequest(
          "Cannot apply chat template to an empty conversation. Provide at least one message.",
          null);
    }
    return null;
  }

  private static ApiError emptyPrompt() {
    return ApiError.badRequest(
        "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)",
        "prompt");
  }

  private static boolean isIds(@Nullable Json prompt) {
    return prompt instanceof Json.Arr(List<Json> items)
        && !items.isEmpty()
        && !(items.getFirst() instanceof Json.Str);
  }
}
