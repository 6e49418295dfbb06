// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Exact account of what this process has sent to each worker and not seen end.
 *
 * <p>Scraped gauges are seconds old and show a long prefill only after it is over; between two
 * scrapes a burst would all go to the worker that looked idle. This ledger changes in the same step
 * as the pick, so the next pick, a microsecond later, already sees it.
 *
 * <ul>
 *   <li><b>Exactly once.</b> Each share of a {@link Reservation} is given back once, whatever the
 *       order, number and threads of the reports; counts never go negative and end at zero.
 *   <li><b>Never forever.</b> A reservation whose end nobody reports is taken back at its deadline
 *       by {@link #sweep}; when that becomes the rule the ledger says that it is {@link #isBlind()
 *       blind} and the pick stops trusting it.
 *   <li><b>Lives apart.</b> A slot's new life gets new counters; reports for the old life change
 *       only the old ones.
 * </ul>
 *
 * <p>Reads take no lock. A reservation is written with a few atomic adds on its worker, and linked
 * into one of {@value #STRIPES} lists under that list's monitor.
 */
public final class InFlightLedger {
  /** Lists of live reservations, so that threads seldom meet. */
  private static final int STRIPES = 16;

  /** Share of reservations ended by the sweep above which reports are taken for lost. */
  private static final double BLIND_SHARE = 0.5;

  /** Weight of one ending in that share. */
  private static final double BLIND_WEIGHT = 1.0 / 64;

  private static final class Stripe {
    @GuardedBy("this")
    private @Nullable Reservation newest;

    @GuardedBy("this")
    private int size;

    synchronized void link(Reservation reservation) {
      Reservation before = newest;
      reservation.older = before;
      if (before != null) {
        before.newer = reservation;
      }
      newest = reservation;
      size++;
    }

    synchronized void unlink(Reservation reservation) {
      Reservation before = reservation.older;
      Reservation after = reservation.newer;
      if (after != null) {
        after.older = before;
      } else {
        newest = before;
      }
      if (before != null) {
        before.newer = after;
      }
      reservation.older = null;
      reservation.newer = null;
      size--;
    }

    synchronized List<Reservation> all() {
      var all = new ArrayList<Reservation>(size);
      for (Reservation r = newest; r != null; r = r.older) {
        all.add(r);
      }
      return all;
    }

    synchronized int size() {
      return size;
    }
  }

  private final LongSupplier nanoClock;
  private final Stripe[] stripes = new Stripe[STRIPES];
  private final AtomicLong sequence = new AtomicLong();
  private final AtomicLong expired = new AtomicLong();
  private final Object growth = new Object();

  /** Index is the slot; replaced whole under {@link #growth}, read without it. */
  private volatile @Nullable WorkerLoad[] loads = new WorkerLoad[0];

  private final LongAdder ended = new LongAdder();

  /** Only the sweeping thread uses it. */
  private long endedAtLastSweep;

  private long lastSweepNanos;
  private boolean hasSwept;

  /** Smoothed share of endings that came from the sweep; written by the sweeping thread. */
  private volatile double expiredShare;

  /**
   * @param nanoClock monotonic time
   */
  public InFlightLedger(LongSupplier nanoClock) {
    this.nanoClock = nanoClock;
    for (int i = 0; i < STRIPES; i++) {
      stripes[i] = new Stripe();
    }
  }

  /** Counters of a worker's life; made when first asked for. */
  public WorkerLoad load(Worker worker) {
    @Nullable WorkerLoad[] table = loads;
    WorkerLoad load = worker.slot() < table.length ? table[worker.slot()] : null;
    return load != null && load.life() == worker.life() ? load : install(worker);
  }

  private WorkerLoad install(Worker worker) {
    synchronized (growth) {
      @Nullable WorkerLoad[] table = loads;
      int slot = worker.slot();
      WorkerLoad present = slot < table.length ? table[slot] : null;
      if (present != null && present.life() == worker.life()) {
        return present;
      }
      var fresh = new WorkerLoad(slot, worker.life());
      if (present != null && present.life() > worker.life()) {
        // Late news of an earlier life: count it where nobody looks.
        return fresh;
      }
      @Nullable WorkerLoad[] copy = Arrays.copyOf(table, Math.max(table.length, slot + 1));
      copy[slot] = fresh;
      loads = copy;
      return fresh;
    }
  }

  /** Books a request on a worker, whatever others do at the same time. */
  public Reservation reserve(Worker worker, Work work) {
    WorkerLoad load = load(worker);
    long now = nanoClock.getAsLong();
    long rank = sequence.getAndIncrement();
    load.add(work, now, rank);
    return link(load, work, now, rank);
  }

  /**
   * Books a request if no other was booked on that worker since the stamp was read; so the choice
   * and the booking are one step.
   *
   * @param load counters that the choice was made on
   * @param stamp {@link WorkerLoad#stamp()} read before them
   * @return null when another request came first: look again
   */
  public @Nullable Reservation tryReserve(WorkerLoad load, long stamp, Work work) {
    long now = nanoClock.getAsLong();
    long rank = sequence.getAndIncrement();
    return load.tryAdd(stamp, work, now, rank) ? link(load, work, now, rank) : null;
  }

  private Reservation link(WorkerLoad load, Work work, long now, long rank) {
    int stripe = (int) (rank & (STRIPES - 1));
    var reservation = new Reservation(this, load, work, now, stripe);
    stripes[stripe].link(reservation);
    return reservation;
  }

  void forget(Reservation reservation) {
    stripes[reservation.stripe].unlink(reservation);
    ended.increment();
  }

  /**
   * Takes back what is overdue: whole reservations past their deadline, and prefill shares whose
   * first token nobody will report; and takes a sample for each worker's smoothed figures. To be
   * called about every 100 ms by one thread.
   *
   * @return reservations that expired
   */
  public int sweep() {
    long now = nanoClock.getAsLong();
    int count = 0;
    for (Stripe stripe : stripes) {
      for (Reservation reservation : stripe.all()) {
        if (reservation.overdue(now)) {
          count++;
        }
      }
    }
    expired.addAndGet(count);
    sample(now);
    long endedNow = ended.sum();
    long endings = endedNow - endedAtLastSweep;
    endedAtLastSweep = endedNow;
    if (endings > 0) {
      double kept = Math.pow(1 - BLIND_WEIGHT, (double) endings);
      expiredShare = kept * expiredShare + (1 - kept) * count / (double) endings;
    }
    return count;
  }

  private void sample(long now) {
    if (hasSwept && now - lastSweepNanos > 0) {
      double seconds = (now - lastSweepNanos) / 1e9;
      for (WorkerLoad load : loads) {
        if (load != null) {
          load.sample(seconds);
        }
      }
    }
    lastSweepNanos = now;
    hasSwept = true;
  }

  /** Whether most requests of late ended by expiry, so that the counts are too high to use. */
  public boolean isBlind() {
    return expiredShare > BLIND_SHARE;
  }

  /** Reservations not ended. */
  public int live() {
    int live = 0;
    for (Stripe stripe : stripes) {
      live += stripe.size();
    }
    return live;
  }

  /** Reservations that expired since the start. */
  public long expired() {
    return expired.get();
  }

  long nextRank() {
    return sequence.getAndIncrement();
  }

  long nowNanos() {
    return nanoClock.getAsLong();
  }
}
