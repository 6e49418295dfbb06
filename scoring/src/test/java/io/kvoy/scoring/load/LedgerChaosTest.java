// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.TestFleet;
import io.kvoy.scoring.fleet.Worker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.junit.jupiter.api.Test;

/**
 * Many threads, every report lost, doubled, late or out of order, clients that leave, workers that
 * restart, and a second replica that is killed again and again while reports of its requests go on.
 */
class LedgerChaosTest {
  private static final int THREADS = 4;
  private static final int REQUESTS_PER_THREAD = 25_000;
  private static final long TTL_NANOS = Duration.ofSeconds(1).toNanos();

  @Test
  void after100000RequestsEveryCountIsExactlyZeroAndNoneWasEverNegative() throws Exception {
    var fleet = new TestFleet(4);
    // The ledger of each replica; the second one's is replaced by a new process's empty one.
    var replicas =
        new AtomicReferenceArray<>(
            new InFlightLedger[] {fleet.ledger, new InFlightLedger(fleet.clock)});
    var ledgers = new CopyOnWriteArrayList<>(List.of(replicas.get(0), replicas.get(1)));
    // Reservations whose reports are delivered by whichever thread comes along.
    var open = new ConcurrentLinkedQueue<Reservation>();
    // Every load object ever used, those of dead lives too.
    var loads = new CopyOnWriteArrayList<WorkerLoad>();
    ledgers.forEach(ledger -> fleet.workers().forEach(w -> loads.add(ledger.load(w))));
    var done = new AtomicBoolean();
    var forgottenEarly = new AtomicBoolean();
    var negative = new ConcurrentLinkedQueue<String>();

    try (ExecutorService pool = Executors.newFixedThreadPool(THREADS + 1)) {
      List<Future<?>> running = new ArrayList<>();
      Future<?> keeper =
          pool.submit(
              () -> {
                var random = new Random(99);
                while (!done.get()) {
                  fleet.clock.advanceMillis(random.nextInt(40));
                  ledgers.forEach(InFlightLedger::sweep);
                  for (WorkerLoad load : loads) {
                    if (load.inFlight() < 0
                        || load.prefilling() < 0
                        || load.queuedPrefillTokens() < 0
                        || load.contextTokens() < 0
                        || load.privateTokens() < 0
                        || load.roomTokens() < 0
                        || load.queuedRoomTokens() < 0) {
                      negative.add(load.toString());
                    }
                  }
                }
              });
      for (int t = 0; t < THREADS; t++) {
        var random = new Random(1000 + t);
        running.add(
            pool.submit(
                () -> {
                  for (int i = 0; i < REQUESTS_PER_THREAD; i++) {
                    Worker worker = fleet.worker(random.nextInt(4));
                    int prompt = random.nextInt(5000);
                    // Some prefixes are in use by many requests at once.
                    long prefixKey = random.nextInt(4);
                    int prefix = prefixKey == 0 ? 0 : Math.min(prompt, (int) prefixKey * 500);
                    var work =
                        new Work(
                            prompt == 0 ? 0 : random.nextInt(prompt),
                            prompt,
                            random.nextInt(500),
                            TTL_NANOS,
                            random.nextInt(1_000_000),
                            random.nextBoolean(),
                            prefixKey,
                            prefix);
                    if (i % 2500 == 2499) {
                      fleet.registry.restarted(worker);
                    }
                    if (i % 5000 == 4999) {
                      var fresh = new InFlightLedger(fleet.clock);
                      ledgers.add(fresh);
                      replicas.set(1, fresh);
                    }
                    InFlightLedger ledger = replicas.get(random.nextInt(2));
                    loads.addIfAbsent(ledger.load(worker));
                    Reservation taken = ledger.reserve(worker, work);
                    if (random.nextInt(10) > 0) {
                      open.add(taken);
                    }
                    report(open, fleet, random, forgottenEarly);
                  }
                }));
      }
      for (Future<?> future : running) {
        future.get();
      }
      done.set(true);
      keeper.get();
    }

    open.clear();
    fleet.clock.advance(Duration.ofSeconds(1));
    ledgers.forEach(InFlightLedger::sweep);

    assertThat(negative).isEmpty();
    assertThat(forgottenEarly).isFalse();
    assertThat(ledgers).hasSize(2 + THREADS * REQUESTS_PER_THREAD / 5000);
    assertThat(ledgers).allMatch(ledger -> ledger.live() == 0);
    assertThat(fleet.ledger.expired()).isPositive();
    assertThat(loads).hasSizeGreaterThan(4 + THREADS).allMatch(WorkerLoad::isIdle);
  }

  /** Delivers one random report, perhaps twice, perhaps for somebody else's request. */
  private static void report(
      ConcurrentLinkedQueue<Reservation> open,
      TestFleet fleet,
      Random random,
      AtomicBoolean forgottenEarly) {
    Reservation reservation = open.poll();
    if (reservation == null) {
      return;
    }
    // A deadline may pass between the two reads, hence the order.
    boolean ended = reservation.isEnded();
    if (ended && fleet.clock.getAsLong() - reservation.takenAtNanos() < TTL_NANOS) {
      forgottenEarly.set(true);
    }
    switch (random.nextInt(6)) {
      case 0 -> reservation.firstToken();
      case 1 -> reservation.servedBy(fleet.worker(random.nextInt(4)), random.nextInt(5000));
      case 2 -> {
        reservation.firstToken();
        reservation.firstToken();
      }
      case 3 -> {
        reservation.end();
        reservation.end();
        reservation.firstToken();
        return;
      }
      case 4 -> {
        reservation.end();
        reservation.servedBy(fleet.worker(random.nextInt(4)), 1);
        return;
      }
      default -> {
        // Lost.
      }
    }
    open.add(reservation);
  }
}
