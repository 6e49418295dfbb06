// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.KvCacheListener;
import io.kvoy.scoring.kvcache.KvDecodeError;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.Tier;
import io.kvoy.server.metrics.ServerMeters;
import io.kvoy.server.metrics.WorkerMeters.KvEventKind;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts what happens to KV events, logs changes of a view's state and remembers the present ones.
 * Called on the index writer thread; {@link #view} from any.
 */
public final class KvEventMeters implements KvCacheListener {
  private static final Logger LOG = LoggerFactory.getLogger(KvEventMeters.class);

  private final ServerMeters server;
  private final WorkerMeterBook workers;
  private final Map<Worker, KvViewState> views = new ConcurrentHashMap<>();

  public KvEventMeters(ServerMeters server, WorkerMeterBook workers) {
    this.server = server;
    this.workers = workers;
  }

  /** How well a worker's cache is known; null for one that publishes no events. */
  public @Nullable KvViewState view(Worker worker) {
    return views.get(worker);
  }

  @Override
  public void onBatch(Worker worker, int events, long queuedNanos) {
    server.kvApplyDelay(queuedNanos);
  }

  @Override
  public void onStored(Worker worker, Tier tier, int blocks) {
    workers.of(worker).kvEvents(KvEventKind.STORED, blocks);
  }

  @Override
  public void onRemoved(Worker worker, Tier tier, int blocks) {
    workers.of(worker).kvEvents(KvEventKind.REMOVED, blocks);
  }

  @Override
  public void onCleared(Worker worker) {
    workers.of(worker).kvEvents(KvEventKind.CLEARED, 1);
  }

  @Override
  public void onDuplicate(Worker worker) {
    workers.of(worker).kvEvents(KvEventKind.DUPLICATE, 1);
  }

  @Override
  public void onSkipped(Worker worker, SkipReason reason, int blocks) {
    workers.of(worker).kvSkipped(reason, blocks);
  }

  @Override
  public void onMalformed(Worker worker, KvDecodeError.Kind kind) {
    workers.of(worker).kvDecodeError(kind);
  }

  @Override
  public void onGap(Worker worker, long expected, long seen) {
    workers.of(worker).kvGap();
    LOG.info("kv_gap worker={} expected={} seen={}", worker.name(), expected, seen);
  }

  @Override
  public void onRestart(Worker worker) {
    workers.of(worker).kvRestarted();
    LOG.info("kv_restart worker={}", worker.name());
  }

  @Override
  public void onReplayEnded(Worker worker, ReplayEnd end, int batches) {
    workers.of(worker).kvReplay(end);
    LOG.debug("kv_replay worker={} end={} batches={}", worker.name(), end, batches);
  }

  @Override
  public void onState(Worker worker, KvViewState from, KvViewState to) {
    workers.of(worker).kvView(to);
    if (to == KvViewState.DEAD) {
      views.remove(worker);
    } else {
      views.put(worker, to);
    }
    LOG.info("kv_view worker={} from={} to={}", worker.name(), from, to);
  }

  @Override
  public void onQueueFull(Worker worker) {
    workers.of(worker).kvDropped();
  }
}
