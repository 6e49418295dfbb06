// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/** Monotonic time that moves only when told; starts close to overflow, as the real one may. */
public final class FakeClock implements LongSupplier {
  private final AtomicLong nanos = new AtomicLong(Long.MAX_VALUE - 1_000_000_000L);

  @Override
  public long getAsLong() {
    return nanos.get();
  }

  public void advance(Duration duration) {
    nanos.addAndGet(duration.toNanos());
  }

  public void advanceMillis(double millis) {
    nanos.addAndGet((long) (millis * 1e6));
  }

  /** Moves to an absolute number of milliseconds after the start. */
  public void moveTo(double millis) {
    nanos.set(Long.MAX_VALUE - 1_000_000_000L + (long) (millis * 1e6));
  }
}
