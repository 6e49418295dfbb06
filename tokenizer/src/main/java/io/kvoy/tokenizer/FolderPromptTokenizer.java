// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import static java.util.Objects.requireNonNull;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.tokenizer.chat.ConversationMemory;
import io.kvoy.tokenizer.chat.HarmonyResult;
import io.kvoy.tokenizer.encode.CutPoints;
import io.kvoy.tokenizer.encode.EncodedText;
import io.kvoy.tokenizer.encode.PieceEncoder;
import io.kvoy.tokenizer.encode.PostProcessor;
import io.kvoy.tokenizer.encode.SegmentCache;
import io.kvoy.tokenizer.encode.TextEncoder;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.ToIntFunction;
import org.jspecify.annotations.Nullable;

/**
 * The tokenizer of one model folder: chat template, then encoder, with vLLM's choice of special
 * tokens (true for completions, false for chat; vLLM 0.32 {@code entrypoints/openai}). Thread-safe,
 * immutable.
 *
 * <p>Whatever cannot be computed exactly comes back as an estimate with a reason, from this closed
 * list besides those of {@link Prompt.Unreadable}: {@code template_refused}, {@code
 * template_feature.} and the feature's name, {@code template_failed}, {@code lone_surrogate},
 * {@code unencodable_piece} (the same, or a control token that the vocabulary lacks), {@code
 * encoder_failed}.
 */
public final class FolderPromptTokenizer implements PromptTokenizer {

  /**
   * Characters per token for estimates: 3.7-4.4 on mixed English and Python text with the
   * tokenizers of Qwen 3, Llama 3.1, DeepSeek V3, gpt-oss and Gemma 3.
   */
  static final int CHARS_PER_TOKEN = 4;

  private static final int[] NOTHING = new int[0];

  /** Metric words have 48 characters at most. */
  private static final int MAX_FEATURE_CHARS = 31;

  private final TextEncoder encoder;
  private final ChatText chatText;
  private final @Nullable PieceEncoder pieces;

  private final @Nullable CutPoints cutPoints;
  private final @Nullable PostProcessor postProcessor;
  private final InferenceRequest.Truncation.Side ownSide;
  private final @Nullable Memories memories;

  /**
   * What makes the next turn of a conversation cheap.
   *
   * @param segments the encoder, which remembers too
   * @param postProcessor that of its file
   */
  private record Memories(
      SegmentCache segments, ConversationMemory conversations, PostProcessor postProcessor) {}

  /** For a file that adds no special tokens and has no cut points. */
  FolderPromptTokenizer(TextEncoder encoder, ChatText chatText) {
    this(
        encoder,
        chatText,
        null,
        null,
        PostProcessor.NONE,
        InferenceRequest.Truncation.Side.TOKENIZER_DEFAULT,
        0);
  }

  /**
   * @param pieces encodes what the renderer hands over in pieces; null when it never does
   * @param cutPoints of the encoder's file, null when it has none
   * @param postProcessor of the encoder's file, null when it does what nobody here understands
   * @param ownSide what the tokenizer keeps of a prompt when a request has it cut at no given side
   * @param conversationBytes memory for remembered conversations, 0 for none; only with an encoder
   *     that remembers text
   */
  public FolderPromptTokenizer(
      TextEncoder encoder,
      ChatText chatText,
      @Nullable PieceEncoder pieces,
      @Nullable CutPoints cutPoints,
      @Nullable PostProcessor postProcessor,
      InferenceRequest.Truncation.Side ownSide,
      long conversationBytes) {
    this.memories =
        conversationBytes > 0
                && pieces == null
                && postProcessor != null
                && encoder instanceof SegmentCache segments
            ? new Memories(segments, new ConversationMemory(conversationBytes), postProcessor)
            : null;
    this.ownSide = ownSide;
    this.encoder = encoder;
    this.chatText = chatText;
    this.pieces = pieces;
    this.cutPoints = cutPoints;
    this.postProcessor = postProcessor;
  }

  @Override
  public Tokenization tokenize(Prompt prompt) {
    return switch (prompt) {
      case Prompt.Tokens(List<int[]> prompts) -> new Tokenization.Exact(prompts);
      case Prompt.Texts(List<String> texts, boolean addSpecialTokens) ->
          encode(texts, addSpecialTokens);
      case Prompt.Unreadable(String reason, int approxChars, Prompt.Chat readable) -> {
        Tokenization.Estimated bySize = estimated(approxChars, reason);
        int[] prefix = readable == null ? NOTHING : idsBeforeMedia(readable);
        yield prefix.length == 0
            ? bySize
            : new Tokenization.Estimated(Math.max(bySize.tokens(), prefix.length), reason, prefix);
      }
      case Prompt.Chat chat -> tokenizeChat(chat);
    };
  }

