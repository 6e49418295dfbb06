// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench;

import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.Outcome;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.latency.LearningSettings;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.pick.Pick;
import io.kvoy.scoring.pick.PickRequest;
import io.kvoy.scoring.pick.PickSettings;
import io.kvoy.scoring.pick.Picker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
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
 * A whole pick (evaluate every worker, choose, book) and the reports that end it, without the
 * prefix lookup: {@code java -cp … org.openjdk.jmh.Main PickBenchmark}.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.SampleTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(1)
// JMH fills the fields before it measures.
@SuppressWarnings("NullAway.Init")
public class PickBenchmark {
  private static final int OPEN_REQUESTS = 1024;

  /** Workers in the pool. */
  @Param({"8", "64", "256"})
  int workers;

  private Picker picker;
  private Fleet fleet;
  private PickRequest request;
  private List<Pick.Picked> open;
  private int oldest;

  /** A pool in the middle of its day: {@value #OPEN_REQUESTS} requests in flight. */
  @Setup
  public void fill() {
    var registry = new FleetRegistry(HealthSettings.DEFAULTS, System::nanoTime);
    var specs = new ArrayList<WorkerSpec>();
    for (int i = 0; i < workers; i++) {
      specs.add(WorkerSpec.ready("pool", "w" + i, new Endpoint("10.0.0.1", 1000 + i)));
    }
    registry.apply("pool", specs);
    fleet = registry.fleet();
    var ledger = new InFlightLedger(System::nanoTime);
    picker =
        new Picker(
            registry,
            new LoadBook(System::nanoTime, Duration.ofSeconds(5)),
            ledger,
            new TtftPredictor(LearningSettings.DEFAULTS),
            PickSettings.DEFAULTS,
            System::nanoTime);
    int[] cached = new Random(1).ints(workers, 0, 32_000).toArray();
    request = PickRequest.of(fleet.workers("pool"), 32_000, worker -> cached[worker.slot()]);
    open = new ArrayList<>();
    for (int i = 0; i < OPEN_REQUESTS; i++) {
      open.add(take());
    }
  }

  private Pick.Picked take() {
    return switch (picker.pick(request, fleet)) {
      case Pick.Picked picked -> picked;
      case Pick.NoCandidate none -> throw new IllegalStateException(none.toString());
      case Pick.Saturated late -> throw new IllegalStateException(late.toString());
    };
  }

  /** One request comes, the oldest one ends. */
  @Benchmark
  public Pick.Picked pickAndEnd() {
    Pick.Picked gone = open.get(oldest);
    gone.flight().firstToken();
    gone.flight().ended(Outcome.SUCCESS);
    Pick.Picked picked = take();
    open.set(oldest, picked);
    oldest = (oldest + 1) % OPEN_REQUESTS;
    return picked;
  }
}
