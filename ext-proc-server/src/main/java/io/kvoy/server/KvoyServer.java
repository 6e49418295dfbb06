// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthProber;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.KvEventSubscriber;
import io.kvoy.scoring.kvcache.KvSubscriberConfig;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.PrefixIndex;
import io.kvoy.scoring.kvcache.PrefixIndexConfig;
import io.kvoy.scoring.kvcache.SpeculativePrefixes;
import io.kvoy.scoring.latency.LearningSettings;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.load.MetricsScraper;
import io.kvoy.scoring.pick.PickSettings;
import io.kvoy.scoring.pick.Picker;
import io.kvoy.server.admin.AdminPages;
import io.kvoy.server.admin.AdminServer;
import io.kvoy.server.admin.Readiness;
import io.kvoy.server.config.ConfigEvent;
import io.kvoy.server.config.ConfigLoader;
import io.kvoy.server.config.ConfigProblem;
import io.kvoy.server.config.ConfigWatcher;
import io.kvoy.server.config.KvoyConfig;
import io.kvoy.server.config.KvoyConfigFile;
import io.kvoy.server.config.ListenAddress;
import io.kvoy.server.config.ModelPool;
import io.kvoy.server.extproc.ExchangeLimits;
import io.kvoy.server.extproc.ExtProcServer;
import io.kvoy.server.feedback.DecisionLog;
import io.kvoy.server.feedback.Feedback;
import io.kvoy.server.feedback.KvEventMeters;
import io.kvoy.server.feedback.WorkerMeterBook;
import io.kvoy.server.fleet.KvSourceDiscovery;
import io.kvoy.server.fleet.StaticFleet;
import io.kvoy.server.metrics.KvoyMetrics;
import io.kvoy.server.metrics.PoolMeters;
import io.kvoy.server.metrics.ServerMeters;
import io.kvoy.server.metrics.TokenizerState;
import io.kvoy.tokenizer.FolderTokenizerLoader;
import io.kvoy.tokenizer.TemplateChatText;
import io.kvoy.tokenizer.TokenizerRegistry;
import io.kvoy.tokenizer.TokenizerStatus;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The wiring: every part of the server made by hand, in order, and stopped in reverse order.
 *
 * <p>{@link #start} either returns a running server or leaves nothing behind. Ready is not alive:
 * {@link #readiness} lists what is missing, and the ext_proc health service follows it, so that a
 * proxy sends nothing before the first fleet is probed, tokenizers are loaded (or have failed) and
 * KV views are in sync (or have had their time).
 */
public final class KvoyServer implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(KvoyServer.class);

  /** After this time a view that is still syncing no longer holds readiness back. */
  private static final Duration SYNC_PATIENCE = Duration.ofSeconds(10);

  private static final Duration SWEEP_INTERVAL = Duration.ofMillis(100);
  private static final Duration READINESS_INTERVAL = Duration.ofMillis(100);

  /** Requests per decision thread that may wait; a few hundred milliseconds of work. */
  private static final int DECISION_QUEUE_PER_THREAD = 256;

  /** About 40 MB when full; entries live for seconds. */
  private static final int SPECULATIVE_BLOCKS = 1 << 20;

  private static final LongSupplier NANO_CLOCK = System::nanoTime;

  private final Closing closing;
  private final KvoyMetrics metrics = new KvoyMetrics();
  private final FleetRegistry registry =
      new FleetRegistry(HealthSettings.DEFAULTS.withProbed(true), NANO_CLOCK);
  private final InFlightLedger ledger = new InFlightLedger(NANO_CLOCK);
  private final TtftPredictor predictor = new TtftPredictor(LearningSettings.DEFAULTS);
  private final TokenizerRegistry tokenizers =
      new TokenizerRegistry(
          new FolderTokenizerLoader(
              TemplateChatText.factory(ChatTemplateOptions.DEFAULTS, Clock.systemUTC()),
              FolderTokenizerLoader.Settings.DEFAULT),
          Clock.systemUTC(),
          TokenizerRegistry.Timing.DEFAULT);
  private final ScheduledExecutorService housekeeping =
      Executors.newSingleThreadScheduledExecutor(
          task -> Thread.ofPlatform().name("kvoy-housekeeping").daemon().unstarted(task));
  private final long startNanos = NANO_CLOCK.getAsLong();
  private final AtomicBoolean draining = new AtomicBoolean();
  private final KvEventMeters views;
  private final StaticFleet staticFleet;
  private final ExtProcServer extProc;

  /** Null when the admin pages are switched off. */
  private final @Nullable AdminServer admin;

  /** The configuration in force; replaced by the watcher, read by every request. */
  private volatile KvoyConfigFile config;

  /** Made from {@link #config}; read for every request. */
  private volatile ExchangeLimits limits;

  /** Made from {@link #config}; replaced as a whole, read by every request. */
  private volatile PoolTable pools;

  private KvoyServer(KvoyConfigFile initial, Closing closing) throws IOException {
    this.closing = closing;
    config = initial;
    limits = limits(initial.config());
    pools = new PoolTable(List.of());
    KvoyConfig settings = initial.config();
    closing.add("metrics", metrics::close);
    closing.add("housekeeping", housekeeping::shutdownNow);

    LoadBook loads = new LoadBook(NANO_CLOCK, settings.defaults().staleAfter());
    WorkerMeterBook workerMeters = new WorkerMeterBook(metrics, ledger, loads);
    registry.listen(workerMeters);

    SpeculativePrefixes speculative = new SpeculativePrefixes(SPECULATIVE_BLOCKS, NANO_CLOCK);
    PrefixIndex index = new PrefixIndex(indexConfig(initial.pools()), speculative);
    metrics.server().bindIndex(index::blocks, index::sharedBytes);
    views = new KvEventMeters(metrics.server(), workerMeters);
    KvEventSubscriber events =
        new KvEventSubscriber(
            index, KvSubscriberConfig.DEFAULT, worker -> ledger.load(worker).inFlight(), views);
    closing.add("kv events", events::close);
    registry.listen(change -> events.update(change.after().workers()));

    Picker picker =
        new Picker(registry, loads, ledger, predictor, PickSettings.DEFAULTS, NANO_CLOCK);
    DecisionLog decisions =
        new DecisionLog(settings.feedback().decisionRecords(), System.nanoTime());
    Feedback feedback =
        new Feedback(
            registry::fleet,
            decisions,
            workerMeters,
            metrics.noPool(),
            speculative,
            NANO_CLOCK,
            Clock.systemUTC(),
            () -> config.config().feedback().responseHeaders());
    RoutingPipeline pipeline =
        new RoutingPipeline(
            () -> pools,
            registry::fleet,
            index,
            speculative,
            picker,
            feedback,
            NANO_CLOCK,
            () -> config.config().timeouts().inFlightExpiry(),
            () ->
                (int)
                    Math.min(Integer.MAX_VALUE, config.config().limits().maxDecodedBody().bytes()));

    KvSourceDiscovery discovery = new KvSourceDiscovery(registry);
    closing.add("kv discovery", discovery::close);
    staticFleet = new StaticFleet(registry, discovery);
    closing.add("tokenizers", tokenizers::close);
    tokenizers.start();
    events.start();
    applyPools(initial);

    HealthProber prober =
        new HealthProber(
            registry,
            "/health",
            shortest(initial.pools(), ModelPool::healthInterval),
            settings.timeouts().scrape());
    closing.add("health prober", prober::close);
    prober.start();
    MetricsScraper scraper =
        new MetricsScraper(
            registry,
            ledger,
            loads,
            NANO_CLOCK,
            "/metrics",
            shortest(initial.pools(), ModelPool::scrapeInterval),
            settings.timeouts().scrape(),
            settings.logging().repeatPeriod(),
            worker -> workerMeters.of(worker).scrapeFailed());
    closing.add("metrics scraper", scraper::close);
    scraper.start();
    var _ =
        housekeeping.scheduleWithFixedDelay(
            () -> guarded(ledger::sweep), 0, SWEEP_INTERVAL.toMillis(), TimeUnit.MILLISECONDS);

    ConfigWatcher watcher =
        new ConfigWatcher(initial, ConfigLoader.FileCheck.IGNORE, this::onConfig);
    closing.add("config watcher", watcher::close);
    metrics.server().bindConfig(watcher::ageSeconds, () -> !watcher.status().problems().isEmpty());
    watcher.start();

    DebugPages pages = new DebugPages(registry::fleet, views, ledger, loads, predictor, decisions);
    if (settings.listen().admin() instanceof ListenAddress.Tcp tcp) {
      AdminServer started =
          AdminServer.start(
              socket(tcp),
              new AdminPages(
                  this::readiness, metrics::writePage, pages::fleet, decisionPages(pages)));
      closing.add("admin pages", started::close);
      admin = started;
    } else {
      admin = null;
    }
    extProc = ExtProcServer.start(extProcSettings(settings), pipeline, metrics.server());
    closing.add("ext_proc", extProc::close);
    var _ =
        housekeeping.scheduleWithFixedDelay(
            () -> guarded(this::publishReadiness),
            0,
            READINESS_INTERVAL.toMillis(),
            TimeUnit.MILLISECONDS);
  }

  /**
   * Starts everything.
   *
   * @throws IOException when a port is taken or a socket cannot be opened; nothing is left running
   */
  public static KvoyServer start(KvoyConfigFile config) throws IOException {
    Closing closing = new Closing();
    KvoyServer server;
    try {
      server = new KvoyServer(config, closing);
    } catch (IOException | RuntimeException e) {
      closing.close();
      throw e;
    }
    LOG.info(
        "kvoy_started ext_proc={} health={} admin={} pools={} workers={}",
        server.extProc.port(),
        server.extProc.healthPort(),
        server.adminPort(),
        config.pools().size(),
        server.registry.fleet().workers().size());
    return server;
  }

  private ExtProcServer.Settings extProcSettings(KvoyConfig settings) throws IOException {
    int threads =
        settings.tokenizers().threads() > 0
            ? settings.tokenizers().threads()
            : Runtime.getRuntime().availableProcessors();
    return new ExtProcServer.Settings(
        socket(settings.listen().extProc())
            .orElseThrow(
                () ->
                    new IOException(
                        "listen.extProc is off and there is no other door yet; give it a port")),
        socket(settings.listen().health()),
        () -> limits,
        threads,
        threads * DECISION_QUEUE_PER_THREAD);
  }

  private static ExchangeLimits limits(KvoyConfig present) {
    return new ExchangeLimits(
        present.limits().maxRequestBody().bytes(),
        present.limits().maxHeaderBytes().bytes(),
        present.timeouts().bodyWait(),
        present.timeouts().decision(),
        present.limits().maxStreams());
  }

  private static InetSocketAddress socket(ListenAddress.Tcp tcp) {
    return new InetSocketAddress(tcp.host(), tcp.port());
  }

  private static Optional<InetSocketAddress> socket(ListenAddress address) {
    return switch (address) {
      case ListenAddress.Tcp tcp -> Optional.of(socket(tcp));
      case ListenAddress.Off _ -> Optional.empty();
    };
  }

  /** The largest canonical block that divides the block size of every pool, 16 at most. */
  private static PrefixIndexConfig indexConfig(List<ModelPool> pools) {
    int block = PrefixIndexConfig.DEFAULT.blockSize();
    for (ModelPool pool : pools) {
      block = gcd(block, pool.blockSize());
    }
    return new PrefixIndexConfig(block, PrefixIndexConfig.DEFAULT.maxBlocks());
  }

  private static int gcd(int a, int b) {
    return b == 0 ? a : gcd(b, a % b);
  }

  private static Duration shortest(List<ModelPool> pools, Function<ModelPool, Duration> of) {
    return pools.stream().map(of).min(Duration::compareTo).orElseThrow();
  }

  private static AdminPages.DecisionPages decisionPages(DebugPages pages) {
    return new AdminPages.DecisionPages() {
      @Override
      public Optional<?> byId(String id) {
        return pages.decision(id);
      }

      @Override
      public List<?> newest(int limit) {
        return pages.decisions(limit);
      }
    };
  }

  // ---- configuration ----

  private void onConfig(ConfigEvent event) {
    switch (event) {
      case ConfigEvent.Reloaded(
              KvoyConfigFile _,
              KvoyConfigFile current,
              List<String> waitingForRestart) -> {
        config = current;
        limits = limits(current.config());
        ServerCommand.applyLogLevels(current.config());
        applyPools(current);
        metrics.server().configReload(ServerMeters.Reload.OK);
        LOG.info(
            "config_reloaded pools={} workers={} waiting_for_restart={}",
            current.pools().size(),
            registry.fleet().workers().size(),
            waitingForRestart);
      }
      case ConfigEvent.ReloadRejected(KvoyConfigFile _, List<ConfigProblem> problems) -> {
        metrics.server().configReload(ServerMeters.Reload.REJECTED);
        problems.forEach(problem -> LOG.warn("config_rejected problem=\"{}\"", problem.message()));
      }
    }
  }

  private void applyPools(KvoyConfigFile file) {
    Map<String, Path> folders = new HashMap<>();
    List<ModelPoolRuntime> runtimes = new ArrayList<>();
    Map<String, ModelPoolRuntime> before = new HashMap<>();
    pools.pools().forEach(pool -> before.put(pool.name(), pool));
    for (ModelPool pool : file.pools()) {
      if (pool.chatTemplate().isPresent()) {
        // Another template than the folder's is not rendered yet, and the folder's would be wrong.
        LOG.warn("chat_template_not_supported pool={} effect=\"load alone\"", pool.name());
      } else {
        pool.tokenizer().ifPresent(folder -> folders.put(pool.name(), folder));
      }
      ModelPoolRuntime old = before.remove(pool.name());
      runtimes.add(new ModelPoolRuntime(pool, tokenizers.forModel(pool.name()), meters(pool, old)));
    }
    tokenizers.update(folders);
    pools = new PoolTable(runtimes);
    staticFleet.apply(file.pools());
    before.values().forEach(gone -> gone.meters().close());
  }

  /** Meters go on unless the model names, which are tags, have changed. */
  private PoolMeters meters(ModelPool pool, @Nullable ModelPoolRuntime old) {
    List<String> models = new ArrayList<>(pool.models());
    models.addAll(pool.adapters());
    if (old != null) {
      if (old.config().models().equals(pool.models())
          && old.config().adapters().equals(pool.adapters())) {
        return old.meters();
      }
      old.meters().close();
    }
    return metrics.pool(pool.name(), models);
  }

  // ---- readiness ----

  /** Whether traffic should come, and if not, what is awaited. */
  public Readiness readiness() {
    List<String> missing = new ArrayList<>();
    if (draining.get()) {
      missing.add("draining");
    }
    Fleet fleet = registry.fleet();
    boolean patient = NANO_CLOCK.getAsLong() - startNanos < SYNC_PATIENCE.toNanos();
    for (ModelPoolRuntime pool : pools.pools()) {
      if (fleet.readyCount(pool.name()) == 0) {
        missing.add("a ready worker in pool " + pool.name());
      }
      TokenizerStatus tokenizer = tokenizers.statuses().get(pool.name());
      if (tokenizer instanceof TokenizerStatus.Loading) {
        missing.add("tokenizer of pool " + pool.name());
      }
      if (patient) {
        for (Worker worker : fleet.workers(pool.name())) {
          if (!worker.kvEvents().isEmpty()
              && fleet.health(worker).isReady()
              && views.view(worker) == KvViewState.SYNCING) {
            missing.add("KV events of worker " + worker.name());
          }
        }
      }
    }
    return missing.isEmpty() ? Readiness.Ready.READY : new Readiness.NotReady(missing);
  }

  private void publishReadiness() {
    extProc.setReady(readiness() instanceof Readiness.Ready);
    tokenizers
        .statuses()
        .forEach(
            (pool, status) ->
                pools.pools().stream()
                    .filter(runtime -> runtime.name().equals(pool))
                    .forEach(runtime -> runtime.meters().tokenizer(word(status))));
  }

  private static TokenizerState word(TokenizerStatus status) {
    return switch (status) {
      case TokenizerStatus.Loading _ -> TokenizerState.LOADING;
      case TokenizerStatus.Ready _ -> TokenizerState.READY;
      case TokenizerStatus.Failed _, TokenizerStatus.Mismatch _ -> TokenizerState.FAILED;
    };
  }

  /** A periodic job must survive its own bugs. */
  private static void guarded(Runnable job) {
    try {
      job.run();
    } catch (RuntimeException bug) {
      LOG.error("housekeeping_failed", bug);
    }
  }

  // ---- the end ----

  /** Stops taking work, lets running streams end for at most the configured time, then closes. */
  public void drain() throws InterruptedException {
    draining.set(true);
    LOG.info("kvoy_draining grace={}", config.config().timeouts().drain());
    extProc.drain(config.config().timeouts().drain());
    close();
  }

  @Override
  public void close() {
    closing.close();
  }

  /** The bound ext_proc port. */
  public int extProcPort() {
    return extProc.port();
  }

  /** The bound admin port, -1 when it is off. */
  public int adminPort() {
    return admin == null ? -1 : admin.port();
  }

  public static void main(String[] args) {
    System.exit(ServerCommand.run(args));
  }
}
