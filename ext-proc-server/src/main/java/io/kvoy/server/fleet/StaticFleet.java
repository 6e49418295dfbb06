// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.fleet;

import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.fleet.WorkerSpec.Readiness;
import io.kvoy.server.config.ModelPool;
import io.kvoy.server.config.ModelPool.KvEvents;
import io.kvoy.server.config.ModelPool.StaticWorker;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Keeps the {@link FleetRegistry} equal to the workers that the configuration names.
 *
 * <p>{@link #apply} is called with each accepted configuration, by one thread. A worker that is to
 * be asked for its event endpoints is declared without them at once, so that it serves by load, and
 * again with them when it has answered ({@link KvSourceDiscovery}).
 */
public final class StaticFleet {
  private final FleetRegistry registry;
  private final KvSourceDiscovery discovery;
  private Set<String> poolNames = Set.of();

  public StaticFleet(FleetRegistry registry, KvSourceDiscovery discovery) {
    this.registry = registry;
    this.discovery = discovery;
  }

  /** Declares exactly the workers of these pools. */
  public void apply(List<ModelPool> pools) {
    Set<String> present = new HashSet<>();
    List<WorkerSpec> toAsk = new ArrayList<>();
    for (ModelPool pool : pools) {
      present.add(pool.name());
      List<WorkerSpec> specs = new ArrayList<>();
      for (StaticWorker worker : pool.workers()) {
        WorkerSpec spec = spec(pool, worker);
        boolean asks = worker.kvEvents().map(KvEvents::discover).orElse(false);
        specs.add(asks ? discovery.known(spec) : spec);
        if (asks) {
          toAsk.add(spec);
        }
      }
      registry.apply(pool.name(), specs);
    }
    for (String gone : poolNames) {
      if (!present.contains(gone)) {
        registry.apply(gone, List.of());
      }
    }
    poolNames = present;
    discovery.ask(toAsk);
  }

  private static WorkerSpec spec(ModelPool pool, StaticWorker worker) {
    return new WorkerSpec(
        pool.name(),
        worker.name(),
        worker.address(),
        "",
        Readiness.READY,
        worker.kvEvents().map(StaticFleet::publishers).orElse(KvPublishers.NONE));
  }

  /** What is configured; an endpoint that is still to be discovered is none. */
  private static KvPublishers publishers(KvEvents events) {
    return events.endpoint().isEmpty()
        ? new KvPublishers(List.of(), events.bind(), events.topic())
        : KvPublishers.consecutive(
            events.endpoint().get(),
            events.replayEndpoint().orElse(""),
            events.dataParallelRanks(),
            events.bind(),
            events.topic());
  }
}
