// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.InferenceRequest.Truncation;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * A request body on its way to an {@link InferenceRequest}: the fields that all dialects share, and
 * the notes made while its prompt is read. Lives on one thread for one parse.
 *
 * <p>Two kinds of notes. A <em>mistake</em> makes the body {@code Malformed}: only used where every
 * version of the worker must refuse too. A <em>doubt</em> leaves the request readable with a prompt
 * that is {@link Prompt.Unreadable}: the worker decides. The first note of each kind stays.
 */
final class Envelope {
  /** Output limits are clamped here, so that sums of estimates stay far from overflow. */
  private static final long MAX_OUTPUT_TOKENS = Integer.MAX_VALUE;

  private final ApiKind api;
  private final Json.Obj root;
  private final String model;
  private final boolean stream;
  private @Nullable Mistake mistake;
  private @Nullable String doubt;

  /** Whether media are all the doubt there is. */
  private boolean onlyMedia = true;

  private long textChars;

  /** Something that no worker can serve. */
  record Mistake(String message, String reason) {}

  Envelope(ApiKind api, Json.Obj root, String model, boolean stream) {
    this.api = api;
    this.root = root;
    this.model = model;
    this.stream = stream;
  }

  Json.Obj root() {
    return root;
  }

  ApiKind api() {
    return api;
  }

  boolean stream() {
    return stream;
  }

  /** The field's value; null when absent or JSON null, which the request models treat alike. */
  @Nullable Json get(String field) {
    return present(root, field);
  }

  static @Nullable Json present(Json.Obj object, String field) {
    Json value = object.get(field);
    return value == Json.Null.NULL ? null : value;
  }

  void mistake(String message, String reason) {
    if (mistake == null) {
      mistake = new Mistake(message, reason);
    }
  }

  void doubt(String reason) {
    onlyMedia = false;
    if (doubt == null) {
      doubt = reason;
    }
  }

  /** A doubt about a content part that is no text and stays in the message as it is. */
  void media(String reason) {
    if (doubt == null) {
      doubt = reason;
    }
  }

  @Nullable Mistake mistake() {
    return mistake;
  }

  /** Notes text that the model reads, for the size of a prompt that stays unreadable. */
  String text(String text) {
    textChars += text.length();
    return text;
  }

  /** Notes a value that the template writes out as JSON, by its strings. */
  void textOf(Json value) {
    switch (value) {
      case Json.Str(String s) -> textChars += s.length();
      case Json.Arr(var items) -> items.forEach(this::textOf);
      case Json.Obj(var fields) ->
          fields.forEach(
              (key, inner) -> {
                textChars += key.length();
                textOf(inner);
              });
      case Json.Null _, Json.Bool _, Json.Int _, Json.BigInt _, Json.Real _ -> {}
    }
  }

  /** An optional boolean option; a value that the worker would refuse is a doubt. */
  @Nullable Boolean option(String field) {
    Json value = get(field);
    if (value == null) {
      return null;
    }
    Boolean read = Lax.bool(value);
    if (read == null) {
      doubt("option_type");
    }
    return read;
  }

  /** An optional string option; a value that the worker would refuse is a doubt. */
  @Nullable String stringOption(Json.Obj object, String field) {
    Json value = present(object, field);
    if (value == null) {
      return null;
    }
    String read = value.asString();
    if (read == null) {
      doubt("option_type");
    }
    return read;
  }

  /** An optional object option; a value that the worker would refuse is a doubt. */
  Json.@Nullable Obj objectOption(Json.Obj object, String field) {
    Json value = present(object, field);
    if (value == null) {
      return null;
    }
    if (value instanceof Json.Obj obj) {
      return obj;
    }
    doubt("option_type");
    return null;
  }

  /**
   * Token ids that a prefill worker sent along; the decode worker then skips the template and the
   * tokenizer.
   */
  @Nullable Prompt forwardedTokens() {
    if (!(get("kv_transfer_params") instanceof Json.Obj transfer)
        || present(transfer, "prompt_token_ids") == null) {
      return null;
    }
    Json echo = get("echo");
    if (echo != null && !Boolean.FALSE.equals(Lax.bool(echo))) {
      return null;
    }
    int[] ids = TokenIds.of(transfer.get("prompt_token_ids"));
    if (ids == null || ids.length == 0) {
      doubt("prompt_token_ids");
      return null;
    }
    List<int[]> prompts = new ArrayList<>();
    prompts.add(ids);
    return new Prompt.Tokens(prompts);
  }

  OptionalLong outputTokens(String field) {
    Json value = get(field);
    return value == null ? OptionalLong.empty() : Lax.integer(value, 0, MAX_OUTPUT_TOKENS);
  }

  private @Nullable String cacheSalt() {
    Json value = get("cache_salt");
    if (value == null) {
      return null;
    }
    String salt = value.asString();
    if (salt == null || salt.isEmpty()) {
      doubt("cache_salt");
      return null;
    }
    return salt;
  }

  private @Nullable Truncation truncation() {
    Json value = get("truncate_prompt_tokens");
    if (value == null || api == ApiKind.RESPONSES || api == ApiKind.MESSAGES) {
      return null;
    }
    OptionalLong tokens = Lax.integer(value, -2, Long.MAX_VALUE);
    if (tokens.isEmpty() || tokens.getAsLong() < -1) {
      doubt("truncate_prompt_tokens");
      return null;
    }
    String side = stringOption(root, "truncation_side");
    if (side == null) {
      return new Truncation(tokens.getAsLong(), Truncation.Side.TOKENIZER_DEFAULT);
    }
    return switch (side) {
      case "left" -> new Truncation(tokens.getAsLong(), Truncation.Side.KEEP_LAST);
      case "right" -> new Truncation(tokens.getAsLong(), Truncation.Side.KEEP_FIRST);
      default -> {
        doubt("truncate_prompt_tokens");
        yield null;
      }
    };
  }

  /**
   * The finished request.
   *
   * @param prompt what was read, replaced by {@link Prompt.Unreadable} when there is a doubt
   */
  InferenceRequest request(
      Prompt prompt,
      boolean includeUsage,
      OptionalLong maxTokens,
      int promptCount,
      @Nullable String previousResponseId) {
    String salt = cacheSalt();
    Truncation truncation = truncation();
    Prompt known =
        doubt == null
            ? prompt
            : new Prompt.Unreadable(
                doubt,
                (int) Math.min(textChars, Integer.MAX_VALUE),
                onlyMedia && prompt instanceof Prompt.Chat chat ? chat : null);
    return new InferenceRequest(
        api,
        model,
        known,
        stream,
        includeUsage,
        maxTokens,
        salt,
        promptCount,
        previousResponseId,
        truncation);
  }
}
