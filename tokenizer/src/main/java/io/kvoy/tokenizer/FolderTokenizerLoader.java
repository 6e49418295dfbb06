// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.inference.InferenceRequest;
import io.kvoy.tokenizer.bpe.BpeFileRead;
import io.kvoy.tokenizer.bpe.BpeFileReader;
import io.kvoy.tokenizer.bpe.BpeTextEncoder;
import io.kvoy.tokenizer.bpe.DifferentialCheck;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.encode.CutPoints;
import io.kvoy.tokenizer.encode.DjlTextEncoder;
import io.kvoy.tokenizer.encode.PieceEncoder;
import io.kvoy.tokenizer.encode.PostProcessor;
import io.kvoy.tokenizer.encode.SegmentCache;
import io.kvoy.tokenizer.encode.TextEncoder;
import io.kvoy.tokenizer.encode.UnmarkedTextEncoder;
import io.kvoy.tokenizer.files.AddedToken;
import io.kvoy.tokenizer.files.FolderProblem;
import io.kvoy.tokenizer.files.FolderRead;
import io.kvoy.tokenizer.files.TokenizerFolder;
import io.kvoy.tokenizer.files.TokenizerFolderReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Reads a folder, chooses and builds its encoder, and builds its chat renderer. Holds the large
 * file only while it works.
 *
 * <p>The reference library is always built. When the fast encoder knows the file and gives the same
 * ids on everything that {@link DifferentialCheck} tries, it serves and the reference is closed
 * again; otherwise the reference serves. Either way a {@link SegmentCache} in front makes the next
 * turn of a conversation cheap, where the file has cut points.
 */
public final class FolderTokenizerLoader implements TokenizerLoader {

  /**
   * How to build encoders.
   *
   * @param segmentCacheBytes memory for remembered text per folder, and as much again for
   *     remembered conversations; 0 for none. gpt-oss has two caches of text, one for chats, one
   *     for completions
   * @param checkBudget time for comparing random texts before the fast encoder may serve; zero or
   *     less: the reference serves always
   */
  public record Settings(long segmentCacheBytes, Duration checkBudget) {

    /** 64 MiB hold about 150 conversations of 32k tokens. */
    public static final Settings DEFAULT = new Settings(64L << 20, Duration.ofMillis(500));
  }

  private final ChatTextFactory chatTexts;
  private final Settings settings;

  /** With {@link Settings#DEFAULT}. */
  public FolderTokenizerLoader(ChatTextFactory chatTexts) {
    this(chatTexts, Settings.DEFAULT);
  }

  public FolderTokenizerLoader(ChatTextFactory chatTexts, Settings settings) {
    this.chatTexts = chatTexts;
    this.settings = settings;
  }

  @Override
  public Load load(Path path) {
    return load(path, Optional.empty());
  }

  @Override
  public Load load(TokenizerSource source) {
    return load(
        source.folder(),
        source.chatTemplate(),
        source.options().equals(ChatTemplateOptions.DEFAULTS)
            ? chatTexts
            : chatTexts.with(source.options()));
  }

  /**
   * The same with another chat template.
   *
   * @param chatTemplate file that stands for all templates of the folder, as vLLM's {@code
   *     --chat-template} does
   */
  public Load load(Path path, Optional<Path> chatTemplate) {
    return load(path, chatTemplate, chatTexts);
  }

  private Load load(Path path, Optional<Path> chatTemplate, ChatTextFactory texts) {
    return switch (TokenizerFolderReader.read(path, chatTemplate)) {
      case FolderRead.Complete(TokenizerFolder folder) -> build(folder, texts);
      case FolderRead.Unusable(FolderProblem problem) -> new Load.Failed(problem);
    };
  }

  private Load build(TokenizerFolder folder, ChatTextFactory texts) {
    return switch (DjlTextEncoder.create(folder.tokenizerJson())) {
      case DjlTextEncoder.Creation.Created(DjlTextEncoder reference) -> {
        Choice choice = choose(folder, reference);
        CutPoints cutPoints = CutPoints.of(folder).orElse(null);
        PostProcessor postProcessor =
            PostProcessor.read(folder.pipeline().postProcessor()).orElse(null);
        yield new Load.Loaded(
            new FolderPromptTokenizer(
                withCache(choice.encoder, cutPoints, postProcessor),
                texts.forFolder(folder),
                pieces(folder, choice.encoder),
                cutPoints,
                postProcessor,
                ownSide(folder),
                settings.segmentCacheBytes),
            choice.name);
      }
      case DjlTextEncoder.Creation.Refused(String why) ->
          new Load.Failed(
              new FolderProblem(
                  FolderProblem.Kind.UNSUPPORTED,
                  folder.path().resolve("tokenizer.json"),
                  why,
                  "check that it is the file of the model's repository and that DJL_CACHE_DIR is"
                      + " writable"));
    };
  }

  /**
   * @param name which encoder and why, for the status
   */
  private record Choice(TextEncoder encoder, String name) {}

  private Choice choose(TokenizerFolder folder, DjlTextEncoder reference) {
    if (!settings.checkBudget.isPositive()) {
      return new Choice(reference, "djl (as configured)");
    }
    return switch (BpeFileReader.read(folder)) {
      case BpeFileRead.Unsupported(String feature) ->
          new Choice(reference, "djl (" + feature + ")");
      case BpeFileRead.Supported(BpeTextEncoder fast) -> check(folder, fast, reference);
    };
  }

  private Choice check(TokenizerFolder folder, BpeTextEncoder fast, DjlTextEncoder reference) {
    long seed = System.nanoTime();
    var verdict =
        DifferentialCheck.run(
            fast,
            reference,
            folder.addedTokens().stream().map(AddedToken::content).toList(),
            seed,
            settings.checkBudget,
            System::nanoTime);
    return switch (verdict) {
      case DifferentialCheck.Verdict.Equal(int texts, long tokens) -> {
        reference.close();
        yield new Choice(fast, "bpe (equal to djl on " + texts + " texts, " + tokens + " tokens)");
      }
      case DifferentialCheck.Verdict.Different(String stage) ->
          new Choice(reference, "djl (bpe differs: " + stage + ", seed " + seed + ")");
    };
  }

  /** vLLM 0.32 {@code tokenizers/mistral.py} encode keeps the first ids; all others the last. */
  private static InferenceRequest.Truncation.Side ownSide(TokenizerFolder folder) {
    return folder.ownChatRenderer().equals(Optional.of("mistral"))
        ? InferenceRequest.Truncation.Side.KEEP_FIRST
        : InferenceRequest.Truncation.Side.TOKENIZER_DEFAULT;
  }

  /** For the folders whose prompts come in pieces; null for all others. */
  private @Nullable PieceEncoder pieces(TokenizerFolder folder, TextEncoder encoder) {
    if (!folder.ownChatRenderer().equals(Optional.of("harmony"))) {
      return null;
    }
    TextEncoder plain =
        encoder instanceof BpeTextEncoder fast
            ? fast.withoutAddedTokens()
            : new UnmarkedTextEncoder(encoder, folder.addedTokens());
    return new PieceEncoder(plain, folder.addedTokens(), settings.segmentCacheBytes);
  }

  private TextEncoder withCache(
      TextEncoder encoder, @Nullable CutPoints cutPoints, @Nullable PostProcessor postProcessor) {
    return settings.segmentCacheBytes <= 0 || cutPoints == null || postProcessor == null
        ? encoder
        : new SegmentCache(encoder, cutPoints, postProcessor, settings.segmentCacheBytes);
  }
}
