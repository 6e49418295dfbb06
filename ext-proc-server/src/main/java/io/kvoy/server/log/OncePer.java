// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.log;

import java.time.Duration;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.event.Level;
import org.slf4j.spi.LoggingEventBuilder;

/**
 * Logs a failure that repeats once per cause and period, with the number of times it was seen.
 *
 * <p>The first of a cause is logged at once with {@code seen=1}. Those that follow within the
 * period are only counted; the first after it is logged with the count of all since the last line.
 * {@link #sweep} tells the rest of a cause that fell silent, so that no count is lost.
 *
 * <p>Any thread; one short lock per cause. Memory is bounded: beyond {@value #MAX_CAUSES} causes
 * the rest share one.
 */
public final class OncePer {
  /** Workers of a large fleet times a few kinds of failure. */
  static final int MAX_CAUSES = 4096;

  private static final String SHARED = "other";

  private final Logger log;
  private final LongSupplier nanoClock;
  private final Map<Cause, Tally> tallies = new ConcurrentHashMap<>();
  // Set by a configuration reload, read by every failing thread.
  private volatile long periodNanos;

  private record Cause(String message, String subject) {}

  /** Guarded by itself. */
  private static final class Tally {
    final Level level;
    boolean isTold;
    long toldAtNanos;
    long untold;

    Tally(Level level) {
      this.level = level;
    }
  }

  /**
   * Logs to {@code log}.
   *
   * @param nanoClock monotonic time
   */
  public OncePer(Logger log, Duration period, LongSupplier nanoClock) {
    this.log = log;
    this.nanoClock = nanoClock;
    this.periodNanos = period.toNanos();
  }

  /** Changes the period, also for causes already seen. */
  public void setPeriod(Duration period) {
    periodNanos = period.toNanos();
  }

  /**
   * A failure happened.
   *
   * @param message constant; with {@code subject} it is the cause
   * @param subject whom it concerns, a worker or model of ours; empty when nobody in particular
   * @param pairs keys and values in turn, for the line if there is one
   */
  public void log(Level level, String message, String subject, Object... pairs) {
    if (pairs.length % 2 != 0) {
      throw new IllegalArgumentException("a key without a value after " + message);
    }
    if (!log.isEnabledForLevel(level)) {
      return;
    }
    Cause cause = new Cause(message, subject);
    Tally tally = tallies.get(cause);
    if (tally == null) {
      Cause kept = tallies.size() < MAX_CAUSES ? cause : new Cause(message, SHARED);
      tally = tallies.computeIfAbsent(kept, _ -> new Tally(level));
    }
    long seen = countAndTake(tally, nanoClock.getAsLong());
    if (seen > 0) {
      LoggingEventBuilder line = log.atLevel(level);
      if (!subject.isEmpty()) {
        line = line.addKeyValue("subject", subject);
      }
      for (int i = 0; i < pairs.length; i += 2) {
        line = line.addKeyValue(String.valueOf(pairs[i]), pairs[i + 1]);
      }
      line.addKeyValue("seen", seen).log(message);
    }
  }

  /** Logs at WARN. */
  public void warn(String message, String subject, Object... pairs) {
    log(Level.WARN, message, subject, pairs);
  }

  private long countAndTake(Tally tally, long now) {
    synchronized (tally) {
      tally.untold++;
      if (tally.isTold && now - tally.toldAtNanos < periodNanos) {
        return 0;
      }
      long seen = tally.untold;
      tally.isTold = true;
      tally.toldAtNanos = now;
      tally.untold = 0;
      return seen;
    }
  }

  /** Tells what is left of causes whose period is over and forgets them. Called now and then. */
  public void sweep() {
    long now = nanoClock.getAsLong();
    Iterator<Map.Entry<Cause, Tally>> entries = tallies.entrySet().iterator();
    while (entries.hasNext()) {
      Map.Entry<Cause, Tally> entry = entries.next();
      Tally tally = entry.getValue();
      long untold;
      synchronized (tally) {
        if (now - tally.toldAtNanos < periodNanos) {
          continue;
        }
        untold = tally.untold;
        tally.untold = 0;
        entries.remove();
      }
      if (untold > 0) {
        log.atLevel(tally.level)
            .addKeyValue("subject", entry.getKey().subject())
            .addKeyValue("seen", untold)
            .log(entry.getKey().message());
      }
    }
  }
}
