// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer;

import io.kvoy.tokenizer.bpe.BpeFileRead;
import io.kvoy.tokenizer.bpe.BpeFileReader;
import io.kvoy.tokenizer.bpe.BpeTextEncoder;
import io.kvoy.tokenizer.bpe.DifferentialCheck;
import io.kvoy.tokenizer.encode.CutPoints;
import io.kvoy.tokenizer.encode.DjlTextEncoder;
import io.kvoy.tokenizer.encode.PostProcessor;
import io.kvoy.tokenizer.encode.SegmentCache;
import io.kvoy.tokenizer.encode.TextEncoder;
import io.kvoy.tokenizer.files.AddedToken;
import io.kvoy.tokenizer.files.FolderProblem;
import io.kvoy.tokenizer.files.FolderRead;
import io.kvoy.tokenizer.files.TokenizerFolder;
import io.kvoy.tokenizer.files.TokenizerFolderReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;

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
   * @param segmentCacheBytes memory for remembered text per folder; 0 for none
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
    return switch (TokenizerFolderReader.read(path)) {
      case FolderRead.Complete(TokenizerFolder folder) -> build(folder);
      case FolderRead.Unusable(FolderProblem problem) -> new Load.Failed(problem);
    };
  }

  private Load build(TokenizerFolder folder) {
    return switch (DjlTextEncoder.create(folder.tokenizerJson())) {
      case DjlTextEncoder.Creation.Created(DjlTextEncoder reference) -> {
        Choice choice = choose(folder, reference);
        yield new Load.Loaded(
            new FolderPromptTokenizer(
                withCache(folder, choice.encoder), chatTexts.forFolder(folder)),
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

  private TextEncoder withCache(TokenizerFolder folder, TextEncoder encoder) {
    Optional<CutPoints> cutPoints = CutPoints.of(folder);
    Optional<PostProcessor> postProcessor = PostProcessor.read(folder.pipeline().postProcessor());
    if (settings.segmentCacheBytes <= 0 || cutPoints.isEmpty() || postProcessor.isEmpty()) {
      return encoder;
    }
    return new SegmentCache(
        encoder, cutPoints.get(), postProcessor.get(), settings.segmentCacheBytes);
  }
}
