// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.Outcome;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.latency.ErrorStats;
import io.kvoy.scoring.latency.LearningSettings;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.AdapterLoad;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.load.OwnShare;
import io.kvoy.scoring.load.Reading;
import io.kvoy.scoring.load.WorkerGauges;
import io.kvoy.scoring.pick.CachedTokens;
import io.kvoy.scoring.pick.Pick;
import io.kvoy.scoring.pick.PickRequest;
import io.kvoy.scoring.pick.PickRequest.CacheKnowledge;
import io.kvoy.scoring.pick.PickRequest.Tokens;
import io.kvoy.scoring.pick.PickSettings;
import io.kvoy.scoring.pick.Picker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** The product's own registry, ledger, predictor and picker, on virtual time. */
final class KvoyPolicy implements RoutingPolicy {
  private static final String POOL = "lab";
  private static final double SCRAPE_MILLIS = 1000;
  private static final double SWEEP_MILLIS = 100;

  private final VirtualTime time;
  private final double limitMillis;
  private final List<SimWorker> engines;
  private final CacheMirror mirror;
  private final FleetRegistry registry;
  private final InFlightLedger ledger;
  private final LoadBook book;
  private final TtftPredictor predictor;
  private final Picker picker;
  private final Map<SimRequest, Pick.Picked> flights = new HashMap<>();
  private final Map<Integer, Worker> sessions = new HashMap<>();
  private final List<Double> errors = new ArrayList<>();

  KvoyPolicy(
      VirtualTime time,
      List<SimWorker> engines,
      CacheMirror mirror,
      PickSettings settings,
      double limitMillis) {
    this.limitMillis = limitMillis;
    this.time = time;
    this.engines = engines;
    this.mirror = mirror;
    this.registry = new FleetRegistry(HealthSettings.DEFAULTS, time);
    this.ledger = new InFlightLedger(time);
    this.book = new LoadBook(time, Duration.ofSeconds(5));
    this.predictor = new TtftPredictor(LearningSettings.DEFAULTS, time);
    this.picker = new Picker(registry, book, ledger, predictor, settings, time);
    for (SimWorker engine : engines) {
      registry.put(spec(engine.index));
    }
    time.after(SCRAPE_MILLIS, this::scrape);
    time.after(SWEEP_MILLIS, this::sweep);
  }

  private static WorkerSpec spec(int index) {
    return WorkerSpec.ready(POOL, "w" + index, new Endpoint("10.0.0." + (index + 1), 8000));
  }

  private Worker worker(int index) {
    for (Worker worker : registry.fleet().workers(POOL)) {
      if (worker.name().equals("w" + index)) {
        return worker;
      }
    }
    throw new IllegalStateException("worker " + index + " is not in the fleet");
  }

  private static int index(Worker worker) {
    return Integer.parseInt(worker.name().substring(1));
  }

  private void scrape() {
    for (Worker worker : registry.fleet().workers(POOL)) {
      SimWorker engine = engines.get(index(worker));
      book.put(
          worker,
          new WorkerGauges(
              time.getAsLong(),
              Reading.within(engine.runningCount(), 0, 1e9),
              Reading.within(engine.waitingCount(), 0, 1e9),
              Reading.within(engine.kvUsage(), 0, 1),
              BlockCache.BLOCK_TOKENS,
              engine.cache.capacity(),
              Reading.MISSING,
              Reading.MISSING,
              Reading.MISSING,
              Reading.MISSING,
              Reading.MISSING,
              AdapterLoad.NONE,
              0,
              false),
          OwnShare.of(ledger.load(worker)));
    }
    time.after(SCRAPE_MILLIS, this::scrape);
  }

  private void sweep() {
    ledger.sweep();
    time.after(SWEEP_MILLIS, this::sweep);
  }

  @Override
  public int choose(SimRequest request, List<Integer> open) {
    var pickRequest =
        new PickRequest(
            registry.fleet().workers(POOL),
            request.promptTokens,
            Tokens.EXACT,
            new CachedTokens() {
              @Override
              public int on(Worker worker) {
                return mirror.confirmedTokens(index(worker), request);
              }

              @Override
              public int expectedOn(Worker worker) {
                return mirror.expectedTokens(index(worker), request);
              }

              @Override
              public long prefixKey(int tokens) {
                return request.blockKeys[tokens / BlockCache.BLOCK_TOKENS - 1];
              }
            },
            CacheKnowledge.EVENTS,
            request.outputTokens,
            true,
            PickRequest.DEFAULT_TTL,
            limitMillis,
            sessions.get(request.session),
            0,
            null);
    return switch (picker.pick(pickRequest, registry.fleet())) {
      case Pick.NoCandidate _, Pick.Saturated _ -> REFUSE;
      case Pick.Picked picked -> {
        flights.put(request, picked);
        if (request.session >= 0) {
          sessions.put(request.session, picked.worker());
        }
        yield index(picked.worker());
      }
    };
  }

  @Override
  public void placed(SimRequest request) {
    mirror.expect(request.worker, request);
  }

  @Override
  public void firstToken(SimRequest request) {
    mirror.settled(request.worker, request);
    Pick.Picked picked = flights.get(request);
    if (picked != null) {
      picked.flight().firstToken();
      errors.add(Math.abs(picked.prediction().totalMillis() / request.ttftMillis() - 1));
    }
  }

  @Override
  public void ended(SimRequest request) {
    if (Double.isNaN(request.firstTokenMillis)) {
      mirror.settled(request.worker, request);
    }
    Pick.Picked picked = flights.remove(request);
    if (picked != null) {
      picked.flight().ended(request.failed ? Outcome.FAILURE : Outcome.SUCCESS);
    }
  }

  @Override
  public void workerState(int worker, boolean isOpen, boolean restarted) {
    if (restarted) {
      registry.restarted(worker(worker));
    }
    registry.put(
        spec(worker).with(isOpen ? WorkerSpec.Readiness.READY : WorkerSpec.Readiness.DRAINING));
  }

  @Override
  public String note() {
    var text = new StringBuilder();
    for (Worker worker : registry.fleet().workers(POOL)) {
      ErrorStats stats = predictor.errors(worker);
      text.append(
          String.format(
              Locale.ROOT,
              "  %s: %d lessons, error median %.1f %%, p90 %.1f %%, bias %.1f %%, %s%n",
              worker.name(),
              stats.lessons(),
              100 * stats.medianShare(),
              100 * stats.p90Share(),
              100 * stats.biasShare(),
              predictor.coefficients(worker)));
    }
    return text.toString();
  }

  /** Absolute error of each prediction as a share of the actual time, in order. */
  List<Double> predictionErrors() {
    return errors;
  }
}
