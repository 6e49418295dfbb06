// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.scoring.fleet.Worker;
import org.jspecify.annotations.Nullable;

/**
 * A request's place in the {@link InFlightLedger}. Every report may come late, twice, in any order
 * and from any thread; each share is given back exactly once.
 *
 * <table>
 * <caption>Transitions</caption>
 * <tr><th>from</th><th>report</th><th>to</th><th>given back</th></tr>
 * <tr><td>prefill</td><td>first token</td><td>decode</td><td>uncached tokens</td></tr>
 * <tr><td>prefill</td><td>end, abort, expiry</td><td>ended</td><td>all</td></tr>
 * <tr><td>decode</td><td>end, abort, expiry</td><td>ended</td><td>the rest</td></tr>
 * <tr><td>prefill or decode</td><td>served by another worker</td><td>same</td><td>moved</td></tr>
 * <tr><td>ended</td><td>anything</td><td>ended</td><td>nothing</td></tr>
 * </table>
 *
 * <p>The monitor is the request's own and hardly ever contended.
 */
public final class Reservation {
  private enum Phase {
    PREFILL,
    DECODE,
    ENDED
  }

  private final InFlightLedger ledger;
  private final long takenAtNanos;
  private final long deadlineNanos;
  final int stripe;

  // Links of the stripe's list, guarded by the stripe.
  @Nullable Reservation older;
  @Nullable Reservation newer;

  @GuardedBy("this")
  private WorkerLoad load;

  @GuardedBy("this")
  private Work work;

  @GuardedBy("this")
  private Phase phase = Phase.PREFILL;

  Reservation(InFlightLedger ledger, WorkerLoad load, Work work, long nowNanos, int stripe) {
    this.ledger = ledger;
    this.load = load;
    this.work = work;
    this.takenAtNanos = nowNanos;
    this.deadlineNanos = nowNanos + work.ttlNanos();
    this.stripe = stripe;
  }

  /** Monotonic time of the pick. */
  public long takenAtNanos() {
    return takenAtNanos;
  }

  /** Slot of the worker that the request is booked on. */
  public synchronized int slot() {
    return load.slot();
  }

  /** Whether all has been given back. */
  public synchronized boolean isEnded() {
    return phase == Phase.ENDED;
  }

  /**
   * The first token came.
   *
   * @return true for the first such report of a request that has not ended
   */
  public synchronized boolean firstToken() {
    if (phase != Phase.PREFILL) {
      return false;
    }
    phase = Phase.DECODE;
    load.prefillDone(work, ledger.nowNanos());
    return true;
  }

  /**
   * The request is over, however it ended.
   *
   * @return true for the first such report
   */
  public boolean end() {
    synchronized (this) {
      if (phase == Phase.ENDED) {
        return false;
      }
      load.finish(work, phase == Phase.PREFILL);
      phase = Phase.ENDED;
    }
    ledger.forget(this);
    return true;
  }

  /**
   * Another worker than the booked one serves the request (a retry or failover by the proxy): its
   * shares move there.
   *
   * @param worker who really serves
   * @param uncachedTokens prompt tokens to compute there; all of them when not known
   * @return true when something moved
   */
  public synchronized boolean servedBy(Worker worker, int uncachedTokens) {
    if (phase == Phase.ENDED || (worker.slot() == load.slot() && worker.life() == load.life())) {
      return false;
    }
    Work moved =
        new Work(
            Math.clamp(uncachedTokens, 0, work.promptTokens()),
            work.promptTokens(),
            work.expectedOutputTokens(),
            work.ttlNanos(),
            work.prefillEstimateNanos(),
            work.reportsFirstToken(),
            work.prefixKey(),
            work.prefixTokens());
    WorkerLoad target = ledger.load(worker);
    if (phase == Phase.PREFILL) {
      target.add(moved, ledger.nowNanos(), ledger.nextRank());
    } else {
      target.enterDecoding(moved);
    }
    load.leave(work, phase == Phase.PREFILL);
    load = target;
    work = moved;
    return true;
  }

  /** Releases what time has made overdue; true when the whole reservation expired. */
  boolean overdue(long nowNanos) {
    synchronized (this) {
      if (phase == Phase.ENDED) {
        return false;
      }
      if (nowNanos - deadlineNanos < 0) {
        if (phase == Phase.PREFILL
            && !work.reportsFirstToken()
            && nowNanos - takenAtNanos >= work.prefillEstimateNanos()) {
          firstToken();
        }
        return false;
      }
    }
    return end();
  }
}
