// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import java.util.Optional;

/**
 * Turns a stream of failures of one worker into at most one log line per period, with the number of
 * those that were not told. Used by one thread.
 */
final class FailureLog {
  private final String worker;
  private final long periodNanos;
  private long lastNanos;
  private boolean toldOnce;
  private long untold;

  FailureLog(String worker, long periodNanos) {
    this.worker = worker;
    this.periodNanos = periodNanos;
  }

  /** A line to log, empty when one was logged in this period. */
  Optional<String> failed(String why, long nowNanos) {
    if (toldOnce && nowNanos - lastNanos < periodNanos) {
      untold++;
      return Optional.empty();
    }
    String line =
        "metrics scrape failed, load unknown: worker=%s why=%s untold=%d"
            .formatted(worker, why, untold);
    toldOnce = true;
    lastNanos = nowNanos;
    untold = 0;
    return Optional.of(line);
  }
}
