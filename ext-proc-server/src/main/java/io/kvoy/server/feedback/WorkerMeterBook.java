// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.scoring.fleet.FleetChange;
import io.kvoy.scoring.fleet.FleetListener;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerHealth;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.server.metrics.KvoyMetrics;
import io.kvoy.server.metrics.WorkerMeters;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * The meters of every live worker, by slot. Follows the fleet; readers take no lock. News of a
 * worker that has left goes to meters that nobody shows.
 */
public final class WorkerMeterBook implements FleetListener {
  private record Entry(long life, WorkerMeters meters) {}

  private final KvoyMetrics metrics;
  private final InFlightLedger ledger;
  private final LoadBook loads;
  private final TtftPredictor predictor;

  /** Replaced whole by the one delivering thread, read by all. */
  private volatile @Nullable Entry[] bySlot = new Entry[0];

  @GuardedBy("this")
  private @Nullable WorkerMeters nobody;

  public WorkerMeterBook(
      KvoyMetrics metrics, InFlightLedger ledger, LoadBook loads, TtftPredictor predictor) {
    this.metrics = metrics;
    this.ledger = ledger;
    this.loads = loads;
    this.predictor = predictor;
  }

  /** The worker's meters. */
  public WorkerMeters of(Worker worker) {
    @Nullable Entry[] table = bySlot;
    Entry entry = worker.slot() < table.length ? table[worker.slot()] : null;
    return entry != null && entry.life() == worker.life() ? entry.meters() : nobody();
  }

  private synchronized WorkerMeters nobody() {
    WorkerMeters meters = nobody;
    if (meters == null) {
      meters = new KvoyMetrics().worker("none", "none");
      nobody = meters;
    }
    return meters;
  }

  @Override
  public void fleetChanged(FleetChange change) {
    @Nullable Entry[] table = bySlot.clone();
    for (Worker added : change.added()) {
      // Before the old life is closed, so that a restarted worker keeps its counters.
      WorkerMeters meters = metrics.worker(added.pool(), added.name());
      meters.bind(
          () -> ledger.load(added).inFlight(),
          () -> loads.ageMillis(added) / 1000,
          () -> predictor.errors(added));
      if (added.slot() >= table.length) {
        table = Arrays.copyOf(table, added.slot() + 1);
      }
      Entry old = table[added.slot()];
      table[added.slot()] = new Entry(added.life(), meters);
      if (old != null) {
        old.meters().close();
      }
    }
    for (Worker removed : change.removed()) {
      Entry entry = removed.slot() < table.length ? table[removed.slot()] : null;
      if (entry != null && entry.life() == removed.life()) {
        table[removed.slot()] = null;
        entry.meters().close();
      }
    }
    bySlot = table;
    for (Worker worker : change.after().workers()) {
      of(worker).health(word(change.after().health(worker)));
    }
  }

  /** The metric word of a health. */
  public static WorkerMeters.Health word(WorkerHealth health) {
    return switch (health) {
      case WorkerHealth.Ready _ -> WorkerMeters.Health.READY;
      case WorkerHealth.Unready _ -> WorkerMeters.Health.UNREADY;
      case WorkerHealth.Draining _ -> WorkerMeters.Health.DRAINING;
      case WorkerHealth.Ejected _ -> WorkerMeters.Health.EJECTED;
    };
  }
}
