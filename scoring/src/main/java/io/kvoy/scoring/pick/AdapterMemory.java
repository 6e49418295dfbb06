// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.load.AdapterLoad;
import io.kvoy.scoring.load.ScrapedLoad;
import io.kvoy.scoring.load.WorkerLoad;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * What a LoRA adapter costs on a worker: nothing where it is in use or was of late, a load where it
 * is not, and a wait where the batch has no place for another one.
 *
 * <p>Workers name only adapters with requests (vLLM 0.32, {@code vllm/v1/metrics/loggers.py}), so
 * an idle one that is still loaded is known from our own picks alone. Any thread, no lock; bounded.
 */
final class AdapterMemory {
  /**
   * Reading a small adapter and copying it to the GPU; a guess of the right size, for a choice
   * between workers. The learned fixed part takes up what it is off by.
   */
  static final double LOAD_MILLIS = 100;

  /** How long an idle adapter is taken to stay loaded. */
  private static final long KEPT_NANOS = 60_000_000_000L;

  /** Pairs of adapter and worker that are remembered. */
  private static final int MAX_ENTRIES = 65_536;

  /** Wait for a place when nothing is known of how long answers take. */
  private static final double UNKNOWN_WAIT_MILLIS = 1000;

  private record Place(String adapter, int slot, long life) {}

  private final Map<Place, Long> usedAtNanos = new ConcurrentHashMap<>();

  /** A request for the adapter goes to the worker. */
  void used(String adapter, Worker worker, long nowNanos) {
    if (usedAtNanos.size() >= MAX_ENTRIES) {
      usedAtNanos.clear();
    }
    usedAtNanos.put(new Place(adapter, worker.slot(), worker.life()), nowNanos);
  }

  /** Milliseconds until the worker can start with the adapter's prefill, beside its queue. */
  double loadMillis(String adapter, Worker worker, @Nullable ScrapedLoad scraped, long nowNanos) {
    if (isActive(adapter, scraped)) {
      return 0;
    }
    Long used = usedAtNanos.get(new Place(adapter, worker.slot(), worker.life()));
    return used != null && nowNanos - used < KEPT_NANOS ? 0 : LOAD_MILLIS;
  }

  /** Wait until one of the adapters in the batch has no more requests; 0 when there is a place. */
  static double placeMillis(String adapter, @Nullable ScrapedLoad scraped, WorkerLoad load) {
    if (scraped == null || isActive(adapter, scraped)) {
      return 0;
    }
    AdapterLoad adapters = scraped.gauges().adapters();
    int wanting = adapters.running().size() + adapters.waiting().size() + 1;
    if (adapters.maxAdapters() == 0 || wanting <= adapters.maxAdapters()) {
      return 0;
    }
    // As long as an answer takes, by the number in flight and how many end in a second.
    double ended = load.endedPerSecond();
    double answerMillis = ended > 0 ? 1000 * load.inFlight() / ended : UNKNOWN_WAIT_MILLIS;
    return Math.max(UNKNOWN_WAIT_MILLIS, answerMillis)
        * (wanting - adapters.maxAdapters())
        / adapters.maxAdapters();
  }

  private static boolean isActive(String adapter, @Nullable ScrapedLoad scraped) {
    return scraped != null
        && (scraped.gauges().adapters().running().contains(adapter)
            || scraped.gauges().adapters().waiting().contains(adapter));
  }
}
