// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.scoring.fleet.WorkerHealth.Ejected;
import io.kvoy.scoring.fleet.WorkerHealth.Unready;
import io.kvoy.scoring.fleet.WorkerHealth.UnreadyReason;
import org.jspecify.annotations.Nullable;

/**
 * What is known about one worker's health: three witnesses (discovery, probes, answers to real
 * requests) that are kept apart, because each can only take back its own word.
 *
 * <table>
 * <caption>Transitions by real answers</caption>
 * <tr><td>ready</td><td>failures in a row, or share in the window</td><td>ejected</td></tr>
 * <tr><td>ejected</td><td>time over, one request let through</td><td>trial</td></tr>
 * <tr><td>trial</td><td>success</td><td>ready, on probation</td></tr>
 * <tr><td>trial or probation</td><td>failure</td><td>ejected, twice as long</td></tr>
 * <tr><td>probation</td><td>a window of successes</td><td>ready, record clean</td></tr>
 * </table>
 *
 * <p>Called by {@link FleetRegistry} from any thread; the monitor is per worker and held for
 * nanoseconds.
 */
final class WorkerCircuit {
  private final HealthSettings settings;

  @GuardedBy("this")
  private WorkerSpec.Readiness declared;

  @GuardedBy("this")
  private @Nullable Unready probeVerdict;

  @GuardedBy("this")
  private int badProbes;

  @GuardedBy("this")
  private int goodProbes;

  /** Whether a connection could not be opened since the last good probe: the process is gone. */
  @GuardedBy("this")
  private boolean lostConnection;

  /** Whether the worker had been reachable before, so that coming back means a restart. */
  @GuardedBy("this")
  private boolean everHealthy;

  @GuardedBy("this")
  private int failuresInRow;

  /** Ring of outcomes, one bit each: 1 = failure. */
  @GuardedBy("this")
  private long failureBits;

  @GuardedBy("this")
  private int seen;

  @GuardedBy("this")
  private int successesInRow;

  @GuardedBy("this")
  private @Nullable Ejected ejected;

  @GuardedBy("this")
  private int ejections;

  @GuardedBy("this")
  private long nextTrialNanos;

  @GuardedBy("this")
  private int backPressureInRow;

  /** Written under the monitor, read by every pick without it. */
  private volatile long heldOffUntilNanos;

  private volatile boolean heldOff;

  WorkerCircuit(HealthSettings settings, WorkerSpec.Readiness declared) {
    this.settings = settings;
    this.declared = declared;
    this.probeVerdict = settings.probed() ? new Unready(UnreadyReason.NOT_PROBED, "") : null;
  }

  synchronized WorkerHealth health() {
    return switch (declared) {
      case DRAINING -> WorkerHealth.draining();
      case NOT_READY -> new Unready(UnreadyReason.DECLARED, "");
      case READY ->
          probeVerdict != null ? probeVerdict : ejected != null ? ejected : WorkerHealth.ready();
    };
  }

  synchronized void declare(WorkerSpec.Readiness readiness) {
    declared = readiness;
  }

  /**
   * Counts how a request ended.
   *
   * @param mayEject false when too many of the pool are ejected already
   */
  synchronized void outcome(Outcome outcome, long nowNanos, boolean mayEject) {
    switch (outcome) {
      case SUCCESS -> success();
      case FAILURE -> failure(nowNanos, mayEject);
      case CONNECT_FAILED -> {
        if (settings.probed()) {
          lostConnection = true;
          goodProbes = 0;
          probeVerdict = new Unready(UnreadyReason.CONNECT_FAILED, "connection failed");
        } else {
          failure(nowNanos, mayEject);
        }
      }
      case BACK_PRESSURE -> backPressure(nowNanos);
      case CALLER_MISTAKE, CLIENT_ABORT, UNKNOWN -> {}
    }
  }

  @GuardedBy("this")
  private void success() {
    failuresInRow = 0;
    backPressureInRow = 0;
    heldOff = false;
    record(false);
    if (ejected != null) {
      // The answer to a trial, or of a request that was on its way before: it works again.
      ejected = null;
      failureBits = 0;
      seen = 0;
      successesInRow = 0;
    }
    if (++successesInRow >= settings.window()) {
      ejections = 0;
    }
  }

