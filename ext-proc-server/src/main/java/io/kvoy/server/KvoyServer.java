// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.inference.dialect.ParseOptions;
import io.kvoy.inference.json.BodyMemory;
import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonReader;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthProber;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.KvEventSubscriber;
import io.kvoy.scoring.kvcache.KvSubscriberConfig;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.OwnKeyCheck;
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
import io.kvoy.server.feedback.DispatchBook;
import io.kvoy.server.feedback.Feedback;
import io.kvoy.server.feedback.KvEventMeters;
import io.kvoy.server.feedback.OwnKeyMeters;
import io.kvoy.server.feedback.ResponseHomes;
import io.kvoy.server.feedback.WorkerMeterBook;
import io.kvoy.server.fleet.KvSourceDiscovery;
import io.kvoy.server.fleet.StaticFleet;
import io.kvoy.server.handler.HandlerServer;
import io.kvoy.server.metrics.KvoyMetrics;
import io.kvoy.server.metrics.PoolMeters;
import io.kvoy.server.metrics.ServerMeters;
import io.kvoy.server.metrics.TokenizerState;
import io.kvoy.server.parity.ParityChecker;
import io.kvoy.server.queue.WaitingRoom;
import io.kvoy.server.reports.ReportServer;
import io.kvoy.server.tls.ServerIdentity;
import io.kvoy.server.tokens.TokenSources;
import io.kvoy.server.xds.XdsServer;
import io.netty.handler.ssl.SslContext;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Duration;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.stream.Collectors;
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
  private static final Duration BOOK_SWEEP_INTERVAL = Duration.ofSeconds(1);
  private static final Duration READINESS_INTERVAL = Duration.ofMillis(100);

  /** Requests per decision thread that may wait; a few hundred milliseconds of work. */
  private static final int DECISION_QUEUE_PER_THREAD = 256;

  /** About 40 MB when full; entries live for seconds. */
  private static final int SPECULATIVE_BLOCKS = 1 << 20;

  /** Stored answers of which it is known where they are; about 20 MB when full. */
  private static final int RESPONSE_HOMES = 100_000;

  private static final LongSupplier NANO_CLOCK = System::nanoTime;

  private final Closing closing;
  private final KvoyConfig.Listen doors;
  private final Optional<KvoyConfig.Tls> tlsAtStart;
  private final KvoyMetrics metrics = new KvoyMetrics();
  private final FleetRegistry registry =
      new FleetRegistry(HealthSettings.DEFAULTS.withProbed(true), NANO_CLOCK);
  private final InFlightLedger ledger = new InFlightLedger(NANO_CLOCK);
  private final WaitingRoom<RoutingDecision> waitingRoom = new WaitingRoom<>(NANO_CLOCK);
  private final TtftPredictor predictor = new TtftPredictor(LearningSettings.DEFAULTS, NANO_CLOCK);
  private final ScheduledExecutorService housekeeping =
      Executors.newSingleThreadScheduledExecutor(
          task -> Thread.ofPlatform().name("kvoy-housekeeping").daemon().unstarted(task));
  private final long startNanos = NANO_CLOCK.getAsLong();
  private final AtomicBoolean draining = new AtomicBoolean();
  private final KvEventMeters views;
  private final OwnKeyCheck ownKeys;
  private final StaticFleet staticFleet;
  private final TokenSources tokenizers;
  private final ParityChecker parity;
  private final ExtProcServer extProc;

  /** Null when no proxy is configured from here. */
  private final @Nullable XdsServer xds;

  /** Made from {@link #config}; what proxies that are configured from here are told. */
  private volatile @Nullable EnvoyBootstrap envoyOptions;

  /** Null when the admin pages are switched off. */
  private final @Nullable AdminServer admin;

  private final @Nullable HandlerServer handler;

  /** Set once every door is open; the admin pages answer before that. */
  private volatile boolean doorsOpen;

  /** Set by housekeeping, read by whoever asks for readiness. */
  private volatile boolean wasReady;

  /** The configuration in force; replaced by the watcher, read by every request. */
  private volatile KvoyConfigFile config;

  /** Made from {@link #config}; read for every request. */
  private volatile ExchangeLimits limits;

  /** Made from {@link #config}; replaced as a whole, read by every request. */
  private volatile PoolTable pools;

  private KvoyServer(KvoyConfigFile initial, StartOptions start, Closing closing)
      throws IOException {
    this.closing = closing;
    config = initial;
    limits = limits(initial.config());
    pools = new PoolTable(List.of());
    KvoyConfig settings = initial.config();
    doors = settings.listen();
    tlsAtStart = settings.tls();
    closing.add("metrics", metrics::close);
    closing.add("housekeeping", housekeeping::shutdownNow);

    LoadBook loads = new LoadBook(NANO_CLOCK, settings.defaults().staleAfter());
    WorkerMeterBook workerMeters = new WorkerMeterBook(metrics, ledger, loads, predictor);
    registry.listen(workerMeters);

    SpeculativePrefixes speculative = new SpeculativePrefixes(SPECULATIVE_BLOCKS, NANO_CLOCK);
    ownKeys = new OwnKeyCheck(NANO_CLOCK, new OwnKeyMeters(workerMeters));
    PrefixIndex index = new PrefixIndex(indexConfig(initial.pools()), speculative, ownKeys);
    views = new KvEventMeters(metrics.server(), workerMeters, ownKeys, InstantSource.system());
    showSpeculation(speculative);
    metrics
        .server()
        .bindUnverifiedWorkers(() -> OwnKeyMeters.unverified(registry.fleet(), ownKeys));
    KvEventSubscriber events =
        new KvEventSubscriber(
            index, KvSubscriberConfig.DEFAULT, worker -> ledger.load(worker).inFlight(), views);
    closing.add("kv events", events::close);
    registry.listen(
        change -> {
          events.update(change.after().workers());
          ownKeys.retain(change.after().workers());
        });

    Picker picker =
        new Picker(registry, loads, ledger, predictor, PickSettings.DEFAULTS, NANO_CLOCK);
    DecisionLog decisions =
        new DecisionLog(settings.feedback().decisionRecords(), System.nanoTime());
    ResponseHomes homes = new ResponseHomes(RESPONSE_HOMES);
    Feedback feedback =
        new Feedback(
            registry::fleet,
            decisions,
            workerMeters,
            metrics.noPool(),
            speculative,
            ownKeys,
            NANO_CLOCK,
            Clock.systemUTC(),
            () -> config.config().feedback().responseHeaders(),
            homes);
    Path folder = initial.source().resolveSibling(".").normalize();
    tokenizers =
        new TokenSources(
            settings, folder, registry::fleet, this::metersOf, metrics.server(), NANO_CLOCK);
    parity =
        new ParityChecker(
            tokenizers.asking(),
            tokenizers::tokenizeToCompare,
            tokenizers::setMatchesWorker,
            () -> config.config().parity(),
            NANO_CLOCK,
            settings.logging().repeatPeriod());
    closing.add("queue", waitingRoom::close);
    BodyMemory bodies = new BodyMemory(settings.tokenizers().memory().bytes());
    RoutingPipeline pipeline =
        new RoutingPipeline(
            () -> pools,
            registry::fleet,
            index,
            speculative,
            ownKeys,
            picker,
            feedback,
            NANO_CLOCK,
            () -> config.config().timeouts().inFlightExpiry(),
            () ->
                (int)
                    Math.min(Integer.MAX_VALUE, config.config().limits().maxDecodedBody().bytes()),
            new ParseOptions(new JsonReader(JsonLimits.DEFAULTS, bodies), null),
            parity,
            homes,
            waitingRoom);

    KvSourceDiscovery discovery = new KvSourceDiscovery(registry);
    closing.add("kv discovery", discovery::close);
    staticFleet = new StaticFleet(registry, discovery);
    closing.add("tokenizers", tokenizers::close);
    events.start();
    applyPools(initial);
    tokenizers.start();
    closing.add("parity", parity::close);
    parity.start();

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
    var _ =
        housekeeping.scheduleWithFixedDelay(
            () -> guarded(() -> ownKeys.doWork(index)),
            0,
            SWEEP_INTERVAL.toMillis(),
            TimeUnit.MILLISECONDS);

    Optional<SslContext> tls = tls(settings, folder);
    if (settings.listen().xds() instanceof ListenAddress.Tcp tcp) {
      EnvoyBootstrap first = envoyOptions(settings);
      envoyOptions = first;
      xds =
          XdsServer.start(
              socket(tcp),
              tls,
              () -> Objects.requireNonNullElse(envoyOptions, first),
              registry,
              ledger,
              () -> config.config().timeouts().inFlightExpiry(),
              metrics.server(),
              NANO_CLOCK);
      closing.add("xds", xds::close);
    } else {
      xds = null;
    }

    ConfigWatcher watcher =
        new ConfigWatcher(
            initial, ConfigLoader.FileCheck.IGNORE, start.overrides(), this::onConfig);
    closing.add("config watcher", watcher::close);
    metrics.server().bindConfig(watcher::ageSeconds, () -> !watcher.status().problems().isEmpty());
    watcher.start();

    DebugPages pages =
        new DebugPages(
            registry::fleet,
            events::views,
            views,
            ownKeys,
            ledger,
            loads,
            predictor,
            decisions,
            () -> pools,
            tokenizers,
            parity);
    if (settings.listen().admin() instanceof ListenAddress.Tcp tcp) {
      AdminServer started =
          AdminServer.start(
              socket(tcp),
              new AdminPages(
                  this::readiness,
                  metrics::writePage,
                  pages::fleet,
                  () -> xds == null ? Map.of("listen", "off") : xds.page(),
                  decisionPages(pages)));
      closing.add("admin pages", started::close);
      admin = started;
    } else {
      admin = null;
    }
    SecureRandom secrets = new SecureRandom();
    DispatchBook book =
        new DispatchBook(
            secrets::nextLong, NANO_CLOCK, () -> config.config().timeouts().inFlightExpiry());
    metrics.server().bindAwaitedReports(book::size);
    var _ =
        housekeeping.scheduleWithFixedDelay(
            () -> guarded(book::sweep), 0, BOOK_SWEEP_INTERVAL.toMillis(), TimeUnit.MILLISECONDS);
    if (settings.listen().reports() instanceof ListenAddress.Tcp tcp) {
      ReportServer reports = ReportServer.start(socket(tcp), book, metrics.server());
      closing.add("reports", reports::close);
    }
    extProc =
        ExtProcServer.start(
            extProcSettings(settings, tls, start.conformanceHooks()),
            pipeline,
            book,
            metrics.server());
    closing.add("ext_proc", extProc::close);
    if (settings.listen().inferenceHandler() instanceof ListenAddress.Tcp tcp) {
      HandlerServer started =
          HandlerServer.start(
              socket(tcp), pipeline, extProc.share(), () -> limits, book, metrics.server());
      closing.add("inference handler", started::close);
      handler = started;
    } else {
      handler = null;
    }
    doorsOpen = true;
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
    return start(config, StartOptions.NONE);
  }

  /** The same with what the command line says. */
  public static KvoyServer start(KvoyConfigFile file, StartOptions options) throws IOException {
    Closing closing = new Closing();
    KvoyConfigFile config = file.with(options.overrides().apply(file.config()));
    KvoyServer server;
    try {
      server = new KvoyServer(config, options, closing);
    } catch (IOException | RuntimeException e) {
      closing.close();
      throw e;
    }
    LOG.info(
        "kvoy_started ext_proc={} health={} admin={} xds={} pools={} workers={}",
        server.extProc.port(),
        server.extProc.healthPort(),
        server.adminPort(),
        server.xdsPort(),
        config.pools().size(),
        server.registry.fleet().workers().size());
    return server;
  }

  private static EnvoyBootstrap envoyOptions(KvoyConfig settings) throws IOException {
    try {
      return settings.envoy().options(settings.listen(), settings.tls(), settings.limits());
    } catch (IllegalArgumentException wrong) {
      throw new IOException("no configuration for Envoys: " + wrong.getMessage(), wrong);
    }
  }

  private Optional<SslContext> tls(KvoyConfig settings, Path folder) throws IOException {
    if (settings.tls().isEmpty()) {
      metrics.server().bindTls(() -> Double.NaN);
      return Optional.empty();
    }
    KvoyConfig.Tls tls = settings.tls().get();
    ServerIdentity identity =
        ServerIdentity.start(
            tls.certificateFolder().map(folder::resolve),
            InstantSource.system(),
            metrics.server()::tlsReload);
    metrics.server().bindTls(() -> identity.secondsLeft(InstantSource.system()));
    var _ =
        housekeeping.scheduleWithFixedDelay(
            () -> guarded(identity::doWork),
            tls.checkFiles().toMillis(),
            tls.checkFiles().toMillis(),
            TimeUnit.MILLISECONDS);
    return Optional.of(identity.sslContext());
  }

  private ExtProcServer.Settings extProcSettings(
      KvoyConfig settings, Optional<SslContext> tls, boolean conformanceHooks) throws IOException {
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
        tls,
        () -> limits,
        threads,
        threads * DECISION_QUEUE_PER_THREAD,
        conformanceHooks);
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

  private void showSpeculation(SpeculativePrefixes speculative) {
    ServerMeters server = metrics.server();
    server.bindSpeculative(() -> speculative.counts().live());
    server.bindSpeculativeEnd("confirmed", () -> speculative.counts().confirmed());
    server.bindSpeculativeEnd("contradicted", () -> speculative.counts().contradicted());
    server.bindSpeculativeEnd("withdrawn", () -> speculative.counts().withdrawn());
    server.bindSpeculativeEnd("expired", () -> speculative.counts().expired());
    server.bindSpeculativeEnd("displaced", () -> speculative.counts().displaced());
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
        applyEnvoy(current.config());
        // Another tokenizer, template or name may be right now, or wrong.
        ownKeys.forgetAll();
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

  /** The doors are those of the start, whatever the file says meanwhile. */
  private void applyEnvoy(KvoyConfig present) {
    XdsServer door = xds;
    if (door == null) {
      return;
    }
    try {
      envoyOptions = present.envoy().options(doors, tlsAtStart, present.limits());
      door.changed();
    } catch (IllegalArgumentException wrong) {
      LOG.warn("xds_options_kept until=restart problem=\"{}\"", wrong.getMessage());
    }
  }

  private void applyPools(KvoyConfigFile file) {
    List<ModelPoolRuntime> runtimes = new ArrayList<>();
    Map<String, ModelPoolRuntime> before = new HashMap<>();
    pools.pools().forEach(pool -> before.put(pool.name(), pool));
    tokenizers.apply(file);
    for (ModelPool pool : file.pools()) {
      PoolMeters meters = meters(pool, before.remove(pool.name()));
      meters.bindTokenizerBytes(() -> tokenizers.memoryBytes(pool.name()));
      runtimes.add(
          new ModelPoolRuntime(
              pool, tokenizers.forPool(pool.name()), tokenizers.workersOf(pool.name()), meters));
    }
    pools = new PoolTable(runtimes);
    parity.retain(runtimes.stream().map(ModelPoolRuntime::name).collect(Collectors.toSet()));
    staticFleet.apply(file.pools());
    before.values().forEach(gone -> gone.meters().close());
  }

  private @Nullable PoolMeters metersOf(String pool) {
    ModelPoolRuntime runtime = pools.named(pool);
    return runtime == null ? null : runtime.meters();
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
    if (!doorsOpen) {
      missing.add("the ext_proc port");
    }
    Fleet fleet = registry.fleet();
    boolean patient = NANO_CLOCK.getAsLong() - startNanos < SYNC_PATIENCE.toNanos();
    for (ModelPoolRuntime pool : pools.pools()) {
      // Requests that may wait are taken before there is a worker: that is what scales it up.
      if (fleet.readyCount(pool.name()) == 0 && pool.config().queue().isEmpty()) {
        missing.add("a ready worker in pool " + pool.name());
      }
      // Later on a reload may bring tokenizers: their pools go by load until they are there.
      if (!wasReady && tokenizers.state(pool.config()) == TokenizerState.LOADING) {
        missing.add("tokenizer of pool " + pool.name());
      }
      if (patient) {
        for (Worker worker : fleet.workers(pool.name())) {
          if (!worker.kv().ranks().isEmpty()
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
    boolean isReady = readiness() instanceof Readiness.Ready;
    if (isReady) {
      wasReady = true;
    }
    extProc.setReady(isReady);
    for (ModelPoolRuntime pool : pools.pools()) {
      pool.meters().tokenizer(tokenizers.state(pool.config()));
    }
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
    waitingRoom.close();
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

  /** The bound xDS port, -1 when it is off. */
  public int xdsPort() {
    return xds == null ? -1 : xds.port();
  }

  /** The bound port of the inference handler, -1 when it is off. */
  public int handlerPort() {
    return handler == null ? -1 : handler.port();
  }

  /** The bound admin port, -1 when it is off. */
  public int adminPort() {
    return admin == null ? -1 : admin.port();
  }

  public static void main(String[] args) {
    System.exit(ServerCommand.run(args));
  }
}
