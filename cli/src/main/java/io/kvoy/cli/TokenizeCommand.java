// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Json;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.inference.dialect.ParseOptions;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonRead;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.CacheIdentity;
import io.kvoy.scoring.kvcache.PrefixIndexConfig;
import io.kvoy.tokenizer.ChatText;
import io.kvoy.tokenizer.ChatTextFactory;
import io.kvoy.tokenizer.FolderTokenizerLoader;
import io.kvoy.tokenizer.PromptTokenizer;
import io.kvoy.tokenizer.TemplateChatText;
import io.kvoy.tokenizer.Tokenization;
import io.kvoy.tokenizer.TokenizerLoader;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.chat.ChatTemplates;
import io.kvoy.tokenizer.chat.HarmonyResult;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * {@code kvoyctl tokenize}: the text and the token ids that a worker makes of a request, by the
 * same code as in the server.
 */
@Command(
    name = "tokenize",
    mixinStandardHelpOptions = true,
    versionProvider = Kvoyctl.Version.class,
    sortOptions = false,
    description = {
      "Renders and tokenizes requests as a vLLM worker does.",
      "",
      "Reads request bodies, one a line; prints {\"text\",\"ids\",\"exact\":true}, or"
          + " {\"exact\":false,\"reason\"} where the worker's ids cannot be known."
    })
final class TokenizeCommand extends LineCommand implements Callable<Integer> {

  /** A worker renders every chat with the same clock; UTC in vLLM's images. */
  private static final Clock CLOCK = Clock.systemUTC();

  /** vLLM takes requests without a model; one tokenizer is at hand here whatever its name. */
  private static final ParseOptions PARSE =
      new ParseOptions(new JsonReader(JsonLimits.DEFAULTS), "the-only-model");

  @Option(
      names = "--tokenizer",
      required = true,
      paramLabel = "DIR",
      description = "Folder with the model's tokenizer.json and tokenizer_config.json.")
  private Path folder = Path.of("");

  @Option(
      names = "--template",
      paramLabel = "FILE",
      description = "Chat template to use instead of the folder's (vLLM: --chat-template).")
  private @Nullable Path template;

  @Option(
      names = "--endpoint",
      required = true,
      paramLabel = "PATH",
      description = "API of the bodies, such as /v1/chat/completions.")
  private String endpoint = "";

  @Option(
      names = "--default-chat-template-kwargs",
      paramLabel = "JSON",
      description = "Template variables of the worker; a request's own win (same flag in vLLM).")
  private String defaultKwargs = "{}";

  @Option(
      names = "--keys",
      description =
          "Print the keys of the whole blocks too, as Kvoy's index names them for the base model.")
  private boolean withKeys;

  @Option(
      names = "--block-size",
      paramLabel = "TOKENS",
      description = "Tokens of a block for --keys. Default: ${DEFAULT-VALUE}.")
  private int blockSize = PrefixIndexConfig.DEFAULT.blockSize();

  @Spec private CommandSpec spec = CommandSpec.create();

  private ApiKind api = ApiKind.OTHER;

  private @Nullable Encoder encoder;

  /**
   * @param tokenizer the server's own
   * @param rendered hears what it renders
   */
  private record Encoder(PromptTokenizer tokenizer, Overheard rendered) {}

  /** A chat renderer that remembers its last text. */
  private static final class Overheard implements ChatText {
    private final ChatText renderer;
    private @Nullable String text;

    Overheard(ChatText renderer) {
      this.renderer = renderer;
    }

    @Override
    public Rendering render(Prompt.Chat chat) {
      Rendering rendering = renderer.render(chat);
      text =
          switch (rendering) {
            case Rendering.Rendered(String last) -> last;
            case Rendering.Recalled(var _, List<String> parts) -> String.join("", parts);
            case Rendering.Pieces(HarmonyResult.Rendered prompt) -> prompt.text();
            case Rendering.Refused _, Rendering.Unsupported _, Rendering.Failed _ -> null;
          };
      return rendering;
    }
  }

  TokenizeCommand(Streams streams) {
    super(streams);
  }

  @Override
  public Integer call() {
    api = Dialects.ofPath(endpoint);
    if (api == ApiKind.OTHER) {
      throw usage(
          "--endpoint must be one of "
              + Arrays.stream(ApiKind.values())
                  .filter(kind -> kind != ApiKind.OTHER)
                  .map(ApiKind::path)
                  .collect(Collectors.joining(", "))
              + ", was '"
              + endpoint
              + "'");
    }
    if (blockSize < 1) {
      throw usage("--block-size must be positive, was " + blockSize);
    }
    ChatTemplateOptions options = new ChatTemplateOptions(null, kwargs(), false);
    Optional<String> unusable = templateProblem();
    return unusable.isPresent()
        ? problem(unusable.get())
        : load(TemplateChatText.factory(options, CLOCK));
  }

