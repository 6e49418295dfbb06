// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench;

import io.kvoy.tokenizer.bpe.BpeFileRead;
import io.kvoy.tokenizer.bpe.BpeFileReader;
import io.kvoy.tokenizer.bpe.BpeTextEncoder;
import io.kvoy.tokenizer.encode.CutPoints;
import io.kvoy.tokenizer.encode.DjlTextEncoder;
import io.kvoy.tokenizer.encode.PostProcessor;
import io.kvoy.tokenizer.encode.SegmentCache;
import io.kvoy.tokenizer.encode.TextEncoder;
import io.kvoy.tokenizer.files.FolderRead;
import io.kvoy.tokenizer.files.TokenizerFolder;
import io.kvoy.tokenizer.files.TokenizerFolderReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Text to token ids: the reference library against the encoder in Java on cold prompts of 200 to
 * 32,000 tokens, and the next turn of a conversation of 32,000 tokens with the segment cache.
 *
 * <p>Needs the tokenizers of {@code make tools}. Text: the Java and Markdown files of this
 * repository, in order of their paths. Run, with CPU time per operation beside wall time:
 *
 * <pre>
 * java --enable-native-access=ALL-UNNAMED -cp CLASSPATH org.openjdk.jmh.Main EncodeBenchmark \
 *   -prof io.kvoy.bench.ThreadCpuProfiler
 * </pre>
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Warmup(iterations = 3, time = 2)
@Measurement(iterations = 5, time = 2)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
public class EncodeBenchmark {

  private static final int CONVERSATION_TOKENS = 32_000;
  private static final int TURNS = 256;
  private static final int USER_CHARS = 160;
  private static final int ASSISTANT_CHARS = 1200;

  /** A tokenizer and enough text. */
  @State(Scope.Benchmark)
  public static class Base {

    @Param({"qwen3", "llama3_1", "deepseek_v3", "gptoss"})
    public String family = "";

    @Param({"djl", "bpe"})
    public String encoder = "";

    private @Nullable TokenizerFolder folder;
    private @Nullable TextEncoder textEncoder;
    private String text = "";

    @Setup
    public void load() throws IOException {
      TokenizerFolder read = read(family);
      folder = read;
      textEncoder = encoder.equals("djl") ? djl(read) : bpe(read);
      text = repositoryText();
    }

    TokenizerFolder folder() {
      return Objects.requireNonNull(folder);
    }

    TextEncoder textEncoder() {
      return Objects.requireNonNull(textEncoder);
    }

    /** About so many tokens of text, from that place on. */
    String tokens(int start, int tokens) {
      int chars = (int) ((long) text.length() * tokens / count(text));
      return text.substring(start, Math.min(text.length(), start + chars));
    }

    int count(String some) {
      return Objects.requireNonNull(textEncoder().encode(some, false)).length;
    }
  }

  /** Prompts of that size, each from another place of the text. */
  @State(Scope.Benchmark)
  public static class Cold {

    private static final int MAX_PROMPTS = 512;

    @Param({"200", "2000", "8000", "32000"})
    public int tokens;

    private String[] prompts = new String[0];
    private int next;

    @Setup
    public void cut(Base base) {
      int chars = base.tokens(0, tokens).length();
      int count = Math.clamp(base.text.length() / chars, 1, MAX_PROMPTS);
      prompts = new String[count];
      for (int i = 0; i < count; i++) {
        prompts[i] = base.tokens(i * chars, tokens);
      }
    }

    String nextPrompt() {
      next = (next + 1) % prompts.length;
      return prompts[next];
    }
  }

  @Benchmark
  public int @Nullable [] cold(Base base, Cold cold) {
    return base.textEncoder().encode(cold.nextPrompt(), false);
  }

  /**
   * A conversation that the cache knows, and many ways in which it goes on by an answer and a
   * question.
   */
  @State(Scope.Benchmark)
  public static class Conversation {

    private String known = "";
    private final String[] nexts = new String[TURNS];
    private @Nullable SegmentCache cache;

