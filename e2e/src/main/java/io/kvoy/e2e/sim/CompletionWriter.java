// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.Json;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** {@code /v1/completions} answers, key for key as vLLM 0.32 writes them. */
final class CompletionWriter implements GenerationApi.AnswerWriter {
  private final GenerationRequest request;
  private final SimOptions options;
  private final String id;
  private final long created;
  private final String head;
  private final Set<Integer> opened = new HashSet<>();
  private int firstCachedTokens = -1;

  CompletionWriter(GenerationRequest request, SimOptions options, String id, long created) {
    this.request = request;
    this.options = options;
    this.id = id;
    this.created = created;
    StringBuilder text = new StringBuilder("data: {\"id\":");
    JsonText.string(text, id);
    text.append(",\"object\":\"text_completion\",\"created\":").append(created);
    text.append(",\"model\":");
    JsonText.string(text, request.model());
    head = text.append(",\"choices\":[").toString();
  }

  @Override
  public String token(
      GenerationApi.Answer answer, String text, EngineOutput.@Nullable Finish finish) {
    if (firstCachedTokens < 0) {
      firstCachedTokens = answer.cachedTokens();
    }
    boolean withPrompt = opened.add(answer.index()) && request.returnTokenIds();
    StringBuilder out = new StringBuilder(384);
    out.append(head).append("{\"index\":").append(answer.index()).append(",\"text\":");
    JsonText.string(out, text);
    out.append(",\"logprobs\":null,\"finish_reason\":");
    if (finish == null) {
      out.append("null");
    } else {
      out.append('"').append(finish.wire()).append('"');
    }
    out.append(",\"stop_reason\":null,\"prompt_token_ids\":");
    ChatWriter.ids(out, withPrompt ? answer.prompt() : null);
    out.append(",\"token_ids\":");
    ChatWriter.ids(out, request.returnTokenIds() ? new int[] {answer.lastId()} : null);
    out.append("}]");
    if (request.continuousUsage()) {
      int prompt = answer.prompt().length;
      out.append(",\"usage\":{\"prompt_tokens\":").append(prompt);
      out.append(",\"total_tokens\":").append(prompt + answer.tokens());
      out.append(",\"completion_tokens\":").append(answer.tokens()).append('}');
    }
    if (finish != null && !request.includeUsage()) {
      fingerprint(out);
    }
    return out.append("}\n\n").toString();
  }

  @Override
  public String end(List<GenerationApi.Answer> answers) {
    StringBuilder out = new StringBuilder(384);
    if (request.includeUsage()) {
      int prompt = request.totalPromptTokens();
      int generated = answers.stream().mapToInt(GenerationApi.Answer::tokens).sum();
      out.append(head).append("],\"usage\":{\"prompt_tokens\":").append(prompt);
      out.append(",\"total_tokens\":").append(prompt + generated);
      out.append(",\"completion_tokens\":").append(generated);
      if (options.promptTokensDetails()) {
        out.append(",\"prompt_tokens_details\":{\"cached_tokens\":").append(firstCachedTokens);
        out.append('}');
      }
      out.append('}');
      fingerprint(out);
      out.append("}\n\n");
    }
    return out.append("data: [DONE]\n\n").toString();
  }

  @Override
  public Json.Obj whole(List<GenerationApi.Answer> answers) {
    List<Json> choices = new ArrayList<>();
    for (GenerationApi.Answer answer : answers) {
      EngineOutput.Finish finish = answer.finish();
      choices.add(
          JsonText.obj(
              "index",
              answer.index(),
              "text",
              answer.text(),
              "logprobs",
              null,
              "finish_reason",
              finish == null ? null : finish.wire(),
              "stop_reason",
              null,
              "token_ids",
              request.returnTokenIds() ? answer.ids() : null,
              "prompt_logprobs",
              null,
              "prompt_token_ids",
              request.returnTokenIds() ? answer.prompt() : null,
              "routed_experts",
              null));
    }
    int prompt = request.totalPromptTokens();
    int generated = answers.stream().mapToInt(GenerationApi.Answer::tokens).sum();
    // Of several prompts, vLLM reports the cached tokens of the last one.
    Json.Obj details =
        JsonText.obj(
            "cached_tokens",
            answers.getLast().cachedTokens(),
            "created_cache_tokens",
            null,
            "multimodal_tokens",
            null);
    return JsonText.obj(
        "id",
        id,
        "object",
        "text_completion",
        "created",
        created,
        "model",
        request.model(),
        "choices",
        choices,
        "service_tier",
        null,
        "system_fingerprint",
        Replies.FINGERPRINT,
        "usage",
        JsonText.obj(
            "prompt_tokens",
            prompt,
            "total_tokens",
            prompt + generated,
            "completion_tokens",
            generated,
            "prompt_tokens_details",
            options.promptTokensDetails() ? details : null,
            "completion_tokens_details",
            null),
        "kv_transfer_params",
        null,
        "ec_transfer_params",
        null,
        "metrics",
        null);
  }

  private static void fingerprint(StringBuilder out) {
    out.append(",\"system_fingerprint\":\"").append(Replies.FINGERPRINT).append('"');
  }
}
