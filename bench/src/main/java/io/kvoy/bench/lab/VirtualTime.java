// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.Comparator;
import java.util.PriorityQueue;
import java.util.function.LongSupplier;

/** Events in order of virtual time; those of the same instant in order of creation. One thread. */
final class VirtualTime implements LongSupplier {
  private record Event(double atMillis, long order, Runnable what) {}

  private final PriorityQueue<Event> events =
      new PriorityQueue<>(
          Comparator.comparingDouble(Event::atMillis).thenComparingLong(Event::order));
  private long order;
  private double nowMillis;

  double nowMillis() {
    return nowMillis;
  }

  /** Monotonic nanoseconds, as the code under test reads them. */
  @Override
  public long getAsLong() {
    return (long) (nowMillis * 1e6);
  }

  void at(double millis, Runnable what) {
    events.add(new Event(Math.max(millis, nowMillis), order++, what));
  }

  void after(double millis, Runnable what) {
    at(nowMillis + millis, what);
  }

  /** Runs all events up to an instant. */
  void runUntil(double millis) {
    while (!events.isEmpty() && events.element().atMillis() <= millis) {
      Event next = events.remove();
      nowMillis = next.atMillis();
      next.what().run();
    }
    nowMillis = millis;
  }
}
