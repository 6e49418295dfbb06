// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.KvBatch;
import io.kvoy.scoring.kvcache.KvCacheListener;
import io.kvoy.scoring.kvcache.KvDecodeError;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.OwnKeyCheck;
import io.kvoy.scoring.kvcache.Tier;
import io.kvoy.server.metrics.ServerMeters;
import io.kvoy.server.metrics.WorkerMeters.KvEventKind;
import java.time.InstantSource;
import java.util.EnumMap;
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

  /** An age beyond it is a clock that was never set, or a test's. */
  private static final double MAX_AGE_SECONDS = 3600;

  private final ServerMeters server;
  private final WorkerMeterBook workers;
  private final OwnKeyCheck ownKeys;
  private final InstantSource wallClock;
  private final Map<Worker, Ranks> views = new ConcurrentHashMap<>();
  private volatile Size size = new Size(0, 0, 0);

  /** The states of a worker's ranks. */
  private static final class Ranks {
    /** Ranks in each state; index writer only. */
    private final Map<KvViewState, Integer> counts = new EnumMap<>(KvViewState.class);

    /** That of the least known rank. */
    volatile KvViewState least = KvViewState.SYNCING;

    int count(KvViewState state) {
      return counts.getOrDefault(state, 0);
    }
  }

  private record Size(long entries, long keys, long bytes) {}

  /**
   * @param ownKeys told of restarts and of block sizes that cannot be used
   * @param wallClock to show how old events are by the worker's clock; decides nothing
   */
  public KvEventMeters(
      ServerMeters server, WorkerMeterBook workers, OwnKeyCheck ownKeys, InstantSource wallClock) {
    this.server = server;
    this.workers = workers;
    this.ownKeys = ownKeys;
    this.wallClock = wallClock;
    server.bindIndex(() -> size.entries(), () -> size.keys(), () -> size.bytes());
  }

  /**
   * How well a worker's cache is known, that of its least known rank; null for one that publishes
   * no events.
   */
  public @Nullable KvViewState view(Worker worker) {
    Ranks ranks = views.get(worker);
    return ranks == null ? null : ranks.least;
  }

  @Override
  public void onBatch(Worker worker, KvBatch batch, long queuedNanos) {
    server.kvApplyDelay(queuedNanos);
    double age = wallClock.millis() / 1e3 - batch.timestampSeconds();
    if (age >= 0 && age < MAX_AGE_SECONDS) {
      server.kvEventAge((long) (age * 1e9));
    }
  }

  @Override
  public void onSize(long entries, long keys, long bytes) {
    size = new Size(entries, keys, bytes);
  }

  @Override
  public void onRefusedBlockSize(Worker worker, int blockTokens) {
    ownKeys.refusedBlockSize(worker, blockTokens);
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
    ownKeys.forget(worker);
    LOG.info("kv_restart worker={}", worker.name());
  }

  @Override
  public void onReplayEnded(Worker worker, ReplayEnd end, int batches) {
    workers.of(worker).kvReplay(end);
    LOG.debug("kv_replay worker={} end={} batches={}", worker.name(), end, batches);
  }

  @Override
  public void onState(Worker worker, KvViewState from, KvViewState to) {
    Ranks ranks = views.computeIfAbsent(worker, KvEventMeters::syncing);
    ranks.counts.merge(from, -1, Integer::sum);
    ranks.counts.merge(to, 1, Integer::sum);
    KvViewState least = least(ranks);
    ranks.least = least;
    workers.of(worker).kvView(least);
    if (ranks.count(KvViewState.DEAD) >= worker.kv().ranks().size()) {
      views.remove(worker);
    }
    LOG.info("kv_view worker={} from={} to={}", worker.name(), from, to);
  }

  @Override
  public void onQueueFull(Worker worker) {
    workers.of(worker).kvDropped();
  }

  private static Ranks syncing(Worker worker) {
    Ranks ranks = new Ranks();
    ranks.counts.put(KvViewState.SYNCING, worker.kv().ranks().size());
    return ranks;
  }

  private static KvViewState least(Ranks ranks) {
    KvViewState least = KvViewState.LIVE;
    for (KvViewState state : KvViewState.values()) {
      if (ranks.count(state) > 0 && state.trust().compareTo(least.trust()) <= 0) {
        least = state;
      }
    }
    return least;
  }
}
