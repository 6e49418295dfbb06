// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.concurrent.locks.LockSupport;

/**
 * Simulated time: nanoseconds of machine time since the worker's start, {@code timeScale} times as
 * fast as the wall clock. Thread-safe.
 */
final class SimClock {
  private final double timeScale;
  private final long startNanos = System.nanoTime();

  SimClock(double timeScale) {
    if (!(timeScale > 0)) {
      throw new IllegalArgumentException("timeScale must be positive, was " + timeScale);
    }
    this.timeScale = timeScale;
  }

  long nowNanos() {
    return (long) ((System.nanoTime() - startNanos) * timeScale);
  }

  /**
   * Lets the wall clock pass until the simulated time is reached, or the thread is unparked or
   * interrupted.
   */
  void parkUntil(long simulatedNanos) {
    long wall = (long) ((simulatedNanos - nowNanos()) / timeScale);
    if (wall > 0) {
      LockSupport.parkNanos(wall);
    }
  }

  /** Sleeps a span of machine time on the calling (virtual) thread. */
  void sleep(double simulatedMillis) throws InterruptedException {
    long wallNanos = (long) (simulatedMillis * 1e6 / timeScale);
    if (wallNanos > 0) {
      Thread.sleep(java.time.Duration.ofNanos(wallNanos));
    }
  }
}