  @Override
  public Tokenization tokenize(InferenceRequest request) {
    Tokenization whole = tokenize(request.prompt());
    InferenceRequest.Truncation truncation = request.truncation();
    if (truncation == null) {
      return whole;
    }
    if (truncation.side() == InferenceRequest.Truncation.Side.TOKENIZER_DEFAULT) {
      truncation = new InferenceRequest.Truncation(truncation.maxTokens(), ownSide);
    }
    return switch (request.prompt()) {
      case Prompt.Tokens _, Prompt.Unreadable _ -> whole.truncated(truncation, 0, 0);
      case Prompt.Texts(List<String> _, boolean addSpecialTokens) ->
          truncated(whole, truncation, addSpecialTokens);
      case Prompt.Chat chat ->
          // Harmony prompts never meet the tokenizer that would cut them (vLLM 0.32
          // renderers/online_renderer.py _make_request_with_harmony).
          pieces != null ? whole : truncated(whole, truncation, addSpecialTokens(chat.options()));
    };
  }

  private Tokenization truncated(
      Tokenization whole, InferenceRequest.Truncation truncation, boolean hasSpecialTokens) {
    if (!hasSpecialTokens) {
      return whole.truncated(truncation, 0, 0);
    }
    return postProcessor != null
        ? whole.truncated(truncation, postProcessor.before().size(), postProcessor.after().size())
        : whole instanceof Tokenization.Exact exact
            ? new Tokenization.Estimated(exact.totalTokens(), "truncation")
            : whole;
  }

  @Override
  public long memoryBytes() {
    return encoder.memoryBytes()
        + (pieces == null ? 0 : pieces.memoryBytes())
        + (memories == null ? 0 : memories.conversations.bytes());
  }

  private Tokenization tokenizeChat(Prompt.Chat chat) {
    return switch (render(chat, memories == null ? null : memories.conversations)) {
      case ChatText.Rendering.Rendered(String text) ->
          encode(List.of(text), addSpecialTokens(chat.options()));
      case ChatText.Rendering.Recalled(var turn, List<String> parts) -> encode(turn, parts, chat);
      case ChatText.Rendering.Pieces(HarmonyResult.Rendered prompt) -> encode(prompt, chat);
      case ChatText.Rendering.Refused _ -> estimated(charsOf(chat), "template_refused");
      case ChatText.Rendering.Unsupported(String feature) ->
          estimated(charsOf(chat), featureReason(feature));
      case ChatText.Rendering.Failed _ -> estimated(charsOf(chat), "template_failed");
    };
  }

  /** The ids of what comes before the first message with an image or the like. */
  private int[] idsBeforeMedia(Prompt.Chat chat) {
    Prompt.Chat marked = TextBeforeMedia.marked(chat);
    boolean addSpecialTokens = addSpecialTokens(chat.options());
    if (marked == null
        || cutPoints == null
        || postProcessor == null
        || (addSpecialTokens && !postProcessor.after().isEmpty())
        || !(render(marked, null) instanceof ChatText.Rendering.Rendered(String text))) {
      return NOTHING;
    }
    int end = cutPoints.lastBy(text, TextBeforeMedia.markIn(text));
    return end > 0
            && encode(List.of(text.substring(0, end)), addSpecialTokens)
                instanceof Tokenization.Exact exact
        ? exact.prompts().getFirst()
        : NOTHING;
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

  /** Encodes what is new in a conversation, and remembers it. */
  private Tokenization encode(ConversationMemory.Turn turn, List<String> parts, Prompt.Chat chat) {
    Memories remembering = requireNonNull(memories);
    try {
      EncodedText text = remembering.segments.encode(parts, turn.before());
      if (text == null) {
        return estimated(charsOf(chat), "lone_surrogate");
      }
      remembering.conversations.keep(turn, text);
      PostProcessor adds = remembering.postProcessor;
      if (addSpecialTokens(chat.options()) && !adds.equals(PostProcessor.NONE)) {
        return new Tokenization.Exact(List.of(adds.around(text.ids().toArray())));
      }
      return new Tokenization.Exact(
          List.of(text.ids()),
          new Tokenization.Growth(text.sharedIds(), text.keptBefore(), text.kept()));
    } catch (RuntimeException _) {
      return estimated(charsOf(chat), "encoder_failed");
    }
  }

  private ChatText.Rendering render(Prompt.Chat chat, @Nullable ConversationMemory memory) {
    try {
      return memory == null ? chatText.render(chat) : chatText.render(chat, memory);
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

  private Tokenization encode(HarmonyResult.Rendered rendered, Prompt.Chat chat) {
    if (pieces == null) {
      return estimated(charsOf(chat), featureReason("pieces"));
    }
    PieceEncoder.Prompt prompt = pieces.prompt(charsOf(chat));
    for (HarmonyResult.Segment segment : rendered.segments()) {
      switch (segment) {
        case HarmonyResult.Segment.Marker(String token) -> prompt.control(token);
        case HarmonyResult.Segment.Text(String text) -> prompt.text(text);
      }
    }
    try {
      int[] ids = prompt.encode();
      return ids == null
          ? estimated(charsOf(chat), "unencodable_piece")
          : new Tokenization.Exact(List.of(ids));
    } catch (RuntimeException _) {
      return estimated(charsOf(chat), "encoder_failed");
    }
  }

  /** With the feature's name behind a dot, in letters that a metric takes. */
  static String featureReason(String feature) {
    String word = feature.toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9_]+", "_");
    return "template_feature." + word.substring(0, Math.min(word.length(), MAX_FEATURE_CHARS));
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
