// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Which pool serves which model. Immutable; a configuration reload makes a new one. */
public final class PoolTable {
  private final List<ModelPoolRuntime> pools;
  private final Map<String, ModelPoolRuntime> byModel = new HashMap<>();
  private final @Nullable ModelPoolRuntime rest;

  /** In file order, at least one. */
  public PoolTable(List<ModelPoolRuntime> pools) {
    this.pools = List.copyOf(pools);
    ModelPoolRuntime takesAll = null;
    for (ModelPoolRuntime pool : pools) {
      pool.config().models().forEach(model -> byModel.put(model, pool));
      pool.config().adapters().forEach(adapter -> byModel.put(adapter, pool));
      if (pool.config().models().isEmpty() && takesAll == null) {
        takesAll = pool;
      }
    }
    // With one pool an unknown model still goes to a worker, which answers in its own words.
    this.rest = takesAll == null && pools.size() == 1 ? pools.getFirst() : takesAll;
  }

  public List<ModelPoolRuntime> pools() {
    return pools;
  }

  /** The pool that serves a model; null when none does. */
  public @Nullable ModelPoolRuntime serving(String model) {
    ModelPoolRuntime pool = byModel.get(model);
    return pool != null ? pool : rest;
  }

  /** The pool of that name; null when there is none any more. */
  public @Nullable ModelPoolRuntime named(String name) {
    for (ModelPoolRuntime pool : pools) {
      if (pool.name().equals(name)) {
        return pool;
      }
    }
    return null;
  }

  /** Whether a model or adapter name stands in the configuration: safe as a metric tag. */
  public boolean knows(String model) {
    return byModel.containsKey(model);
  }

  /** Where requests go that name no model. */
  public ModelPoolRuntime first() {
    return pools.getFirst();
  }
}