  @GuardedBy("this")
  private void failure(long nowNanos, boolean mayEject) {
    boolean onProbation = ejections > 0 && successesInRow < settings.window();
    successesInRow = 0;
    failuresInRow++;
    record(true);
    int window = Math.min(settings.window(), Long.SIZE);
    int failures = Long.bitCount(failureBits & mask(window));
    boolean tooMany =
        seen >= window / 2 && failures >= settings.ejectFailureShare() * Math.min(seen, window);
    if (ejected != null) {
      if (nowNanos - ejected.untilNanos() >= 0) {
        eject(nowNanos, failures);
      }
    } else if (mayEject
        && (failuresInRow >= settings.ejectAfterConsecutive() || tooMany || onProbation)) {
      eject(nowNanos, Math.max(failures, failuresInRow));
    }
  }

  @GuardedBy("this")
  private void eject(long nowNanos, int failures) {
    long base = settings.ejectionBase().toNanos();
    long length = Math.min(settings.ejectionMax().toNanos(), base << Math.min(ejections, 20));
    ejections++;
    ejected = new Ejected(failures, nowNanos + length);
    nextTrialNanos = nowNanos + length;
  }

  @GuardedBy("this")
  private void backPressure(long nowNanos) {
    long base = settings.backPressureBase().toNanos();
    long length =
        Math.min(settings.backPressureMax().toNanos(), base << Math.min(backPressureInRow, 20));
    backPressureInRow++;
    heldOffUntilNanos = nowNanos + length;
    heldOff = true;
  }

  @GuardedBy("this")
  private void record(boolean failure) {
    failureBits = failureBits << 1 | (failure ? 1 : 0);
    seen = Math.min(seen + 1, Long.SIZE);
  }

  private static long mask(int bits) {
    return bits >= Long.SIZE ? -1L : (1L << bits) - 1;
  }

  /**
   * Takes in a probe.
   *
   * @return true when the worker came back after its process had gone: a new life
   */
  synchronized boolean probe(ProbeResult result) {
    boolean reborn = false;
    switch (result) {
      case ProbeResult.Healthy _ -> {
        badProbes = 0;
        goodProbes++;
        if (goodProbes >= settings.healthyAfter()) {
          reborn = lostConnection && everHealthy;
          lostConnection = false;
          everHealthy = true;
          probeVerdict = null;
        }
      }
      case ProbeResult.Unhealthy(int status) ->
          bad(new Unready(UnreadyReason.PROBE_FAILED, "health probe answered " + status));
      case ProbeResult.TimedOut _ ->
          bad(new Unready(UnreadyReason.PROBE_TIMED_OUT, "health probe timed out"));
      case ProbeResult.Unreachable(String detail) -> {
        lostConnection = true;
        bad(new Unready(UnreadyReason.CONNECT_FAILED, detail));
      }
    }
    return reborn;
  }

  @GuardedBy("this")
  private void bad(Unready verdict) {
    goodProbes = 0;
    badProbes++;
    // A worker that is out already only changes its reason; the first bad probe shows at once.
    if (badProbes >= settings.unhealthyAfter() || probeVerdict != null) {
      probeVerdict = verdict;
    }
  }

  /** Drops what the answers of an earlier process said; probes and discovery speak of this one. */
  synchronized void forgetAnswers() {
    ejected = null;
    ejections = 0;
    failuresInRow = 0;
    successesInRow = 0;
    failureBits = 0;
    seen = 0;
    backPressureInRow = 0;
    heldOff = false;
  }

  /** Lets one request through when the ejection is over; the next one after another base time. */
  synchronized boolean grantTrial(long nowNanos) {
    if (ejected == null || nowNanos - nextTrialNanos < 0) {
      return false;
    }
    nextTrialNanos = nowNanos + settings.ejectionBase().toNanos();
    return true;
  }

  /** Whether the worker said that it has no room, a moment ago. Lock-free. */
  boolean isHeldOff(long nowNanos) {
    return heldOff && nowNanos - heldOffUntilNanos < 0;
  }
}
