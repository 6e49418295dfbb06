// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Owner of the {@link Fleet}: gives slots and lives to what discovery declares, merges what probes
 * and real answers say about health, and publishes a new snapshot for every visible change.
 *
 * <p>Writers (discovery, prober, response path) come from any thread and serialise on one monitor;
 * an answer that changes nothing visible touches only its worker's own state. Readers take {@link
 * #fleet()}, a volatile read. Listeners hear changes in order, outside the monitor.
 *
 * <p>Slots are dense and reused; a slot's {@code life} grows with every worker that gets it, so
 * news of an earlier life is told apart and dropped.
 */
public final class FleetRegistry {
  /** Where an identity lives. */
  private record Resident(WorkerSpec spec, Worker worker, WorkerCircuit circuit) {}

  private record Identity(String pool, String name) {
    static Identity of(WorkerSpec spec) {
      return new Identity(spec.pool(), spec.name());
    }
  }

  private static final Logger log = LoggerFactory.getLogger(FleetRegistry.class);

  private final HealthSettings settings;
  private final LongSupplier nanoClock;
  private final List<FleetListener> listeners = new CopyOnWriteArrayList<>();
  private final Object lock = new Object();

  @GuardedBy("lock")
  private final Map<Identity, Resident> residents = new HashMap<>();

  @GuardedBy("lock")
  private final ArrayDeque<FleetChange> undelivered = new ArrayDeque<>();

  /** Lives given out per slot so far. */
  @GuardedBy("lock")
  private long[] lives = new long[0];

  @GuardedBy("lock")
  private boolean delivering;

  /** Replaced whole under the lock, read without it: index is the slot. */
  private volatile @Nullable Resident[] bySlot = new Resident[0];

  /** Published under the lock, read by every request. */
  private volatile Fleet fleet = Fleet.EMPTY;

  /**
   * @param settings when workers are taken out and let back in
   * @param nanoClock monotonic time
   */
  public FleetRegistry(HealthSettings settings, LongSupplier nanoClock) {
    this.settings = settings;
    this.nanoClock = nanoClock;
  }

  /** The current snapshot. */
  public Fleet fleet() {
    return fleet;
  }

  /** Adds a listener; it hears of changes from the next one on. */
  public void listen(FleetListener listener) {
    listeners.add(listener);
  }

  /** Makes the registry hold exactly these workers of one pool; others of that pool are removed. */
  public void apply(String pool, Collection<WorkerSpec> specs) {
    var wanted = new HashSet<String>();
    for (WorkerSpec spec : specs) {
      if (!spec.pool().equals(pool)) {
        throw new IllegalArgumentException(
            "expected workers of pool '" + pool + "', got one of '" + spec.pool() + "'");
      }
      wanted.add(spec.name());
    }
    synchronized (lock) {
      var step = new Step();
      for (Identity identity : List.copyOf(residents.keySet())) {
        if (identity.pool().equals(pool) && !wanted.contains(identity.name())) {
          evict(identity, step);
        }
      }
      for (WorkerSpec spec : specs) {
        settle(spec, step);
      }
      publish(step);
    }
    deliver();
  }

  /** Adds a worker or updates it; what changes its process makes a new life. */
  public void put(WorkerSpec spec) {
    synchronized (lock) {
      var step = new Step();
      settle(spec, step);
      publish(step);
    }
    deliver();
  }

  /** Removes a worker; does nothing when it is not there. */
  public void remove(String pool, String name) {
    synchronized (lock) {
      var step = new Step();
      evict(new Identity(pool, name), step);
      publish(step);
    }
    deliver();
  }

  /** Starts a new life for a worker that is known to have restarted; stale news does nothing. */
  public void restarted(Worker worker) {
    synchronized (lock) {
      var step = new Step();
      Resident resident = resident(worker);
      if (resident != null) {
        rebirth(resident, step);
      }
      publish(step);
    }
    deliver();
  }

  /** Takes in a probe's result; a worker that comes back after its process had gone is new. */
  public void probed(Worker worker, ProbeResult result) {
    Resident seen = resident(worker);
    if (seen == null) {
      return;
    }
    boolean reborn = seen.circuit().probe(result);
    synchronized (lock) {
      var step = new Step();
      Resident present = resident(worker);
      if (reborn && present != null) {
        rebirth(present, step);
      }
      publish(step);
    }
    deliver();
  }

  /** Takes in how a request ended on a worker; news of an earlier life is dropped. */
  public void ended(Worker worker, Outcome outcome) {
    Resident resident = resident(worker);
    if (resident == null) {
      return;
    }
    WorkerHealth before = resident.circuit().health();
    resident.circuit().outcome(outcome, nanoClock.getAsLong(), mayEject(worker));
    if (!before.equals(resident.circuit().health())) {
      synchronized (lock) {
        publish(new Step());
      }
      deliver();
    }
  }

  /** Whether a worker answered 429 or 503 a moment ago and should be avoided if others are free. */
  public boolean isHeldOff(Worker worker, long nowNanos) {
    Resident resident = resident(worker);
    return resident != null && resident.circuit().isHeldOff(nowNanos);
  }

  /** Asks to send one real request to an ejected worker; true at most once per ejection period. */
  public boolean grantTrial(Worker worker, long nowNanos) {
    Resident resident = resident(worker);
    return resident != null && resident.circuit().grantTrial(nowNanos);
  }

