// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.TestFleet;
import io.kvoy.scoring.fleet.Worker;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class InFlightLedgerTest {
  private static final long MINUTE = Duration.ofMinutes(1).toNanos();

  private final TestFleet fleet = new TestFleet(2);
  private final InFlightLedger ledger = fleet.ledger;
  private final Worker a = fleet.worker(0);
  private final Worker b = fleet.worker(1);

  private static Work work(int uncached, int prompt) {
    return new Work(uncached, prompt, 50, MINUTE, 0, true);
  }

  @Test
  void prefillShareGoesAtTheFirstTokenTheRestAtTheEnd() {
    Reservation reservation = ledger.reserve(a, work(300, 1000));
    WorkerLoad load = ledger.load(a);
    assertThat(load.inFlight()).isEqualTo(1);
    assertThat(load.queuedPrefillTokens()).isEqualTo(300);
    assertThat(load.contextTokens()).isEqualTo(1050);
    assertThat(load.decoding()).isZero();

    reservation.firstToken();
    assertThat(load.queuedPrefillTokens()).isZero();
    assertThat(load.decoding()).isEqualTo(1);
    assertThat(load.contextTokens()).isEqualTo(1050);

    reservation.end();
    assertThat(load.isIdle()).isTrue();
    assertThat(ledger.live()).isZero();
  }

  private static Work sharing(long key) {
    return new Work(100, 1000, 50, MINUTE, 0, true, key, 900);
  }

  @Test
  void aPrefixThatSeveralRequestsHaveInCommonTakesRoomOnceAndUntilTheLastOneEnds() {
    WorkerLoad load = ledger.load(a);
    Reservation first = ledger.reserve(a, sharing(7));
    Reservation second = ledger.reserve(a, sharing(7));
    Reservation other = ledger.reserve(a, sharing(8));
    assertThat(load.roomTokens()).isEqualTo(900 + 100 + 100 + 1000);
    assertThat(load.privateTokens()).isEqualTo(300);
    assertThat(load.queuedRoomTokens()).isEqualTo(load.roomTokens());
    assertThat(load.hasInUse(7)).isTrue();
    assertThat(load.hasInUse(9)).isFalse();

    first.firstToken();
    assertThat(load.queuedRoomTokens())
        .as("the second one waits, but the prefix is there")
        .isEqualTo(100 + 1000);

    first.end();
    assertThat(load.roomTokens()).isEqualTo(2000);
    assertThat(load.queuedRoomTokens()).as("nobody holds the prefix any more").isEqualTo(2000);

    second.end();
    assertThat(load.hasInUse(7)).isFalse();
    other.servedBy(b, 500);
    assertThat(load.isIdle()).isTrue();
    assertThat(ledger.load(b).roomTokens()).isEqualTo(1000);
    other.firstToken();
    other.end();
    assertThat(ledger.load(b).isIdle()).isTrue();
  }

  @Test
  void STREAM_01_aLongStreamIsInFlightUntilItsEnd() {
    var streams = new ArrayList<Reservation>();
    for (int i = 0; i < 20; i++) {
      streams.add(ledger.reserve(a, work(100, 100)));
    }
    streams.forEach(Reservation::firstToken);

    assertThat(ledger.load(a).inFlight()).isEqualTo(20);
    assertThat(ledger.load(a).decoding()).isEqualTo(20);

    streams.forEach(Reservation::end);
    assertThat(ledger.load(a).isIdle()).isTrue();
  }

  /** f = first token, e = end, m = moved to the other worker, s = sweep after the deadline. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "e", "fe", "ef", "ffee", "ee", "me", "mfe", "fme", "mmfe", "emf", "fs", "s", "se", "sfm",
        "ms", "mmmee"
      })
  void STREAM_02_everyOrderOfReportsGivesBackExactlyOnce(String reports) {
    Reservation reservation = ledger.reserve(a, work(300, 1000));
    boolean onA = true;
    for (int i = 0; i < reports.length(); i++) {
      switch (reports.charAt(i)) {
        case 'f' -> reservation.firstToken();
        case 'e' -> reservation.end();
        case 'm' -> {
          reservation.servedBy(onA ? b : a, 1000);
          onA = !onA;
        }
        case 's' -> {
          fleet.clock.advance(Duration.ofMinutes(1));
          ledger.sweep();
        }
        default -> throw new AssertionError(reports);
      }
      assertThat(ledger.load(a).inFlight() + ledger.load(b).inFlight()).isBetween(0, 1);
      assertThat(ledger.load(a).queuedPrefillTokens()).isNotNegative();
      assertThat(ledger.load(b).queuedPrefillTokens()).isNotNegative();
    }

    assertThat(ledger.load(a).isIdle()).isTrue();
    assertThat(ledger.load(b).isIdle()).isTrue();
    assertThat(ledger.live()).isZero();
  }

  @Test
  void nothingIsForgottenBeforeItsDeadline() {
    ledger.reserve(a, work(300, 1000));
    fleet.clock.advance(Duration.ofMinutes(1).minusNanos(1));
    assertThat(ledger.sweep()).isZero();
    assertThat(ledger.load(a).inFlight()).isEqualTo(1);

    fleet.clock.advance(Duration.ofNanos(1));
    assertThat(ledger.sweep()).isEqualTo(1);
    assertThat(ledger.load(a).isIdle()).isTrue();
    assertThat(ledger.expired()).isEqualTo(1);
  }

  @Test
  void withoutAFirstTokenReportThePrefillShareGoesAfterTheEstimate() {
    ledger.reserve(a, new Work(300, 1000, 50, MINUTE, 2_000_000, false));
    fleet.clock.advanceMillis(1.9);
    ledger.sweep();
    assertThat(ledger.load(a).queuedPrefillTokens()).isEqualTo(300);

    fleet.clock.advanceMillis(0.1);
    ledger.sweep();
    assertThat(ledger.load(a).queuedPrefillTokens()).isZero();
    assertThat(ledger.load(a).inFlight()).isEqualTo(1);
  }

  @Test
  void aBookingOnAStaleStampIsRefused() {
    WorkerLoad load = ledger.load(a);
    long stamp = load.stamp();
    ledger.reserve(a, work(1, 1));

    assertThat(ledger.tryReserve(load, stamp, work(1, 1))).isNull();
    assertThat(ledger.tryReserve(load, load.stamp(), work(1, 1))).isNotNull();
    assertThat(load.inFlight()).isEqualTo(2);
  }

  @Test
  void aNewLifeStartsAtZeroAndLateReportsOfTheOldOneDoNotTouchIt() {
    Reservation old = ledger.reserve(a, work(300, 1000));
    WorkerLoad oldLoad = ledger.load(a);
    fleet.registry.restarted(a);
    Worker reborn = fleet.worker(0);
    assertThat(ledger.load(reborn).isIdle()).isTrue();
    ledger.reserve(reborn, work(10, 10));

    old.firstToken();
    old.end();

    assertThat(ledger.load(reborn).inFlight()).isEqualTo(1);
    assertThat(ledger.load(reborn).queuedPrefillTokens()).isEqualTo(10);
    assertThat(oldLoad.isIdle()).isTrue();
  }

  @Test
  void theHeadOfTheQueueAgesFromTheLastFirstToken() {
    Reservation first = ledger.reserve(a, work(100, 100));
    ledger.reserve(a, work(100, 100));
    WorkerLoad load = ledger.load(a);
    fleet.clock.advanceMillis(7);
    assertThat(load.headPrefillNanos(fleet.clock.getAsLong())).isEqualTo(7_000_000);

    first.firstToken();
    fleet.clock.advanceMillis(2);

    assertThat(load.headPrefillNanos(fleet.clock.getAsLong())).isEqualTo(2_000_000);
  }

  @Test
  void isBlindWhenMostEndingsAreExpiriesAndSeesAgainWhenReportsReturn() {
    for (int round = 0; round < 3; round++) {
      for (int i = 0; i < 64; i++) {
        ledger.reserve(a, work(1, 1));
      }
      fleet.clock.advance(Duration.ofMinutes(1));
      ledger.sweep();
    }
    assertThat(ledger.isBlind()).isTrue();

    List<Reservation> reported = new ArrayList<>();
    for (int i = 0; i < 128; i++) {
      reported.add(requireNonNull(ledger.reserve(a, work(1, 1))));
    }
    reported.forEach(Reservation::end);
    ledger.sweep();

    assertThat(ledger.isBlind()).isFalse();
  }
}
