// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import io.kvoy.scoring.fleet.Worker;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * The latest scraped load of every worker. What is older than the limit, or of an earlier life, is
 * unknown, not old.
 *
 * <p>One scraper thread per worker writes that worker's entry; picks read without a lock.
 */
public final class LoadBook {
  private record Entry(long life, ScrapedLoad load) {}

  /**
   * Usage from which a queue is put down to missing blocks; a prompt needs some of them at once.
   */
  private static final double FULL_KV_SHARE = 0.85;

  private final LongSupplier nanoClock;
  private final long maxAgeNanos;
  private final Object growth = new Object();
  private final AtomicLong invalidSamples = new AtomicLong();
  private final AtomicLong pagesWithoutLoad = new AtomicLong();

  /** Index is the slot; replaced whole under {@link #growth}, read without it. */
  private volatile @Nullable Entry[] entries = new Entry[0];

  /**
   * @param nanoClock monotonic time, the same as the scraper's
   * @param maxAge how old a scrape may be to count; several scrape intervals
   */
  public LoadBook(LongSupplier nanoClock, Duration maxAge) {
    this.nanoClock = nanoClock;
    this.maxAgeNanos = maxAge.toNanos();
  }

  /**
   * Notes a scrape down.
   *
   * @param own what we had on the worker ourselves during the scrape
   */
  public void put(Worker worker, WorkerGauges gauges, OwnShare own) {
    invalidSamples.addAndGet(gauges.invalidSamples());
    if (!gauges.tellsLoad()) {
      pagesWithoutLoad.incrementAndGet();
    }
    synchronized (growth) {
      @Nullable Entry[] table = entries;
      int slot = worker.slot();
      Entry present = slot < table.length ? table[slot] : null;
      if (present != null && present.life() > worker.life()) {
        return;
      }
      WorkerGauges before =
          present != null && present.life() == worker.life() ? present.load().gauges() : null;
      @Nullable Entry[] copy = Arrays.copyOf(table, Math.max(table.length, slot + 1));
      copy[slot] = new Entry(worker.life(), compare(before, gauges, own));
      entries = copy;
    }
  }

  private static ScrapedLoad compare(
      @Nullable WorkerGauges before, WorkerGauges gauges, OwnShare own) {
    double running = gauges.running().orElse(0);
    double waiting = gauges.waiting().orElse(0);
    double all = running + waiting;
    double foreign = Math.max(0, all - own.inFlight());
    double share = all > 0 ? foreign / all : 0;
    Reading rate = Reading.MISSING;
    Reading hits = Reading.MISSING;
    if (before != null) {
      double seconds = (gauges.scrapedAtNanos() - before.scrapedAtNanos()) / 1e9;
      Reading tokens = growth(before.promptTokens(), gauges.promptTokens());
      rate =
          tokens.isKnown() && seconds > 0
              ? Reading.within(tokens.value() / seconds, 0, Double.MAX_VALUE)
              : tokens.isKnown() ? Reading.MISSING : tokens;
      Reading queried = growth(before.prefixQueriedTokens(), gauges.prefixQueriedTokens());
      Reading found = growth(before.prefixHitTokens(), gauges.prefixHitTokens());
      if (queried.isKnown() && found.isKnown() && queried.value() > 0) {
        hits = Reading.within(found.value() / queried.value(), 0, 1);
      }
    }
    // Waiting requests hold no blocks yet. Which of ours those are is not known; on average they
    // are as large as the others whose first token is owed.
    double owed = own.prefilling();
    double waitingTokens = owed > 0 ? own.queuedRoomTokens() * Math.min(1, waiting / owed) : 0;
    Reading demand =
        gauges.kvUsage().isKnown() && gauges.kvCapacityTokens() > 0
            ? Reading.within(
                gauges.kvUsage().value() * gauges.kvCapacityTokens() + waitingTokens,
                0,
                Double.MAX_VALUE)
            : Reading.MISSING;
    return new ScrapedLoad(
        gauges, waiting * share, running * share, demand, own.roomTokens(), rate, hits);
  }

  /** How much a counter grew; a counter that fell was reset and says nothing about the time. */
  private static Reading growth(Reading before, Reading after) {
    if (!before.isKnown() || !after.isKnown()) {
      return after.isKnown() ? Reading.MISSING : after;
    }
    return after.value() >= before.value()
        ? Reading.within(after.value() - before.value(), 0, Double.MAX_VALUE)
        : Reading.MISSING;
  }

  /** The load of a worker if it is known and fresh, else null. */
  public @Nullable ScrapedLoad fresh(Worker worker, long nowNanos) {
    ScrapedLoad load = latest(worker);
    return load != null
            && load.gauges().tellsLoad()
            && nowNanos - load.gauges().scrapedAtNanos() <= maxAgeNanos
        ? load
        : null;
  }

  /**
   * Whether requests queue on a worker because its KV blocks are in use: how long they wait says
   * nothing of how fast it computes.
   */
  public boolean isFull(Worker worker, long nowNanos) {
    ScrapedLoad load = fresh(worker, nowNanos);
    return load != null
        && load.gauges().waiting().value() >= 1
        && load.gauges().kvUsage().orElse(0) >= FULL_KV_SHARE;
  }

  /** The last scrape of this life whatever its age, null when there is none. */
  public @Nullable ScrapedLoad latest(Worker worker) {
    @Nullable Entry[] table = entries;
    Entry entry = worker.slot() < table.length ? table[worker.slot()] : null;
    return entry != null && entry.life() == worker.life() ? entry.load() : null;
  }

  /** Age of the last scrape of this life in milliseconds, -1 when there is none. */
  public double ageMillis(Worker worker) {
    ScrapedLoad load = latest(worker);
    return load == null ? -1 : (nanoClock.getAsLong() - load.gauges().scrapedAtNanos()) / 1e6;
  }

  /** Samples since the start that were there but made no sense (NaN, infinite, out of range). */
  public long invalidSamples() {
    return invalidSamples.get();
  }

  /** Scrapes since the start that did not say how many requests the worker has. */
  public long pagesWithoutLoad() {
    return pagesWithoutLoad.get();
  }
}
