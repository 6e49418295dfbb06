// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.Json;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * {@code /v1/chat/completions} answers, key for key as vLLM 0.32 writes them: a chunk with the role
 * and no text when the first token is there, then a chunk per token, usage if asked for, {@code
 * [DONE]}.
 */
final class ChatWriter implements GenerationApi.AnswerWriter {
  private final GenerationRequest request;
  private final SimOptions options;
  private final String id;
  private final long created;
  private final String head;
  private final Set<Integer> opened = new HashSet<>();

  ChatWriter(GenerationRequest request, SimOptions options, String id, long created) {
    this.request = request;
    this.options = options;
    this.id = id;
    this.created = created;
    StringBuilder text = new StringBuilder("data: {\"id\":");
    JsonText.string(text, id);
    text.append(",\"object\":\"chat.completion.chunk\",\"created\":").append(created);
    text.append(",\"model\":");
    JsonText.string(text, request.model());
    head = text.append(",\"choices\":[").toString();
  }

  @Override
  public String token(
      GenerationApi.Answer answer, String text, EngineOutput.@Nullable Finish finish) {
    StringBuilder out = new StringBuilder(512);
    if (opened.add(answer.index())) {
      out.append(head).append("{\"index\":").append(answer.index());
      out.append(
          ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}]");
      usageSoFar(out, answer.prompt().length, 0);
      out.append(",\"prompt_token_ids\":");
      ids(out, request.returnTokenIds() ? answer.prompt() : null);
      out.append(",\"prompt_text\":null}\n\n");
    }
    out.append(head).append("{\"index\":").append(answer.index());
    out.append(",\"delta\":{\"content\":");
    JsonText.string(out, text);
    out.append("},\"logprobs\":null,\"finish_reason\":");
    if (finish == null) {
      out.append("null");
    } else {
      out.append('"').append(finish.wire()).append("\",\"stop_reason\":null");
    }
    out.append(",\"token_ids\":");
    ids(out, request.returnTokenIds() ? new int[] {answer.lastId()} : null);
    out.append("}]");
    usageSoFar(out, answer.prompt().length, answer.tokens());
    if (finish != null && !request.includeUsage()) {
      fingerprint(out);
    }
    return out.append("}\n\n").toString();
  }

  @Override
  public String end(List<GenerationApi.Answer> answers) {
    StringBuilder out = new StringBuilder(512);
    if (request.includeUsage()) {
      int prompt = request.totalPromptTokens();
      int generated = answers.stream().mapToInt(GenerationApi.Answer::tokens).sum();
      out.append(head).append("],\"usage\":{\"prompt_tokens\":").append(prompt);
      out.append(",\"total_tokens\":").append(prompt + generated);
      out.append(",\"completion_tokens\":").append(generated);
      if (options.promptTokensDetails()) {
        GenerationApi.Answer first = answers.getFirst();
        out.append(",\"prompt_tokens_details\":{\"cached_tokens\":").append(first.cachedTokens());
        out.append(",\"created_cache_tokens\":").append(first.createdCacheTokens()).append('}');
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
              "message",
              JsonText.obj(
                  "role",
                  "assistant",
                  "content",
                  answer.text(),
                  "refusal",
                  null,
                  "annotations",
                  null,
                  "audio",
                  null,
                  "function_call",
                  null,
                  "reasoning",
                  null),
              "logprobs",
              null,
              "finish_reason",
              finish == null ? null : finish.wire(),
              "stop_reason",
              null,
              "token_ids",
              request.returnTokenIds() ? answer.ids() : null,
              "routed_experts",
              null));
    }
    GenerationApi.Answer first = answers.getFirst();
    int prompt = request.totalPromptTokens();
    int generated = answers.stream().mapToInt(GenerationApi.Answer::tokens).sum();
    Json.Obj details =
        JsonText.obj(
            "cached_tokens",
            first.cachedTokens(),
            "created_cache_tokens",
            first.createdCacheTokens(),
            "multimodal_tokens",
            null);
    return JsonText.obj(
        "id",
        id,
        "object",
        "chat.completion",
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
        "prompt_logprobs",
        null,
        "prompt_token_ids",
        request.returnTokenIds() ? first.prompt() : null,
        "prompt_text",
        null,
        "kv_transfer_params",
        null,
        "ec_transfer_params",
        null,
        "metrics",
        null);
  }

  private void usageSoFar(StringBuilder out, int prompt, int generated) {
    if (request.continuousUsage()) {
      out.append(",\"usage\":{\"prompt_tokens\":").append(prompt);
      out.append(",\"total_tokens\":").append(prompt + generated);
      out.append(",\"completion_tokens\":").append(generated);
      out.append(",\"completion_tokens_details\":null}");
    }
  }

  private static void fingerprint(StringBuilder out) {
    out.append(",\"system_fingerprint\":\"").append(Replies.FINGERPRINT).append('"');
  }

  static void ids(StringBuilder out, int @Nullable [] ids) {
    if (ids == null) {
      out.append("null");
      return;
    }
    out.append('[');
    for (int i = 0; i < ids.length; i++) {
      out.append(i == 0 ? "" : ",").append(ids[i]);
    }
    out.append(']');
  }
}
