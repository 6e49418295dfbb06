// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import io.kvoy.inference.Json;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.CacheIdentity;
import io.kvoy.scoring.kvcache.KvCacheListener;
import io.kvoy.scoring.kvcache.KvDecodeError;
import io.kvoy.scoring.kvcache.KvEventDecoder;
import io.kvoy.scoring.kvcache.KvMessage;
import io.kvoy.scoring.kvcache.KvStream;
import io.kvoy.scoring.kvcache.KvStreamConfig;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.PrefixIndex;
import io.kvoy.scoring.kvcache.PrefixIndexConfig;
import io.kvoy.scoring.kvcache.PrefixMatch;
import io.kvoy.scoring.kvcache.WorkerBlocks;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.SequencedMap;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * {@code kvoyctl kv-replay}: what the index would know of a worker after these messages.
 *
 * <p>The same state machine and index as in the server, without a replay socket: what a gap
 * swallowed stays unknown. Time stands still, so no silence is noticed.
 */
@Command(
    name = "kv-replay",
    mixinStandardHelpOptions = true,
    versionProvider = Kvoyctl.Version.class,
    description = {
      "Applies recorded KV event messages of one worker and answers what it has cached.",
      "",
      "Reads lines {\"frames\":[base64,...]} (topic, sequence, payload) and"
          + " {\"query\":{\"token_ids\":[...],\"cache_salt\":null,\"lora\":null}}; prints"
          + " {\"state\",\"blocks\",\"references\"} for each and \"cached_tokens\" for a query."
    })
final class KvReplayCommand extends LineCommand implements Callable<Integer> {

  private static final long NOW_NANOS = 0;

  private static final int SWEEP_SLOTS = 1 << 16;

  @Option(
      names = "--block-size",
      paramLabel = "TOKENS",
      description = "Block size of the index; must divide the worker's. Default: ${DEFAULT-VALUE}.")
  private int blockSize = PrefixIndexConfig.DEFAULT.blockSize();

  @Spec private CommandSpec spec = CommandSpec.create();

  private @Nullable View view;

  KvReplayCommand(Streams streams) {
    super(streams);
  }

  @Override
  public Integer call() {
    if (blockSize < 1) {
      throw new ParameterException(
          spec.commandLine(), "--block-size must be positive, was " + blockSize);
    }
    view = new View(blockSize);
    return answerAll();
  }

  @Override
  Json.Obj answer(byte[] body, Json.Obj line) throws BadLine {
    View worker = view;
    if (worker == null) {
      throw new IllegalStateException("a line before the command was started");
    }
    Json frames = Fields.optional(line, "frames");
    Json query = Fields.optional(line, "query");
    if ((frames == null) == (query == null)) {
      throw new BadLine("either frames or query is required");
    }
    return frames != null
        ? worker.publish(frames(frames))
        : worker.ask(Fields.object(Fields.required(line, "query"), "query"));
  }

  private static List<byte[]> frames(Json value) throws BadLine {
    List<Json> items = Fields.list(value, "frames");
    List<byte[]> frames = new ArrayList<>(items.size());
    for (int i = 0; i < items.size(); i++) {
      String name = "frames[" + i + "]";
      try {
        frames.add(Base64.getDecoder().decode(Fields.text(items.get(i), name)));
      } catch (IllegalArgumentException _) {
        throw new BadLine("field " + name + " must be base64");
      }
    }
    return frames;
  }

  /** One worker in an index of its own. */
  private static final class View implements KvCacheListener {
    private static final Worker WORKER =
        new Worker(0, 1, "worker", "replay", new Endpoint("127.0.0.1", 8000), KvPublishers.NONE);

    private final PrefixIndex index;
    private final WorkerBlocks blocks;
    private final KvStream stream;
    private final PrefixMatch match = new PrefixMatch();

    /** Why the last message could not be used. */
    private KvDecodeError.@Nullable Kind malformed;

    View(int blockSize) {
      index =
          new PrefixIndex(new PrefixIndexConfig(blockSize, PrefixIndexConfig.DEFAULT.maxBlocks()));
      blocks = index.open(WORKER, KvViewState.SYNCING, this);
      stream = new KvStream(blocks, false, KvStreamConfig.DEFAULT, new KvEventDecoder(), this);
      stream.start(NOW_NANOS);
    }

    @Override
    public void onMalformed(Worker worker, KvDecodeError.Kind kind) {
      malformed = kind;
    }

    Json.Obj publish(List<byte[]> frames) {
      malformed = null;
      stream.onPublished(KvMessage.ofPublished(frames), NOW_NANOS, NOW_NANOS);
      while (index.sweep(SWEEP_SLOTS)) {}
      SequencedMap<String, Json> answer = state();
      KvDecodeError.Kind kind = malformed;
      if (kind != null) {
        answer.put("malformed", new Json.Str(lowerCase(kind)));
      }
      return new Json.Obj(answer);
    }

    Json.Obj ask(Json.Obj query) throws BadLine {
      CacheIdentity identity =
          CacheIdentity.of(lora(query), Fields.optionalText(query, "cache_salt"));
      index.lookup(BlockKeys.of(identity, Fields.tokenIds(query), index.blockSize()), match);
      SequencedMap<String, Json> answer = state();
      answer.put("cached_tokens", new Json.Int(match.cachedTokens(WORKER)));
      return new Json.Obj(answer);
    }

    /** The adapter's name, alone or as in the input of {@code kvoyctl hash}. */
    private static @Nullable String lora(Json.Obj query) throws BadLine {
      return Fields.optional(query, "lora") instanceof Json.Obj adapter
          ? Fields.text(Fields.required(adapter, "name"), "name")
          : Fields.optionalText(query, "lora");
    }

    private SequencedMap<String, Json> state() {
      SequencedMap<String, Json> state = new LinkedHashMap<>();
      state.put("state", new Json.Str(lowerCase(blocks.state())));
      state.put("blocks", new Json.Int(blocks.blocks()));
      state.put("references", new Json.Int(blocks.references()));
      return state;
    }

    private static String lowerCase(Enum<?> word) {
      return word.name().toLowerCase(Locale.ROOT);
    }
  }
}
