// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.inference.Prompt;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.kvcache.PrefixIndex;
import io.kvoy.scoring.kvcache.PrefixIndexConfig;
import io.kvoy.scoring.kvcache.SpeculativePrefixes;
import io.kvoy.scoring.latency.LearningSettings;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.pick.PickSettings;
import io.kvoy.scoring.pick.Picker;
import io.kvoy.server.config.ModelPool;
import io.kvoy.server.feedback.DecisionLog;
import io.kvoy.server.feedback.Feedback;
import io.kvoy.server.feedback.WorkerMeterBook;
import io.kvoy.server.metrics.KvoyMetrics;
import io.kvoy.tokenizer.PromptTokenizer;
import io.kvoy.tokenizer.Tokenization;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;

/** The real pipeline over two workers that are only addresses. */
public final class PipelineRig implements AutoCloseable {
  private static final LongSupplier CLOCK = System::nanoTime;

  public final KvoyMetrics metrics = new KvoyMetrics();
  public final RoutingPipeline pipeline;

  /** Replaceable by a test. */
  public volatile PromptTokenizer tokenizer = _ -> new Tokenization.Exact(List.of(new int[100]));

  private final FleetRegistry registry = new FleetRegistry(HealthSettings.DEFAULTS, CLOCK);
  private final InFlightLedger ledger = new InFlightLedger(CLOCK);
  private final TtftPredictor predictor = new TtftPredictor(LearningSettings.DEFAULTS);
  private final AtomicInteger tokenized = new AtomicInteger();

  public PipelineRig() {
    LoadBook loads = new LoadBook(CLOCK, Duration.ofSeconds(2));
    WorkerMeterBook meters = new WorkerMeterBook(metrics, ledger, loads);
    registry.listen(meters);
    registry.apply(
        "pool",
        List.of(
            WorkerSpec.ready("pool", "a", new Endpoint("10.0.0.1", 8000)),
            WorkerSpec.ready("pool", "b", new Endpoint("2001:db8::7", 8000))));
    SpeculativePrefixes speculative = new SpeculativePrefixes(1024, CLOCK);
    PrefixIndex index = new PrefixIndex(new PrefixIndexConfig(16, 1024), speculative);
    ModelPool pool =
        new ModelPool(
            "pool",
            List.of("m"),
            List.of(),
            Optional.empty(),
            Optional.empty(),
            16,
            Duration.ofSeconds(1),
            Duration.ofSeconds(2),
            Duration.ofSeconds(1),
            Duration.ofSeconds(2),
            List.of());
    PoolTable pools =
        new PoolTable(
            List.of(
                new ModelPoolRuntime(pool, this::tokenize, metrics.pool("pool", List.of("m")))));
    Feedback feedback =
        new Feedback(
            registry::fleet,
            new DecisionLog(16, 1),
            meters,
            metrics.noPool(),
            speculative,
            CLOCK,
            () -> Instant.EPOCH,
            () -> false);
    pipeline =
        new RoutingPipeline(
            () -> pools,
            registry::fleet,
            index,
            speculative,
            new Picker(registry, loads, ledger, predictor, PickSettings.DEFAULTS, CLOCK),
            feedback,
            CLOCK,
            () -> Duration.ofMinutes(1),
            () -> 1 << 20);
  }

  private Tokenization tokenize(Prompt prompt) {
    tokenized.incrementAndGet();
    return tokenizer.tokenize(prompt);
  }

  /** How many prompts were tokenized. */
  public int tokenized() {
    return tokenized.get();
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

  /** Prompt tokens that wait for their prefill on both workers. */
  public long queuedTokens() {
    return registry.fleet().workers().stream()
        .mapToLong(worker -> ledger.load(worker).queuedPrefillTokens())
        .sum();
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
    metrics.close();
  }
}
