// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.Prompt;
import io.kvoy.inference.dialect.ParseOptions;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.kvcache.KvCacheListener;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.OwnKeyCheck;
import io.kvoy.scoring.kvcache.PrefixIndex;
import io.kvoy.scoring.kvcache.PrefixIndexConfig;
import io.kvoy.scoring.kvcache.SpeculativePrefixes;
import io.kvoy.scoring.latency.Features;
import io.kvoy.scoring.latency.LearningSettings;
import io.kvoy.scoring.latency.Lesson;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.pick.PickSettings;
import io.kvoy.scoring.pick.Picker;
import io.kvoy.server.config.ModelPool;
import io.kvoy.server.feedback.DecisionLog;
import io.kvoy.server.feedback.DecisionRecord;
import io.kvoy.server.feedback.Feedback;
import io.kvoy.server.feedback.ResponseHomes;
import io.kvoy.server.feedback.WorkerMeterBook;
import io.kvoy.server.metrics.KvoyMetrics;
import io.kvoy.server.metrics.PoolMeters;
import io.kvoy.server.metrics.RequestOutcome;
import io.kvoy.server.queue.WaitingRoom;
import io.kvoy.tokenizer.PromptTokenizer;
import io.kvoy.tokenizer.Tokenization;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;

/** The real pipeline over two workers that are only addresses. */
public final class PipelineRig implements AutoCloseable {
  private static final LongSupplier CLOCK = System::nanoTime;

  private static final List<WorkerSpec> WORKERS =
      List.of(
          WorkerSpec.ready("pool", "a", new Endpoint("10.0.0.1", 8000)),
          WorkerSpec.ready("pool", "b", new Endpoint("2001:db8::7", 8000)));

  public final KvoyMetrics metrics = new KvoyMetrics();
  public final RoutingPipeline pipeline;
  private final PoolMeters poolMeters = metrics.pool("pool", List.of("m"));

  /** Replaceable by a test. */
  public volatile PromptTokenizer tokenizer = _ -> new Tokenization.Exact(List.of(new int[100]));

  private final FleetRegistry registry = new FleetRegistry(HealthSettings.DEFAULTS, CLOCK);
  private final InFlightLedger ledger = new InFlightLedger(CLOCK);
  private final TtftPredictor predictor = new TtftPredictor(LearningSettings.DEFAULTS, CLOCK);
  private final PrefixIndex index;
  private volatile PoolTable pools;
  private final DecisionLog decisions = new DecisionLog(16, 1);
  private final WaitingRoom<RoutingDecision> waitingRoom = new WaitingRoom<>(CLOCK);
  private final AtomicInteger tokenized = new AtomicInteger();

  public PipelineRig() {
    this(false);
  }

  /**
   * @param injectUsage whether the pool asks for usage
   */
  public PipelineRig(boolean injectUsage) {
    this(TestPools.pool("pool", List.of("m"), injectUsage));
  }

  /** A pool without workers yet, whose requests wait; the objective "first" goes first. */
  public static PipelineRig withoutWorkers(int maxWaiting) {
    PipelineRig rig =
        new PipelineRig(
            TestPools.queueing(
                "pool",
                List.of("m"),
                false,
                new ModelPool.Queue(maxWaiting, Duration.ofMinutes(1), Map.of("first", 1), true)));
    rig.setPresent(false);
    return rig;
  }

  /**
   * @param pool named "pool", serving "m"
   */
  public PipelineRig(ModelPool pool) {
    LoadBook loads = new LoadBook(CLOCK, Duration.ofSeconds(2));
    WorkerMeterBook meters = new WorkerMeterBook(metrics, ledger, loads, predictor);
    registry.listen(meters);
    registry.apply("pool", WORKERS);
    SpeculativePrefixes speculative = new SpeculativePrefixes(1024, CLOCK);
    OwnKeyCheck ownKeys = new OwnKeyCheck(CLOCK, OwnKeyCheck.Verdicts.UNHEARD);
    index = new PrefixIndex(new PrefixIndexConfig(16, 1024), speculative, ownKeys);
    pools = new PoolTable(List.of(new ModelPoolRuntime(pool, this::tokenize, null, poolMeters)));
    ResponseHomes homes = new ResponseHomes(100);
    Feedback feedback =
        new Feedback(
            registry::fleet,
            decisions,
            meters,
            metrics.noPool(),
            speculative,
            ownKeys,
            CLOCK,
            () -> Instant.EPOCH,
            () -> false,
            homes);
    pipeline =
        new RoutingPipeline(
            () -> pools,
            registry::fleet,
            index,
            speculative,
            ownKeys,
            new Picker(registry, loads, ledger, predictor, PickSettings.DEFAULTS, CLOCK),
            feedback,
            CLOCK,
            () -> Duration.ofMinutes(1),
            () -> 1 << 20,
            ParseOptions.DEFAULTS,
            (_, _) -> {},
            homes,
            waitingRoom);
  }

