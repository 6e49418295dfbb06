// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Immutable, versioned snapshot of all workers and their health. A request takes one at its start
 * and keeps it to the end; {@link FleetRegistry} publishes the next one.
 */
public final class Fleet {
  /** No workers, version 0. */
  public static final Fleet EMPTY = new Fleet(0, new Worker[0], new WorkerHealth[0]);

  private final long version;
  private final @Nullable Worker[] bySlot;
  private final @Nullable WorkerHealth[] healthBySlot;
  private final List<Worker> workers;
  private final Map<String, List<Worker>> byPool;

  /** Takes ownership of both arrays; index is the slot, null where no worker lives. */
  Fleet(long version, @Nullable Worker[] bySlot, @Nullable WorkerHealth[] healthBySlot) {
    this.version = version;
    this.bySlot = bySlot;
    this.healthBySlot = healthBySlot;
    var all = new ArrayList<Worker>();
    var pools = new LinkedHashMap<String, List<Worker>>();
    for (Worker worker : bySlot) {
      if (worker != null) {
        all.add(worker);
        pools.computeIfAbsent(worker.pool(), _ -> new ArrayList<>()).add(worker);
      }
    }
    this.workers = List.copyOf(all);
    pools.replaceAll((_, list) -> List.copyOf(list));
    this.byPool = Map.copyOf(pools);
  }

  /** Grows by at least one with every change. */
  public long version() {
    return version;
  }

  /** All workers by slot, whatever their health. */
  public List<Worker> workers() {
    return workers;
  }

  /** Workers of one pool by slot, whatever their health; empty when the pool is not known. */
  public List<Worker> workers(String pool) {
    return byPool.getOrDefault(pool, List.of());
  }

  /** Pools that have at least one worker. */
  public Map<String, List<Worker>> pools() {
    return byPool;
  }

  /** One more than the highest slot: the length of a per-slot table that fits this snapshot. */
  public int slots() {
    return bySlot.length;
  }

  /** The worker in a slot, null when none lives there in this snapshot. */
  public @Nullable Worker at(int slot) {
    return slot >= 0 && slot < bySlot.length ? bySlot[slot] : null;
  }

  /** The worker that serves at an address, null when none does. */
  public @Nullable Worker at(Endpoint endpoint) {
    for (Worker worker : workers) {
      if (worker.endpoint().equals(endpoint)) {
        return worker;
      }
    }
    return null;
  }

  /** Whether this very life is part of the snapshot. */
  public boolean isLive(Worker worker) {
    Worker present = at(worker.slot());
    return present != null && present.life() == worker.life();
  }

  /** Health of a worker in this snapshot; a life that is not part of it is draining. */
  public WorkerHealth health(Worker worker) {
    WorkerHealth health = isLive(worker) ? healthBySlot[worker.slot()] : null;
    return health != null ? health : WorkerHealth.draining();
  }

  /** How many workers of a pool are ready. */
  public int readyCount(String pool) {
    int ready = 0;
    for (Worker worker : workers(pool)) {
      if (health(worker).isReady()) {
        ready++;
      }
    }
    return ready;
  }

  @Override
  public String toString() {
    return "Fleet[version=" + version + ", workers=" + workers.size() + "]";
  }
}
