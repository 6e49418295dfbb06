// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.Json;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Objects;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/**
 * OpenAI {@code /v1/responses} answers as vLLM 0.32 writes them: two events at once, then the text,
 * then everything again in the closing events. Nothing is stored for a later request.
 */
final class ResponsesWriter implements GenerationApi.AnswerWriter {
  private final GenerationRequest request;
  private final BodyFields body;
  private final SimOptions options;
  private final String id;
  private final String itemId;
  private final long created;
  private int sequence;
  private boolean opened;

  /**
   * @param body the request's fields, some of which are repeated in the answer
   */
  ResponsesWriter(
      GenerationRequest request,
      BodyFields body,
      SimOptions options,
      String id,
      String itemId,
      long created) {
    this.request = request;
    this.body = body;
    this.options = options;
    this.id = id;
    this.itemId = itemId;
    this.created = created;
  }

  @Override
  public String start() {
    StringBuilder out = new StringBuilder(1024);
    Json.Obj begun = response(null);
    event(out, "response.created", JsonText.obj("response", begun));
    event(out, "response.in_progress", JsonText.obj("response", begun));
    return out.toString();
  }

  @Override
  public String token(
      GenerationApi.Answer answer, String text, EngineOutput.@Nullable Finish finish) {
    StringBuilder out = new StringBuilder(512);
    if (!opened) {
      opened = true;
      event(
          out,
          "response.output_item.added",
          JsonText.obj("item", item(List.of(), "in_progress"), "output_index", 0));
      event(
          out,
          "response.content_part.added",
          JsonText.obj(
              "content_index",
              0,
              "item_id",
              itemId,
              "output_index",
              0,
              "part",
              part("", List.of())));
    }
    if (!text.isEmpty()) {
      event(
          out,
          "response.output_text.delta",
          JsonText.obj(
              "content_index",
              0,
              "delta",
              text,
              "item_id",
              itemId,
              "logprobs",
              List.of(),
              "output_index",
              0));
    }
    return out.toString();
  }

  @Override
  public String end(List<GenerationApi.Answer> answers) {
    GenerationApi.Answer answer = answers.getFirst();
    StringBuilder out = new StringBuilder(2048);
    event(
        out,
        "response.output_text.done",
        JsonText.obj(
            "content_index", 0, "item_id", itemId, "logprobs", List.of(), "output_index", 0),
        "text",
        answer.text());
    Json part = part(answer.text(), null);
    event(
        out,
        "response.content_part.done",
        JsonText.obj("content_index", 0, "item_id", itemId, "output_index", 0, "part", part));
    event(
        out,
        "response.output_item.done",
        JsonText.obj("item", item(List.of(part), "completed"), "output_index", 0));
    event(out, "response.completed", JsonText.obj("response", response(answer)));
    return out.toString();
  }

  @Override
  public Json.Obj whole(List<GenerationApi.Answer> answers) {
    return response(answers.getFirst());
  }

  /** The response object, as begun when there is no answer yet. */
  private Json.Obj response(GenerationApi.@Nullable Answer answer) {
    boolean cut = answer != null && answer.finish() == EngineOutput.Finish.LENGTH;
    return JsonText.obj(
        "id",
        id,
        "created_at",
        created,
        "incomplete_details",
        cut ? JsonText.obj("reason", "max_output_tokens") : null,
        "instructions",
        body.text("instructions"),
        "metadata",
        null,
        "model",
        request.model(),
        "object",
        "response",
        "output",
        answer == null ? List.of() : List.of(item(List.of(part(answer.text(), null)), "completed")),
        "parallel_tool_calls",
        true,
        "temperature",
        Objects.requireNonNullElse(body.number("temperature"), 1.0),
        "tool_choice",
        "none",
        "tools",
        List.of(),
        "top_p",
        Objects.requireNonNullElse(body.number("top_p"), 1.0),
        "background",
        false,
        "max_output_tokens",
        request.maxTokens(),
        "max_tool_calls",
        null,
        "previous_response_id",
        null,
        "prompt",
        null,
        "reasoning",
        null,
        "service_tier",
        "auto",
        "status",
        answer == null ? "in_progress" : cut ? "incomplete" : "completed",
        "text",
        null,
        "top_logprobs",
        null,
        "truncation",
        "disabled",
        "usage",
        answer == null ? null : usage(answer),
        "user",
        null,
        "presence_penalty",
        0.0,
        "frequency_penalty",
        0.0,
        "kv_transfer_params",
        null,
        "ec_transfer_params",
        null,
        "input_messages",
        null,
        "output_messages",
        null);
  }

  private Json.Obj usage(GenerationApi.Answer answer) {
    int prompt = answer.prompt().length;
    return JsonText.obj(
        "input_tokens",
        prompt,
        "input_tokens_details",
        JsonText.obj(
            "cached_tokens",
            options.promptTokensDetails() ? answer.cachedTokens() : 0,
            "cache_write_tokens",
            0,
            "input_tokens_per_turn",
            List.of(),
            "cached_tokens_per_turn",
            List.of()),
        "output_tokens",
        answer.tokens(),
        "output_tokens_details",
        JsonText.obj(
            "reasoning_tokens",
            0,
            "tool_output_tokens",
            0,
            "output_tokens_per_turn",
            List.of(),
            "tool_output_tokens_per_turn",
            List.of()),
        "total_tokens",
        prompt + answer.tokens());
  }

  private Json item(List<Json> content, String status) {
    return JsonText.obj(
        "id",
        itemId,
        "content",
        content,
        "role",
        "assistant",
        "status",
        status,
        "type",
        "message",
        "phase",
        null);
  }

  private static Json part(String text, @Nullable List<Json> logprobs) {
    return JsonText.obj(
        "annotations", List.of(), "text", text, "type", "output_text", "logprobs", logprobs);
  }

  /**
   * Appends an event: its fields, the running number, further fields, its type; as pydantic sorts
   * them.
   */
  private void event(
      StringBuilder out, String type, Json.Obj fields, @Nullable Object... afterNumber) {
    SequencedMap<String, Json> all = new LinkedHashMap<>(fields.fields());
    all.put("sequence_number", new Json.Int(sequence++));
    all.putAll(JsonText.obj(afterNumber).fields());
    all.put("type", new Json.Str(type));
    out.append("event: ").append(type).append("\ndata: ");
    out.append(JsonText.write(new Json.Obj(all))).append("\n\n");
  }
}