  private Tokenization tokenize(Prompt prompt) {
    tokenized.incrementAndGet();
    return tokenizer.tokenize(prompt);
  }

  /** Prompt tokens that the answer to the newest decision reported; -1 when none did. */
  public long reportedPromptTokens() {
    var newest = decisions.latest(1);
    var outcome = newest.isEmpty() ? null : newest.getFirst().outcome();
    return outcome == null ? -1 : outcome.promptTokens().orElse(-1);
  }

  /** Another configuration of the pool. */
  public void reload(ModelPool pool) {
    pools = new PoolTable(List.of(new ModelPoolRuntime(pool, this::tokenize, null, poolMeters)));
  }

  /** Brings the workers back while none of those who wait is in the middle of trying. */
  public void setPresentBeforeTheNextTry() {
    RoutingDecision nothing = RoutingDecision.Reject.of(ApiKind.OTHER, RequestOutcome.NO_CANDIDATE);
    waitingRoom.enter(
        "pool",
        new WaitingRoom.Guest<>(
            Integer.MAX_VALUE,
            "",
            () -> {
              setPresent(true);
              return nothing;
            },
            () -> nothing,
            () -> nothing,
            _ -> true,
            _ -> {},
            poolMeters),
        Integer.MAX_VALUE,
        Duration.ofMinutes(1));
  }

  /** Requests that wait for a worker. */
  public int waiting() {
    return poolMeters.waiting();
  }

  /** Takes both workers away, or brings them back as new ones. */
  public void setPresent(boolean present) {
    registry.apply("pool", present ? WORKERS : List.of());
  }

  /** Makes both workers known to the index as such that publish no events. */
  public void openWithoutEvents() {
    registry
        .fleet()
        .workers()
        .forEach(worker -> index.open(worker, KvViewState.BLIND, KvCacheListener.NONE));
  }

  /** The newest decision. */
  public DecisionRecord decision() {
    return decisions.latest(1).getFirst().decision();
  }

  /** How many prompts were tokenized. */
  public int tokenized() {
    return tokenized.get();
  }

  /** Both workers. */
  public List<Worker> workers() {
    return registry.fleet().workers();
  }

  /** Both workers' addresses, as gateways spell them. */
  public List<String> addresses() {
    return registry.fleet().workers().stream().map(worker -> worker.endpoint().toString()).toList();
  }

  /** Requests in flight on both workers. */
  public int inFlight() {
    return registry.fleet().workers().stream()
        .mapToInt(worker -> ledger.load(worker).inFlight())
        .sum();
  }

  /** Requests in flight on one worker. */
  public int inFlightAt(String address) {
    return registry.fleet().workers().stream()
        .filter(worker -> worker.endpoint().toString().equals(address))
        .mapToInt(worker -> ledger.load(worker).inFlight())
        .sum();
  }

  /** Whether a worker is left alone for a moment because it said that it has no room. */
  public boolean isHeldOff(String address) {
    return registry.fleet().workers().stream()
        .filter(worker -> worker.endpoint().toString().equals(address))
        .anyMatch(worker -> registry.isHeldOff(worker, CLOCK.getAsLong()));
  }

  /** Whether a worker is out because its answers, or their absence, are its fault. */
  public boolean isEjected(String address) {
    return registry.fleet().workers().stream()
        .filter(worker -> worker.endpoint().toString().equals(address))
        .anyMatch(worker -> registry.fleet().health(worker).isEjected());
  }

  /** Prompt tokens that wait for their prefill on both workers. */
  public long queuedTokens() {
    return registry.fleet().workers().stream()
        .mapToLong(worker -> ledger.load(worker).queuedPrefillTokens())
        .sum();
  }

  /** Makes both workers known to take so many milliseconds for a thousand prompt tokens. */
  public void teach(double millisPerThousandTokens) {
    for (int i = 0; i < 200; i++) {
      Features features = new Features(500 + 37.0 * (i % 50), 0, 0, 0, 0);
      double millis = 5 + millisPerThousandTokens * features.uncachedTokens() / 1000;
      for (Worker worker : registry.fleet().workers()) {
        double predicted = predictor.predict(worker, features).totalMillis();
        predictor.learn(new Lesson(worker, features, predicted, millis, false));
      }
    }
  }

  /** First tokens learned from, both workers together. */
  public long lessons() {
    long lessons = 0;
    for (Worker worker : registry.fleet().workers()) {
      lessons += predictor.lessons(worker);
    }
    return lessons;
  }

  @Override
  public void close() {
    waitingRoom.close();
    metrics.close();
  }
}
