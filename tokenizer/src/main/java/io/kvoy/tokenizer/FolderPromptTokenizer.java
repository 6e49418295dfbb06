// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.encode.TextEncoder;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToIntFunction;

/**
 * The tokenizer of one model folder: chat template, then encoder, with vLLM's choice of special
 * tokens (true for completions, false for chat; vLLM 0.32 {@code entrypoints/openai}). Thread-safe,
 * immutable.
 *
 * <p>Whatever cannot be computed exactly comes back as an estimate with a reason, from this closed
 * list besides those of {@link Prompt.Unreadable}: {@code template_refused}, {@code
 * template_feature}, {@code template_failed}, {@code lone_surrogate}, {@code encoder_failed}.
 */
public final class FolderPromptTokenizer implements PromptTokenizer {

  /**
   * Characters per token for estimates: 3.7-4.4 on mixed English and Python text with the
   * tokenizers of Qwen 3, Llama 3.1, DeepSeek V3, gpt-oss and Gemma 3.
   */
  static final int CHARS_PER_TOKEN = 4;

  private final TextEncoder encoder;
  private final ChatText chatText;

  public FolderPromptTokenizer(TextEncoder encoder, ChatText chatText) {
    this.encoder = encoder;
    this.chatText = chatText;
  }

  @Override
  public Tokenization tokenize(Prompt prompt) {
    return switch (prompt) {
      case Prompt.Tokens(List<int[]> prompts) -> new Tokenization.Exact(prompts);
      case Prompt.Texts(List<String> texts, boolean addSpecialTokens) ->
          encode(texts, addSpecialTokens);
      case Prompt.Unreadable(String reason, int approxChars) -> estimated(approxChars, reason);
      case Prompt.Chat chat -> tokenizeChat(chat);
    };
  }

  private Tokenization tokenizeChat(Prompt.Chat chat) {
    return switch (render(chat)) {
      case ChatText.Rendering.Rendered(String text) ->
          encode(List.of(text), addSpecialTokens(chat.options()));
      case ChatText.Rendering.Refused _ -> estimated(charsOf(chat), "template_refused");
      case ChatText.Rendering.Unsupported _ -> estimated(charsOf(chat), "template_feature");
      case ChatText.Rendering.Failed _ -> estimated(charsOf(chat), "template_failed");
    };
  }

  /**
   * False unless the request says so; true for the responses API, which has no such field (vLLM
   * 0.32 {@code openai/responses/protocol.py} build_tok_params). A Llama prompt of that API has two
   * BOS.
   */
  private static boolean addSpecialTokens(ChatOptions options) {
    Boolean asked = options.addSpecialTokens();
    return asked == null ? options.source() == ApiKind.RESPONSES : asked;
  }

  private ChatText.Rendering render(Prompt.Chat chat) {
    try {
      return chatText.render(chat);
    } catch (RuntimeException | StackOverflowError _) {
      // A bug there must cost one prediction, not the request; its message may quote the prompt.
      return new ChatText.Rendering.Failed("exception");
    }
  }

  private Tokenization encode(List<String> texts, boolean addSpecialTokens) {
    try {
      var prompts = new ArrayList<int[]>(texts.size());
      for (String text : texts) {
        int[] ids = encoder.encode(text, addSpecialTokens);
        if (ids == null) {
          return estimated(total(texts, String::length), "lone_surrogate");
        }
        prompts.add(ids);
      }
      return new Tokenization.Exact(prompts);
    } catch (RuntimeException _) {
      return estimated(total(texts, String::length), "encoder_failed");
    }
  }

  private static Tokenization.Estimated estimated(int chars, String reason) {
    return new Tokenization.Estimated(Math.ceilDiv(Math.max(0, chars), CHARS_PER_TOKEN), reason);
  }

  private static int charsOf(Prompt.Chat chat) {
    return saturated(
        (long) total(chat.messages(), FolderPromptTokenizer::charsOf)
            + total(chat.tools(), FolderPromptTokenizer::charsOf));
  }

  private static int charsOf(Json value) {
    return switch (value) {
      case Json.Str(String text) -> text.length();
      case Json.Arr(List<Json> items) -> total(items, FolderPromptTokenizer::charsOf);
      case Json.Obj object -> total(object.fields().values(), FolderPromptTokenizer::charsOf);
      case Json.Null _, Json.Bool _, Json.Int _, Json.BigInt _, Json.Real _ -> 1;
    };
  }

  private static <T> int total(Iterable<? extends T> parts, ToIntFunction<T> chars) {
    long sum = 0;
    for (T part : parts) {
      sum += chars.applyAsInt(part);
    }
    return saturated(sum);
  }

  private static int saturated(long chars) {
    return (int) Math.min(chars, Integer.MAX_VALUE);
  }
}
