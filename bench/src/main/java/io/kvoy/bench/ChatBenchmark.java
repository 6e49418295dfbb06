// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench;

import io.kvoy.inference.ChatOptions;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.TokenIds;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.CacheIdentity;
import io.kvoy.scoring.kvcache.PrefixIndexConfig;
import io.kvoy.tokenizer.FolderTokenizerLoader;
import io.kvoy.tokenizer.PromptTokenizer;
import io.kvoy.tokenizer.TemplateChatText;
import io.kvoy.tokenizer.Tokenization;
import io.kvoy.tokenizer.TokenizerLoader;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import java.io.IOException;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Objects;
import java.util.SequencedMap;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Conversations to block keys, the whole way of a routed request: chat template, encoder, keys.
 * Cold with the reference library, cold with the encoder that serves, and as the next turn of a
 * conversation that came before, at 200 to 32,000 tokens.
 *
 * <p>A turn is a question of 160 characters and an answer of 1200, from the Java and Markdown files
 * of this repository. Needs the tokenizers of {@code make tools}. Run, with CPU time per operation
 * beside wall time:
 *
 * <pre>
 * make bench ARGS="ChatBenchmark -prof io.kvoy.bench.ThreadCpuProfiler"
 * </pre>
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 1, jvmArgsAppend = "--enable-native-access=ALL-UNNAMED")
public class ChatBenchmark {

  /** What serves: the Java encoder where it knows the file. */
  private static final Duration CHECK = Duration.ofMillis(500);

  private static final long CACHE_BYTES = 64L << 20;

  /** Conversations of one size on one tokenizer. */
  @State(Scope.Benchmark)
  public static class Chats {

    private static final int USER_CHARS = 160;
    private static final int ASSISTANT_CHARS = 1200;
    private static final int CONVERSATIONS = 16;

    @Param({"qwen3", "llama3_1", "deepseek_v3", "gptoss", "gemma3"})
    public String family = "";

    @Param({"200", "2000", "8000", "32000"})
    public int tokens;

    private String text = "";
    private int at;
    private final List<List<Json.Obj>> conversations = new ArrayList<>();

    /** The same with other strings, as a request brings them whose body is not remembered. */
    private final List<List<Json.Obj>> copies = new ArrayList<>();

    private int next;
    private @Nullable PromptTokenizer reference;
    private @Nullable PromptTokenizer served;
    private @Nullable PromptTokenizer remembering;

    @Setup
    public void build() throws IOException {
      text = EncodeBenchmark.repositoryText();
      reference = load(0, Duration.ZERO);
      served = load(0, CHECK);
      remembering = load(CACHE_BYTES, CHECK);
      for (int i = 0; i < CONVERSATIONS; i++) {
        List<Json.Obj> conversation = conversation();
        conversations.add(conversation);
        copies.add(copy(conversation));
        keys(remembering, conversation);
      }
    }

    private PromptTokenizer load(long cacheBytes, Duration check) {
      var loader =
          new FolderTokenizerLoader(
              TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, Clock.systemUTC()),
              new FolderTokenizerLoader.Settings(cacheBytes, check));
      return switch (loader.load(EncodeBenchmark.folder(family))) {
        case TokenizerLoader.Load.Loaded loaded -> loaded.tokenizer();
        case TokenizerLoader.Load.Failed(var problem) ->
            throw new IllegalStateException(problem.oneLine() + " (make tools)");
      };
    }

    private List<Json.Obj> conversation() {
      var messages = new ArrayList<Json.Obj>();
      PromptTokenizer counting = Objects.requireNonNull(served);
      messages.add(message("user", more(USER_CHARS)));
      int turnTokens = 0;
      int known = tokenize(counting, messages);
      while (known + turnTokens <= tokens) {
        messages.add(message("assistant", more(ASSISTANT_CHARS)));
        messages.add(message("user", more(USER_CHARS)));
        int now = tokenize(counting, messages);
        turnTokens = now - known;
        known = now;
      }
      return messages;
    }

    private String more(int chars) {
      if (at + chars > text.length()) {
        at = 0;
      }
      int from = at;
      at += chars;
      return text.substring(from, at);
    }

    List<Json.Obj> nextConversation() {
      next = (next + 1) % CONVERSATIONS;
      return conversations.get(next);
    }

    private static List<Json.Obj> copy(List<Json.Obj> conversation) {
      List<Json.Obj> copy = new ArrayList<>();
      for (Json.Obj message : conversation) {
        String content = ((Json.Str) Objects.requireNonNull(message.get("content"))).value();
        String role = ((Json.Str) Objects.requireNonNull(message.get("role"))).value();
        copy.add(message(new String(role.toCharArray()), new String(content.toCharArray())));
      }
      return copy;
    }

    /**
     * @param known the conversations' messages
     */
    List<Json.Obj> nextTurn(List<List<Json.Obj>> known) {
      next = (next + 1) % CONVERSATIONS;
      var messages = new ArrayList<>(known.get(next));
      messages.add(message("assistant", more(ASSISTANT_CHARS)));
      messages.add(message("user", more(USER_CHARS)));
      return messages;
    }

    private static Json.Obj message(String role, String content) {
      SequencedMap<String, Json> fields = new LinkedHashMap<>();
      fields.put("role", new Json.Str(role));
      fields.put("content", new Json.Str(content));
      return new Json.Obj(fields);
    }
  }

  private static int tokenize(PromptTokenizer tokenizer, List<Json.Obj> messages) {
    return exact(tokenizer, messages).totalTokens();
  }

  private static Tokenization.Exact exact(PromptTokenizer tokenizer, List<Json.Obj> messages) {
    var chat = new Prompt.Chat(messages, List.of(), ChatOptions.DEFAULTS);
    return (Tokenization.Exact) tokenizer.tokenize(chat);
  }

  /** As the server computes them for a request. */
  private static BlockKeys keys(@Nullable PromptTokenizer tokenizer, List<Json.Obj> messages) {
    Tokenization.Exact exact = exact(Objects.requireNonNull(tokenizer), messages);
    CacheIdentity identity = CacheIdentity.of(null, null);
    TokenIds ids = exact.ids().getFirst();
    int blockSize = PrefixIndexConfig.DEFAULT.blockSize();
    Tokenization.Growth growth = exact.growth();
    return growth == null
        ? BlockKeys.of(identity, ids, blockSize, null, 0)
        : growth.grown(
            BlockKeys.class,
            (before, shared) -> BlockKeys.of(identity, ids, blockSize, before, shared));
  }

  @Benchmark
  public BlockKeys coldByTheLibrary(Chats chats) {
    return keys(chats.reference, chats.nextConversation());
  }

  @Benchmark
  public BlockKeys cold(Chats chats) {
    return keys(chats.served, chats.nextConversation());
  }

  /** The known messages are the objects that they were, as {@code BodyMemory} brings them. */
  @Benchmark
  public BlockKeys nextTurn(Chats chats) {
    return keys(chats.remembering, chats.nextTurn(chats.conversations));
  }

  /** The known messages were read anew and are to be compared. */
  @Benchmark
  public BlockKeys nextTurnReadAnew(Chats chats) {
    return keys(chats.remembering, chats.nextTurn(chats.copies));
  }
}
