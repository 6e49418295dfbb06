// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring;

import static java.util.Objects.requireNonNull;

import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.latency.LearningSettings;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.load.OwnShare;
import io.kvoy.scoring.load.PrometheusText;
import io.kvoy.scoring.pick.Pick;
import io.kvoy.scoring.pick.PickRequest;
import io.kvoy.scoring.pick.PickSettings;
import io.kvoy.scoring.pick.Picker;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/**
 * A registry with workers w0, w1, … in pool "pool" and everything a pick needs, on a fake clock.
 */
public final class TestFleet {
  public final FakeClock clock = new FakeClock();
  public final FleetRegistry registry = new FleetRegistry(HealthSettings.DEFAULTS, clock);
  public final InFlightLedger ledger = new InFlightLedger(clock);
  public final LoadBook book = new LoadBook(clock, Duration.ofSeconds(5));
  public final TtftPredictor predictor = new TtftPredictor(LearningSettings.DEFAULTS, clock);
  public final Picker picker;

  public TestFleet(int workers) {
    this(workers, PickSettings.DEFAULTS);
  }

  public TestFleet(int workers, PickSettings settings) {
    picker = new Picker(registry, book, ledger, predictor, settings, clock);
    for (int i = 0; i < workers; i++) {
      add(i);
    }
  }

  public Worker add(int index) {
    registry.put(
        WorkerSpec.ready("pool", "w" + index, new Endpoint("10.0.0." + (index + 1), 8000)));
    return workers().get(index);
  }

  public List<Worker> workers() {
    return registry.fleet().workers("pool");
  }

  public Worker worker(int slot) {
    return requireNonNull(registry.fleet().at(slot));
  }

  public Pick.Picked pick(PickRequest request) {
    return switch (picker.pick(request, registry.fleet())) {
      case Pick.Picked picked -> picked;
      case Pick.NoCandidate none -> throw new AssertionError("expected a worker, got " + none);
      case Pick.Saturated late -> throw new AssertionError("expected a worker, got " + late);
    };
  }

  /** A cold streamed request to anybody. */
  public Pick.Picked pick(int promptTokens) {
    return pick(PickRequest.of(workers(), promptTokens, _ -> 0));
  }

  /** Puts fresh gauges into the book for a worker. */
  public void gauges(Worker worker, int running, int waiting) {
    byte[] page =
        ("vllm:num_requests_running " + running + "\nvllm:num_requests_waiting " + waiting + "\n")
            .getBytes(StandardCharsets.UTF_8);
    book.put(
        worker,
        PrometheusText.parse(page, page.length, clock.getAsLong()),
        OwnShare.of(ledger.load(worker)));
  }

  /** Bytes of a test resource. */
  public static byte[] resource(String path) throws IOException {
    try (InputStream in = TestFleet.class.getResourceAsStream(path)) {
      if (in == null) {
        throw new IOException("test resource missing: " + path);
      }
      return in.readAllBytes();
    }
  }
}