  private boolean mayEject(Worker worker) {
    Fleet now = fleet;
    List<Worker> pool = now.workers(worker.pool());
    int ejected = 0;
    for (Worker other : pool) {
      if (now.health(other).isEjected()) {
        ejected++;
      }
    }
    return ejected == 0
        ? pool.size() > 1
        : (ejected + 1) <= settings.maxEjectedShare() * pool.size();
  }

  private @Nullable Resident resident(Worker worker) {
    @Nullable Resident[] all = bySlot;
    Resident resident = worker.slot() < all.length ? all[worker.slot()] : null;
    return resident != null && resident.worker().life() == worker.life() ? resident : null;
  }

  /** Lives that ended and began within one change. */
  private static final class Step {
    final List<Worker> removed = new ArrayList<>();
    final List<Worker> added = new ArrayList<>();
  }

  @GuardedBy("lock")
  private void publish(Step step) {
    Fleet before = fleet;
    Fleet after = snapshot(before);
    if (after != null) {
      fleet = after;
      undelivered.add(new FleetChange(before, after, step.removed, step.added));
    }
  }

  /** Builds the next snapshot; null when nothing visible changed. */
  @GuardedBy("lock")
  private @Nullable Fleet snapshot(Fleet before) {
    @Nullable Resident[] all = bySlot;
    int slots = all.length;
    while (slots > 0 && all[slots - 1] == null) {
      slots--;
    }
    @Nullable Worker[] workers = new Worker[slots];
    @Nullable WorkerHealth[] health = new WorkerHealth[slots];
    boolean changed = slots != before.slots();
    for (int slot = 0; slot < slots; slot++) {
      Resident resident = all[slot];
      if (resident != null) {
        workers[slot] = resident.worker();
        health[slot] = resident.circuit().health();
      }
      Worker old = before.at(slot);
      changed |=
          resident == null
              ? old != null
              : !resident.worker().equals(old)
                  || !before.health(resident.worker()).equals(health[slot]);
    }
    return changed ? new Fleet(before.version() + 1, workers, health) : null;
  }

  @GuardedBy("lock")
  private void settle(WorkerSpec spec, Step step) {
    Resident present = residents.get(Identity.of(spec));
    if (present == null) {
      move(spec, freeSlot(), step);
    } else if (present.spec().sameLifeAs(spec)) {
      present.circuit().declare(spec.readiness());
      install(new Resident(spec, present.worker(), present.circuit()));
    } else {
      step.removed.add(present.worker());
      move(spec, present.worker().slot(), step);
    }
  }

  @GuardedBy("lock")
  private void rebirth(Resident resident, Step step) {
    Worker old = resident.worker();
    step.removed.add(old);
    Worker born = born(resident.spec(), old.slot());
    resident.circuit().forgetAnswers();
    install(new Resident(resident.spec(), born, resident.circuit()));
    step.added.add(born);
  }

  @GuardedBy("lock")
  private void move(WorkerSpec spec, int slot, Step step) {
    Worker born = born(spec, slot);
    install(new Resident(spec, born, new WorkerCircuit(settings, spec.readiness())));
    step.added.add(born);
  }

  @GuardedBy("lock")
  private Worker born(WorkerSpec spec, int slot) {
    if (slot >= lives.length) {
      lives = Arrays.copyOf(lives, slot + 1);
    }
    return new Worker(slot, ++lives[slot], spec.name(), spec.pool(), spec.endpoint(), spec.kv());
  }

  @GuardedBy("lock")
  private void install(Resident resident) {
    residents.put(Identity.of(resident.spec()), resident);
    int slot = resident.worker().slot();
    @Nullable Resident[] copy = Arrays.copyOf(bySlot, Math.max(bySlot.length, slot + 1));
    copy[slot] = resident;
    bySlot = copy;
  }

  @GuardedBy("lock")
  private void evict(Identity identity, Step step) {
    Resident gone = residents.remove(identity);
    if (gone != null) {
      @Nullable Resident[] copy = bySlot.clone();
      copy[gone.worker().slot()] = null;
      bySlot = copy;
      step.removed.add(gone.worker());
    }
  }

  @GuardedBy("lock")
  private int freeSlot() {
    @Nullable Resident[] all = bySlot;
    for (int slot = 0; slot < all.length; slot++) {
      if (all[slot] == null) {
        return slot;
      }
    }
    return all.length;
  }

  /** Delivers in order; a thread that finds another one delivering leaves its change to it. */
  private void deliver() {
    while (true) {
      FleetChange next;
      synchronized (lock) {
        if (delivering || undelivered.isEmpty()) {
          return;
        }
        delivering = true;
        next = undelivered.removeFirst();
      }
      try {
        for (FleetListener listener : listeners) {
          deliver(listener, next);
        }
      } finally {
        synchronized (lock) {
          delivering = false;
        }
      }
    }
  }

  private static void deliver(FleetListener listener, FleetChange change) {
    try {
      listener.fleetChanged(change);
    } catch (RuntimeException bug) {
      // One broken listener must not hide the change from the others.
      log.error("fleet listener failed, version={}", change.after().version(), bug);
    }
  }
}
