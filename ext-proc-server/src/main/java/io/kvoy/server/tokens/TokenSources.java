// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import io.kvoy.inference.Prompt;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.server.config.KvoyConfig;
import io.kvoy.server.config.KvoyConfigFile;
import io.kvoy.server.config.ModelPool;
import io.kvoy.server.config.ModelPool.HubTokenizer;
import io.kvoy.server.metrics.PoolMeters;
import io.kvoy.server.metrics.ServerMeters;
import io.kvoy.server.metrics.TokenizerState;
import io.kvoy.tokenizer.FolderTokenizerLoader;
import io.kvoy.tokenizer.PromptTokenizer;
import io.kvoy.tokenizer.TemplateChatText;
import io.kvoy.tokenizer.Tokenization;
import io.kvoy.tokenizer.TokenizerListener;
import io.kvoy.tokenizer.TokenizerRegistry;
import io.kvoy.tokenizer.TokenizerSource;
import io.kvoy.tokenizer.TokenizerStatus;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.files.FolderProblem;
import java.nio.file.Path;
import java.time.Clock;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedSet;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Every pool's tokens, whichever source they come from: folders, hub repositories, workers.
 *
 * <p>{@link #apply} is called by the wiring at the start and at each change of the configuration;
 * everything else from any thread. Knows pools by name.
 */
public final class TokenSources implements AutoCloseable {
  private final TokenizerRegistry registry;
  private final HubTokenizers hub;
  private final AskWorker ask;
  private final Supplier<Fleet> fleet;
  private final LongSupplier nanoClock;

  /** Replaced as a whole by {@link #apply}; read without a lock. */
  private volatile List<ModelPool> pools = List.of();

  /** Replaced as a whole by {@link #apply}; read without a lock. */
  private volatile Map<String, WorkerTokens> workers = Map.of();

  /**
   * @param folder against which relative paths of the hub settings are read
   * @param meters of a pool by name, null when it has none (yet)
   */
  public TokenSources(
      KvoyConfig config,
      Path folder,
      Supplier<Fleet> fleet,
      Function<String, @Nullable PoolMeters> meters,
      ServerMeters serverMeters,
      LongSupplier nanoClock) {
    this.fleet = fleet;
    this.nanoClock = nanoClock;
    this.ask = new AskWorker(nanoClock);
    TokenizerRegistry.Timing timing = TokenizerRegistry.Timing.DEFAULT;
    this.registry =
        new TokenizerRegistry(
            new FolderTokenizerLoader(
                TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, Clock.systemUTC()),
                new FolderTokenizerLoader.Settings(
                    config.tokenizers().memory().bytes(),
                    FolderTokenizerLoader.Settings.DEFAULT.checkBudget())),
            Clock.systemUTC(),
            new TokenizerRegistry.Timing(
                timing.firstRetry(),
                timing.maxRetry(),
                timing.logPeriod(),
                config.tokenizers().checkFiles()),
            new LoadMeters(meters));
    this.hub =
        new HubTokenizers(
            HubSettings.of(config.tokenizers().hub(), folder),
            Clock.systemUTC(),
            serverMeters::hubFetch,
            config.logging().repeatPeriod(),
            this::updateRegistry);
  }

  /** Starts loading and fetching. Call once. */
  public void start() {
    registry.start();
    hub.start();
  }

  /** Takes the sources of these pools and forgets all others. */
  public synchronized void apply(KvoyConfigFile file) {
    pools = file.pools();
    Set<HubTokenizer> wanted = new HashSet<>();
    Map<String, WorkerTokens> asking = new HashMap<>();
    for (ModelPool pool : pools) {
      pool.tokenizerHub().ifPresent(wanted::add);
      pool.tokenizerWorker()
          .ifPresent(settings -> asking.put(pool.name(), worker(pool.name(), settings)));
    }
    workers = Map.copyOf(asking);
    hub.update(wanted);
    updateRegistry();
  }

  private WorkerTokens worker(String pool, ModelPool.WorkerTokenizer settings) {
    WorkerTokens known = workers.get(pool);
    return known != null && known.settings().equals(settings)
        ? known
        : new WorkerTokens(pool, settings, fleet, ask, nanoClock);
  }

  private synchronized void updateRegistry() {
    Map<String, TokenizerSource> sources = new HashMap<>();
    for (ModelPool pool : pools) {
      pool.tokenizer()
          .or(() -> pool.tokenizerHub().flatMap(hub::folder))
          .ifPresent(
              folder ->
                  sources.put(
                      pool.name(),
                      new TokenizerSource(
                          folder, pool.chatTemplate(), pool.chatTemplateOptions())));
    }
    registry.update(sources);
  }

  /** Tokenizer of a pool, whatever happens to its files. */
  public PromptTokenizer forPool(String pool) {
    return registry.forModel(pool);
  }

  /** What asks the workers of a pool; null when its tokens come from elsewhere. */
  public @Nullable WorkerTokens workersOf(String pool) {
    return workers.get(pool);
  }

  /** The client that asks workers. */
  public AskWorker asking() {
    return ask;
  }

  /** A pool's ids even while they are known to be others than its workers'. */
  public Tokenization tokenizeToCompare(String pool, Prompt prompt) {
    return registry.tokenizeToCompare(pool, prompt);
  }

  /** Whether a pool's ids are those of its workers; while they are not it gets none. */
  public void setMatchesWorker(String pool, boolean matches) {
    registry.setMatchesWorker(pool, matches);
  }

  /** Memory of a pool's tokenizer by estimate. */
  public long memoryBytes(String pool) {
    WorkerTokens asking = workers.get(pool);
    return asking == null ? registry.memoryBytes(pool) : asking.memoryBytes();
  }

  /** State of a pool's tokens. */
  public TokenizerState state(ModelPool pool) {
    if (pool.tokenizerWorker().isPresent()) {
      return TokenizerState.READY;
    }
    TokenizerStatus status = registry.statuses().get(pool.name());
    if (status == null) {
      return pool.tokenizerHub()
          .map(
              wanted ->
                  hub.state(wanted) instanceof HubTokenizers.State.Failed
                      ? TokenizerState.FAILED
                      : TokenizerState.LOADING)
          .orElse(TokenizerState.ABSENT);
    }
    return switch (status) {
      case TokenizerStatus.Loading _ -> TokenizerState.LOADING;
      case TokenizerStatus.Ready _ -> TokenizerState.READY;
      case TokenizerStatus.Failed _ -> TokenizerState.FAILED;
      case TokenizerStatus.Mismatch _ -> TokenizerState.MISMATCH;
    };
  }

  /**
   * What a page tells of a pool's source.
   *
   * @param kind {@code folder}, {@code hub}, {@code worker} or {@code none}
   * @param place folder or repository, empty for the other kinds
   * @param encoder which encoder serves and why, empty when none does
   * @param problem what went wrong last, empty when nothing did
   */
  public record Described(String kind, String place, String encoder, String problem) {}

  /** The source of a pool for people. */
  public Described describe(ModelPool pool) {
    if (pool.tokenizerWorker().isPresent()) {
      return new Described("worker", "", "the workers' own", "");
    }
    Optional<HubTokenizer> wanted = pool.tokenizerHub();
    String kind = wanted.isPresent() ? "hub" : pool.tokenizer().isPresent() ? "folder" : "none";
    String place =
        wanted
            .map(each -> each.repository() + "@" + each.revision())
            .or(() -> pool.tokenizer().map(Path::toString))
            .orElse("");
    String ofHub =
        wanted
            .map(hub::state)
            .map(
                state ->
                    switch (state) {
                      case HubTokenizers.State.Fetching _ -> "";
                      case HubTokenizers.State.Present present -> present.lastProblem();
                      case HubTokenizers.State.Failed failed -> failed.problem();
                    })
            .orElse("");
    return switch (registry.statuses().get(pool.name())) {
      case TokenizerStatus.Ready(_, String encoder, _, Optional<FolderProblem> problem) ->
          new Described(kind, place, encoder, problem.map(FolderProblem::oneLine).orElse(ofHub));
      case TokenizerStatus.Failed(_, FolderProblem problem, _, _) ->
          new Described(kind, place, "", problem.oneLine());
      case TokenizerStatus.Mismatch _ ->
          new Described(kind, place, "", "its ids are not those of the workers");
      case TokenizerStatus.Loading _ -> new Described(kind, place, "", ofHub);
      case null -> new Described(kind, place, "", ofHub);
    };
  }

  @Override
  public void close() {
    hub.close();
    registry.close();
    ask.close();
  }

  /** Counts loads for every pool that they serve. */
  private record LoadMeters(Function<String, @Nullable PoolMeters> meters)
      implements TokenizerListener {

    @Override
    public void loaded(SortedSet<String> pools, String encoder) {
      for (String pool : pools) {
        PoolMeters of = meters.apply(pool);
        if (of != null) {
          of.tokenizerLoad("loaded");
          if (encoder.startsWith("djl (bpe differs")) {
            of.tokenizerFallback("differs");
          } else if (encoder.startsWith("djl")) {
            of.tokenizerFallback("unsupported");
          }
        }
      }
    }

    @Override
    public void failed(SortedSet<String> pools, FolderProblem problem, boolean earlierGoesOn) {
      for (String pool : pools) {
        PoolMeters of = meters.apply(pool);
        if (of != null) {
          of.tokenizerLoad(earlierGoesOn ? "kept_earlier" : "failed");
        }
      }
    }
  }
}
