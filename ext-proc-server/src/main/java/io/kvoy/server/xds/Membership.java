// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.xds;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.envoy.FleetMember;
import io.kvoy.envoy.FleetMember.Standing;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.FleetChange;
import io.kvoy.scoring.fleet.FleetListener;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerHealth;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.WorkerLoad;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * Who is to be in Envoy's clusters: the fleet, and for a while those who have left it.
 *
 * <p>A worker that left stays as draining until nothing is in flight to it, at least {@link
 * #LINGER} and at most {@code patience}: a request that was sent to it a moment ago still finds it,
 * and Envoy never takes a host away under a running answer.
 *
 * <p>Hears of the fleet on the thread that changes it, is read on the control plane's.
 */
final class Membership implements FleetListener {
  /** From a pick, on a fleet just replaced, to its arrival at Envoy: the longest decision. */
  static final Duration LINGER = Duration.ofSeconds(2);

  private final InFlightLedger ledger;
  private final LongSupplier nanoClock;
  private final Supplier<Duration> patience;

  /**
   * Counters of each life, taken when it began: the ledger gives a slot's counters to its next
   * life.
   */
  @GuardedBy("this")
  private final Map<Worker, WorkerLoad> loads = new HashMap<>();

  @GuardedBy("this")
  private final Map<Worker, Long> leftAtNanos = new HashMap<>();

  /** The fleet that was last heard of, so that nobody is in neither list. */
  @GuardedBy("this")
  private Fleet fleet = Fleet.EMPTY;

  Membership(InFlightLedger ledger, LongSupplier nanoClock, Supplier<Duration> patience) {
    this.ledger = ledger;
    this.nanoClock = nanoClock;
    this.patience = patience;
  }

  /** What was before the first change that is heard of; called after listening has begun. */
  synchronized void startWith(Fleet present) {
    if (present.version() > fleet.version()) {
      present.workers().forEach(w -> loads.computeIfAbsent(w, ledger::load));
      fleet = present;
    }
  }

  @Override
  public synchronized void fleetChanged(FleetChange change) {
    long now = nanoClock.getAsLong();
    for (Worker removed : change.removed()) {
      leftAtNanos.put(removed, now);
    }
    for (Worker added : change.added()) {
      loads.computeIfAbsent(added, ledger::load);
    }
    if (change.after().version() > fleet.version()) {
      fleet = change.after();
    }
  }

  /** Whether every worker has been looked at once, so that its health is known. */
  synchronized boolean isProbed() {
    for (Worker worker : fleet.workers()) {
      if (fleet.health(worker)
              instanceof WorkerHealth.Unready(WorkerHealth.UnreadyReason reason, String _)
          && reason == WorkerHealth.UnreadyReason.NOT_PROBED) {
        return false;
      }
    }
    return fleet.version() > 0;
  }

  /** Whether somebody who left is still kept. */
  synchronized boolean isDraining() {
    return !leftAtNanos.isEmpty();
  }

  /** Everybody who is to be told to Envoy, one entry per address. */
  synchronized List<FleetMember> members() {
    forgetThoseWhoAreDone();
    List<FleetMember> members = new ArrayList<>();
    for (Worker worker : fleet.workers()) {
      members.add(new FleetMember(worker.endpoint(), standing(fleet.health(worker))));
    }
    Set<Object> present = new HashSet<>();
    members.forEach(member -> present.add(member.endpoint()));
    for (Worker left : leftAtNanos.keySet()) {
      if (present.add(left.endpoint())) {
        members.add(new FleetMember(left.endpoint(), Standing.DRAINING));
      }
    }
    return members;
  }

  @GuardedBy("this")
  private void forgetThoseWhoAreDone() {
    long now = nanoClock.getAsLong();
    long patienceNanos = patience.get().toNanos();
    Iterator<Map.Entry<Worker, Long>> all = leftAtNanos.entrySet().iterator();
    while (all.hasNext()) {
      Map.Entry<Worker, Long> left = all.next();
      WorkerLoad load = loads.get(left.getKey());
      long since = now - left.getValue();
      boolean busy = load != null && load.inFlight() > 0;
      if (since >= patienceNanos || (!busy && since >= LINGER.toNanos())) {
        all.remove();
        loads.remove(left.getKey());
      }
    }
  }

  private static Standing standing(WorkerHealth health) {
    return switch (health) {
      case WorkerHealth.Ready _ -> Standing.HEALTHY;
      case WorkerHealth.Ejected _ -> Standing.DEGRADED;
      case WorkerHealth.Draining _ -> Standing.DRAINING;
      case WorkerHealth.Unready _ -> Standing.UNHEALTHY;
    };
  }
}