    @Setup
    public void build(Base base) {
      String open = base.folder().addedTokens().get(1).content();
      String close = base.folder().addedTokens().get(0).content();
      String source = base.tokens(0, 2 * CONVERSATION_TOKENS);
      var conversation = new StringBuilder();
      int at = 0;
      while (base.count(conversation.toString()) < CONVERSATION_TOKENS) {
        at = append(conversation, source, at, ASSISTANT_CHARS, close);
        at = append(conversation, source, at, USER_CHARS, close);
      }
      known = conversation + open + "assistant\n";
      for (int i = 0; i < TURNS; i++) {
        var next = new StringBuilder(known);
        append(next, source, 311 * i, ASSISTANT_CHARS, close);
        append(next, source, 313 * i, USER_CHARS, close);
        nexts[i] = next + open + "assistant\n";
      }
    }

    private static int append(StringBuilder to, String source, int start, int chars, String close) {
      int from = start + chars > source.length() ? 0 : start;
      to.append(source, from, from + chars).append(close).append('\n');
      return from + chars;
    }

    @Setup(Level.Invocation)
    public void know(Base base) {
      var fresh =
          new SegmentCache(
              base.textEncoder(),
              CutPoints.of(base.folder()).orElseThrow(),
              PostProcessor.NONE,
              64L << 20);
      fresh.encode(known, false);
      cache = fresh;
    }
  }

  /**
   * The setup before each batch encodes the conversation once; the CPU time has one {@link
   * #TURNS}th of that.
   */
  @Benchmark
  @OperationsPerInvocation(TURNS)
  public int nextTurn(Base base, Conversation conversation) {
    SegmentCache cache = Objects.requireNonNull(conversation.cache);
    int tokens = 0;
    for (String next : conversation.nexts) {
      tokens += Objects.requireNonNull(cache.encode(next, false)).length;
    }
    return tokens;
  }

  /** The folder of that tokenizer. */
  static Path folder(String family) {
    Path path = repository().resolve(".local");
    String named = System.getProperty("KVOY_LOCAL", System.getenv("KVOY_LOCAL"));
    Path local = named == null ? path : Path.of(named);
    return local.resolve("tokenizers/" + family + "/models");
  }

  private static TokenizerFolder read(String family) {
    return switch (TokenizerFolderReader.read(folder(family))) {
      case FolderRead.Complete(TokenizerFolder folder) -> folder;
      case FolderRead.Unusable(var problem) ->
          throw new IllegalStateException(problem.oneLine() + " (make tools)");
    };
  }

  private static DjlTextEncoder djl(TokenizerFolder folder) {
    return switch (DjlTextEncoder.create(folder.tokenizerJson())) {
      case DjlTextEncoder.Creation.Created(DjlTextEncoder encoder) -> encoder;
      case DjlTextEncoder.Creation.Refused(String why) -> throw new IllegalStateException(why);
    };
  }

  private static BpeTextEncoder bpe(TokenizerFolder folder) {
    return switch (BpeFileReader.read(folder)) {
      case BpeFileRead.Supported(BpeTextEncoder encoder) -> encoder;
      case BpeFileRead.Unsupported(String feature) -> throw new IllegalStateException(feature);
    };
  }

  /** The Java and Markdown files of this repository, in order of their paths. */
  static String repositoryText() throws IOException {
    try (var files = Files.walk(repository())) {
      List<Path> sources =
          files
              .filter(file -> file.toString().endsWith(".java") || file.toString().endsWith(".md"))
              .filter(file -> !file.toString().contains("/target/"))
              .filter(file -> !file.toString().contains("/.local/"))
              .sorted()
              .toList();
      var text = new StringBuilder();
      for (Path source : sources) {
        text.append(Files.readString(source));
      }
      return text.toString();
    }
  }

  private static Path repository() {
    Path folder = Path.of("").toAbsolutePath();
    while (!Files.exists(folder.resolve(".git")) && folder.getParent() != null) {
      folder = folder.getParent();
    }
    return folder;
  }
}
