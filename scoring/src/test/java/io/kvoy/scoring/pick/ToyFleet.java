// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import io.kvoy.scoring.TestFleet;
import io.kvoy.scoring.fleet.Outcome;
import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.PriorityQueue;

/**
 * The smallest fleet on which a pick can be right or wrong: workers prefill one prompt after the
 * other at a fixed rate, decode in parallel, and remember one shared prefix. Virtual time.
 */
final class ToyFleet {
  private record Event(double atMillis, long order, Runnable what) {}

  /** One request as it went. */
  record Served(Worker worker, double arrivedMillis, double ttftMillis, Pick.Picked picked) {}

  final TestFleet fleet;
  final boolean[] failing = new boolean[64];
  private final double tokensPerMilli;
  final List<Served> served = new ArrayList<>();
  private final boolean[] warm = new boolean[64];
  private final double[] freeAtMillis = new double[64];
  private final PriorityQueue<Event> events =
      new PriorityQueue<>(
          Comparator.comparingDouble(Event::atMillis).thenComparingLong(Event::order));
  private long order;
  private double nowMillis;

  ToyFleet(int workers, double tokensPerSecond) {
    fleet = new TestFleet(workers);
    tokensPerMilli = tokensPerSecond / 1000;
  }

  void warm(int slot) {
    warm[slot] = true;
  }

  double nowMillis() {
    return nowMillis;
  }

  void at(double millis, Runnable what) {
    events.add(new Event(millis, order++, what));
  }

  void run() {
    while (!events.isEmpty()) {
      Event next = events.remove();
      nowMillis = next.atMillis();
      fleet.clock.moveTo(nowMillis);
      next.what().run();
    }
  }

  /** A request with a prefix that any worker keeps once it has seen it. */
  void request(int prompt, int prefix, int output) {
    Pick.Picked picked =
        fleet.pick(
            PickRequest.of(fleet.workers(), prompt, worker -> warm[worker.slot()] ? prefix : 0));
    Worker worker = picked.worker();
    int slot = worker.slot();
    double arrived = nowMillis;
    if (failing[slot]) {
      at(arrived + 2, () -> picked.flight().ended(Outcome.FAILURE));
      served.add(new Served(worker, arrived, Double.NaN, picked));
      return;
    }
    int uncached = prompt - (warm[slot] ? prefix : 0);
    double start = Math.max(arrived, freeAtMillis[slot]);
    double first = start + 10 + uncached / tokensPerMilli;
    freeAtMillis[slot] = first;
    served.add(new Served(worker, arrived, first - arrived, picked));
    at(
        first,
        () -> {
          warm[slot] |= prefix > 0;
          picked.flight().firstToken();
        });
    at(first + output * 25.0, () -> picked.flight().ended(Outcome.SUCCESS));
  }

  long share(Worker worker) {
    return served.stream().filter(s -> s.worker().equals(worker)).count();
  }
}