  private int load(ChatTextFactory texts) {
    List<Overheard> made = new ArrayList<>();
    FolderTokenizerLoader loader =
        new FolderTokenizerLoader(
            read -> {
              Overheard text = new Overheard(texts.forFolder(read));
              made.add(text);
              return text;
            });
    return switch (loader.load(folder, Optional.ofNullable(template))) {
      case TokenizerLoader.Load.Failed(var what) -> problem(what.oneLine());
      case TokenizerLoader.Load.Loaded(PromptTokenizer tokenizer, String _) -> {
        encoder = new Encoder(tokenizer, made.getLast());
        yield answerAll();
      }
    };
  }

  /** Why the given template cannot be used; a person wants more than the server's one word. */
  private Optional<String> templateProblem() {
    Path file = template;
    if (file == null) {
      return Optional.empty();
    }
    String text;
    try {
      text = Files.readString(file);
    } catch (IOException unreadable) {
      return Optional.of(
          "cannot read the template " + file + ": " + unreadable.getClass().getSimpleName());
    }
    return ChatTemplates.parse(text) instanceof ChatTemplates.Load.Unsupported unsupported
        ? Optional.of(
            file
                + " line "
                + unsupported.line()
                + ": "
                + unsupported.feature()
                + ": "
                + unsupported.detail())
        : Optional.empty();
  }

  private Json.Obj kwargs() {
    return switch (new JsonReader(JsonLimits.DEFAULTS)
        .read(defaultKwargs.getBytes(StandardCharsets.UTF_8))) {
      case JsonRead.Document document when document.value() instanceof Json.Obj object -> object;
      case JsonRead.Document _, JsonRead.Failure _ ->
          throw usage("--default-chat-template-kwargs must be a JSON object");
    };
  }

  private ParameterException usage(String text) {
    return new ParameterException(spec.commandLine(), text);
  }

  @Override
  Json.Obj answer(byte[] body, Json.Obj line) {
    return switch (Dialects.read(api, body, PARSE).parse()) {
      case RequestParse.Malformed(ApiKind _, String _, String reason) -> inexact(reason);
      case RequestParse.PassThrough(ApiKind _, String reason) -> inexact(reason);
      case RequestParse.Parsed(InferenceRequest request) -> answer(request);
    };
  }

  private Json.Obj answer(InferenceRequest request) {
    Encoder with = encoder;
    if (with == null) {
      throw new IllegalStateException("a line before the command was started");
    }
    Prompt prompt = request.prompt();
    Tokenization tokenization = with.tokenizer.tokenize(request);
    List<String> texts =
        switch (prompt) {
          case Prompt.Chat _ -> Stream.ofNullable(with.rendered.text).toList();
          case Prompt.Texts(List<String> raw, boolean _) -> raw;
          case Prompt.Tokens _, Prompt.Unreadable _ -> List.of();
        };
    return answer(request, texts, tokenization);
  }

  /**
   * @param texts what was encoded, before any truncation; empty when the prompts came as ids
   */
  private Json.Obj answer(InferenceRequest request, List<String> texts, Tokenization tokenization) {
    return switch (tokenization) {
      case Tokenization.Exact exact -> {
        List<int[]> prompts = exact.prompts();
        boolean isOne = prompts.size() == 1;
        SequencedMap<String, Json> answer = new LinkedHashMap<>();
        answer.put("text", oneOrAll(isOne, texts.stream().map(Json.Str::new).toList()));
        answer.put("ids", oneOrAll(isOne, prompts.stream().map(TokenizeCommand::ids).toList()));
        if (withKeys) {
          CacheIdentity identity = CacheIdentity.of(null, request.cacheSalt());
          answer.put(
              "keys", oneOrAll(isOne, prompts.stream().map(ids -> keys(identity, ids)).toList()));
        }
        answer.put("exact", new Json.Bool(true));
        yield new Json.Obj(answer);
      }
      case Tokenization.Estimated(int _, String reason, int[] _) -> inexact(reason);
      case Tokenization.Unavailable(String reason) -> inexact(reason);
    };
  }

  private static Json oneOrAll(boolean isOne, List<? extends Json> values) {
    if (values.isEmpty()) {
      return Json.Null.NULL;
    }
    return isOne ? values.getFirst() : new Json.Arr(List.copyOf(values));
  }

  private static Json.Arr ids(int[] ids) {
    return new Json.Arr(Arrays.stream(ids).<Json>mapToObj(Json.Int::new).toList());
  }

  private Json.Arr keys(CacheIdentity identity, int[] ids) {
    BlockKeys blocks = BlockKeys.of(identity, ids, blockSize);
    List<Json> keys = new ArrayList<>(blocks.blocks());
    for (int i = 0; i < blocks.blocks(); i++) {
      keys.add(new Json.Str(HexFormat.of().toHexDigits(blocks.key(i))));
    }
    return new Json.Arr(keys);
  }

  private static Json.Obj inexact(String reason) {
    SequencedMap<String, Json> answer = new LinkedHashMap<>();
    answer.put("exact", new Json.Bool(false));
    answer.put("reason", new Json.Str(reason));
    return new Json.Obj(answer);
  }
}
