// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.micrometer.core.instrument.binder.jvm.JvmGcMetrics;
import io.micrometer.core.instrument.binder.jvm.JvmMemoryMetrics;
import io.micrometer.core.instrument.binder.system.ProcessorMetrics;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * The meters of the process and the page that shows them.
 *
 * <p>One per process, made by the wiring. {@link #pool} and {@link #worker} are called when a pool
 * or worker appears, under a lock; what they return is used without any. The same one may be asked
 * for again before its first handle is closed (a reload, a worker that left and came back): both
 * share the meters, which stay until the last is closed.
 */
public final class KvoyMetrics implements AutoCloseable {
  /** Tag value for what has no name of its own. */
  static final String OTHER = "other";

  /** Pool tag of requests that no pool takes. */
  static final String NO_POOL = "none";

  /** Most workers shown by name, about 60 series each; beyond them all share one name. */
  private static final int MAX_WORKERS = 10_000;

  private final PrometheusMeterRegistry registry;
  private final JvmGcMetrics gc = new JvmGcMetrics();
  private final ServerMeters server;
  private final PoolMeters noPool;

  private final int maxWorkers;
  private final Shelf<String, PoolMeters> pools = new Shelf<>();
  private final Shelf<WorkerName, WorkerMeters> workers = new Shelf<>();

  private record WorkerName(String pool, String worker) {}

  /** Meters in use, each with the number of those who hold it. */
  private static final class Shelf<K, M> {
    @GuardedBy("this")
    private final Map<K, M> meters = new HashMap<>();

    @GuardedBy("this")
    private final Map<K, Integer> holders = new HashMap<>();

    synchronized M take(K key, Function<K, M> create) {
      holders.merge(key, 1, Integer::sum);
      return meters.computeIfAbsent(key, create);
    }

    /** Removes the meters when nobody holds them any more; a close too many is ignored. */
    synchronized void giveBack(K key, Consumer<M> remove) {
      Integer left = holders.computeIfPresent(key, (_, n) -> n == 1 ? null : n - 1);
      if (left == null) {
        M last = meters.remove(key);
        if (last != null) {
          remove.accept(last);
        }
      }
    }

    synchronized boolean hasRoomFor(K key, int most) {
      return meters.containsKey(key) || meters.size() < most;
    }
  }

  /** Empty meters. */
  public KvoyMetrics() {
    this(new PrometheusMeterRegistry(PrometheusConfig.DEFAULT), MAX_WORKERS);
  }

  KvoyMetrics(PrometheusMeterRegistry registry, int maxWorkers) {
    this.registry = registry;
    this.maxWorkers = maxWorkers;
    this.server = new ServerMeters(new Meters(registry));
    this.noPool = pool(NO_POOL, List.of());
    new JvmMemoryMetrics().bindTo(registry);
    new ProcessorMetrics().bindTo(registry);
    gc.bindTo(registry);
  }

  /** Meters of the process as a whole. */
  public ServerMeters server() {
    return server;
  }

  /** Meters of requests that no pool takes. */
  public PoolMeters noPool() {
    return noPool;
  }

  /**
   * Meters of a pool, to be closed when it goes.
   *
   * @param name from the configuration
   * @param models model and adapter names from the configuration; others count as {@code other}
   */
  public PoolMeters pool(String name, Collection<String> models) {
    PoolMeters pool = pools.take(name, this::createPool);
    pool.declare(models);
    return pool;
  }

  private PoolMeters createPool(String name) {
    return new PoolMeters(
        new Meters(registry, name), () -> pools.giveBack(name, PoolMeters::remove));
  }

  /** Meters of a worker, to be closed when it leaves. */
  public WorkerMeters worker(String pool, String name) {
    WorkerName key = new WorkerName(pool, name);
    return workers.take(
        workers.hasRoomFor(key, maxWorkers) ? key : new WorkerName(pool, OTHER),
        this::createWorker);
  }

  private WorkerMeters createWorker(WorkerName key) {
    return new WorkerMeters(
        new Meters(registry, key.pool(), key.worker()),
        () -> workers.giveBack(key, WorkerMeters::remove));
  }

  /** Writes the page in the Prometheus text format. */
  public void writePage(OutputStream out) throws IOException {
    registry.scrape(out);
  }

  PrometheusMeterRegistry registry() {
    return registry;
  }

  @Override
  public void close() {
    gc.close();
    registry.close();
  }
}
