// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.inference.Json;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Anthropic {@code /v1/messages} answers as vLLM 0.32 writes them. The first event of a stream
 * counts the whole prompt as input, the last one only what was neither found in the cache nor newly
 * put there.
 */
final class MessagesWriter implements GenerationApi.AnswerWriter {
  private final GenerationRequest request;
  private final SimOptions options;
  private final String id;
  private boolean opened;
  private boolean blockOpened;

  MessagesWriter(GenerationRequest request, SimOptions options, String id) {
    this.request = request;
    this.options = options;
    this.id = id;
  }

  @Override
  public String token(
      GenerationApi.Answer answer, String text, EngineOutput.@Nullable Finish finish) {
    StringBuilder out = new StringBuilder(512);
    if (!opened) {
      opened = true;
      event(
          out,
          "message_start",
          JsonText.obj(
              "type",
              "message_start",
              "message",
              JsonText.obj(
                  "id",
                  id,
                  "type",
                  "message",
                  "role",
                  "assistant",
                  "content",
                  List.of(),
                  "model",
                  request.model(),
                  "stop_reason",
                  null,
                  "stop_sequence",
                  null,
                  "usage",
                  JsonText.obj("input_tokens", answer.prompt().length, "output_tokens", 0))));
    }
    if (!text.isEmpty()) {
      if (!blockOpened) {
        blockOpened = true;
        event(
            out,
            "content_block_start",
            JsonText.obj(
                "type",
                "content_block_start",
                "content_block",
                JsonText.obj("type", "text", "text", ""),
                "index",
                0));
      }
      out.append(
          "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":"
              + "{\"type\":\"text_delta\",\"text\":");
      JsonText.string(out, text);
      out.append("},\"index\":0}\n\n");
    }
    return out.toString();
  }

  @Override
  public String end(List<GenerationApi.Answer> answers) {
    GenerationApi.Answer answer = answers.getFirst();
    StringBuilder out = new StringBuilder(512);
    if (blockOpened) {
      event(out, "content_block_stop", JsonText.obj("type", "content_block_stop", "index", 0));
    }
    event(
        out,
        "message_delta",
        JsonText.obj(
            "type",
            "message_delta",
            "delta",
            JsonText.obj("stop_reason", stopReason(answer), "stop_sequence", null),
            "usage",
            usage(answer)));
    event(out, "message_stop", JsonText.obj("type", "message_stop"));
    return out.toString();
  }

  @Override
  public Json.Obj whole(List<GenerationApi.Answer> answers) {
    GenerationApi.Answer answer = answers.getFirst();
    return JsonText.obj(
        "id",
        id,
        "type",
        "message",
        "role",
        "assistant",
        "content",
        List.of(JsonText.obj("type", "text", "text", answer.text())),
        "model",
        request.model(),
        "stop_reason",
        stopReason(answer),
        "usage",
        usage(answer));
  }

  private Json.Obj usage(GenerationApi.Answer answer) {
    int prompt = answer.prompt().length;
    if (!options.promptTokensDetails()) {
      return JsonText.obj("input_tokens", prompt, "output_tokens", answer.tokens());
    }
    return JsonText.obj(
        "input_tokens",
        Math.max(0, prompt - answer.cachedTokens() - answer.createdCacheTokens()),
        "output_tokens",
        answer.tokens(),
        "cache_creation_input_tokens",
        answer.createdCacheTokens(),
        "cache_read_input_tokens",
        answer.cachedTokens());
  }

  private static @Nullable String stopReason(GenerationApi.Answer answer) {
    return switch (answer.finish()) {
      case STOP -> "end_turn";
      case LENGTH -> "max_tokens";
      case null -> null;
    };
  }

  private static void event(StringBuilder out, String name, Json.Obj data) {
    out.append("event: ").append(name).append("\ndata: ").append(JsonText.write(data));
    out.append("\n\n");
  }
}
