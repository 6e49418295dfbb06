// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * {@code /v1/completions} (vLLM 0.32 {@code entrypoints/openai/completion/protocol.py}): a text,
 * texts, token ids, or arrays of token ids.
 */
final class CompletionsDialect {
  /** {@code CompletionRequest.max_tokens}: what a missing or null limit means. */
  private static final long DEFAULT_MAX_TOKENS = 16;

  /**
   * Prompts of one request that are looked at. vLLM takes more, but each costs a look-up of its own
   * however short it is, and 2 MB hold half a million of them.
   */
  static final int MAX_PROMPTS = 256;

  private CompletionsDialect() {}

  static InferenceRequest read(Envelope envelope) {
    Prompt prompt = prompt(envelope);
    int count =
        switch (prompt) {
          case Prompt.Texts(List<String> texts, boolean _) -> texts.size();
          case Prompt.Tokens(List<int[]> prompts) -> prompts.size();
          case Prompt.Chat _, Prompt.Unreadable _ -> 1;
        };
    if (envelope.get("prompt_embeds") != null) {
      envelope.doubt("prompt_embeds");
    }
    Prompt forwarded = envelope.forwardedTokens();
    OptionalLong maxTokens =
        envelope.get("max_tokens") == null
            ? OptionalLong.of(DEFAULT_MAX_TOKENS)
            : envelope.outputTokens("max_tokens");
    return envelope.request(
        forwarded != null ? forwarded : prompt,
        StreamOptions.includeUsage(envelope),
        maxTokens,
        forwarded != null ? 1 : Math.max(1, count),
        null);
  }

  private static Prompt prompt(Envelope envelope) {
    return switch (envelope.get("prompt")) {
      case null -> {
        if (envelope.get("prompt_embeds") == null) {
          envelope.mistake("field prompt is required", "missing_field");
        }
        yield nothing();
      }
      case Json.Str(String text) -> texts(List.of(text), envelope);
      case Json.Arr(List<Json> items) -> ofArray(items, envelope);
      case Json _ -> {
        envelope.mistake("field prompt must be a string or an array", "field_type");
        yield nothing();
      }
    };
  }

  private static Prompt ofArray(List<Json> items, Envelope envelope) {
    if (items.isEmpty()) {
      envelope.doubt("empty_prompt");
      return nothing();
    }
    return switch (items.getFirst()) {
      case Json.Str _ -> ofStrings(items, envelope);
      case Json.Arr _ when items.size() > MAX_PROMPTS -> {
        envelope.doubt("many_prompts");
        yield nothing();
      }
      case Json.Arr _ -> ofIdArrays(items, envelope);
      case Json.Int _ -> {
        List<int[]> prompts = new ArrayList<>();
        addIds(new Json.Arr(items), prompts, envelope);
        yield new Prompt.Tokens(prompts);
      }
      case Json.Null _, Json.Bool _, Json.BigInt _, Json.Real _, Json.Obj _ -> {
        envelope.doubt("prompt_type");
        yield nothing();
      }
    };
  }

  private static Prompt ofStrings(List<Json> items, Envelope envelope) {
    if (items.size() > MAX_PROMPTS) {
      envelope.doubt("many_prompts");
    }
    List<String> texts = new ArrayList<>(items.size());
    for (Json item : items) {
      if (item instanceof Json.Str(String text)) {
        texts.add(text);
      } else {
        envelope.doubt("prompt_type");
      }
    }
    return texts(texts, envelope);
  }

  private static Prompt ofIdArrays(List<Json> items, Envelope envelope) {
    List<int[]> prompts = new ArrayList<>(items.size());
    items.forEach(item -> addIds(item, prompts, envelope));
    return new Prompt.Tokens(prompts);
  }

  private static void addIds(Json item, List<int[]> prompts, Envelope envelope) {
    int[] ids = TokenIds.of(item);
    if (ids == null) {
      envelope.doubt("prompt_type");
    } else if (ids.length == 0) {
      envelope.doubt("empty_prompt");
    } else {
      prompts.add(ids);
    }
  }

  private static Prompt texts(List<String> texts, Envelope envelope) {
    for (String text : texts) {
      envelope.text(text);
      if (text.isEmpty()) {
        envelope.doubt("empty_prompt");
      }
    }
    Boolean addSpecialTokens = envelope.option("add_special_tokens");
    return new Prompt.Texts(texts, addSpecialTokens == null || addSpecialTokens);
  }

  /** Stands in where a note makes the prompt unreadable or the body malformed. */
  private static Prompt nothing() {
    return new Prompt.Texts(List.of(), true);
  }
}
