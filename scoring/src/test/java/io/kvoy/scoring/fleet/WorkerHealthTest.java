// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.FakeClock;
import io.kvoy.scoring.fleet.WorkerHealth.Ejected;
import io.kvoy.scoring.fleet.WorkerHealth.Unready;
import io.kvoy.scoring.fleet.WorkerHealth.UnreadyReason;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class WorkerHealthTest {
  private final FakeClock clock = new FakeClock();
  private final FleetRegistry registry = fleet(HealthSettings.DEFAULTS);

  private FleetRegistry fleet(HealthSettings settings) {
    var made = new FleetRegistry(settings, clock);
    made.apply(
        "pool",
        List.of(
            WorkerSpec.ready("pool", "a", new Endpoint("a", 1)),
            WorkerSpec.ready("pool", "b", new Endpoint("b", 1)),
            WorkerSpec.ready("pool", "c", new Endpoint("c", 1))));
    return made;
  }

  private static Worker worker(FleetRegistry in, int slot) {
    return requireNonNull(in.fleet().at(slot));
  }

  private WorkerHealth health(int slot) {
    return registry.fleet().health(worker(registry, slot));
  }

  private void end(int slot, Outcome outcome, int times) {
    for (int i = 0; i < times; i++) {
      registry.ended(worker(registry, slot), outcome);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "200, SUCCESS",
    "400, CALLER_MISTAKE",
    "404, CALLER_MISTAKE",
    "413, CALLER_MISTAKE",
    "422, CALLER_MISTAKE",
    "429, BACK_PRESSURE",
    "500, FAILURE",
    "502, FAILURE",
    "503, BACK_PRESSURE",
    "0, UNKNOWN"
  })
  void statusesTellWhoIsToBlame(int status, Outcome outcome) {
    assertThat(Outcome.ofStatus(status)).isEqualTo(outcome);
  }

  @Test
  void SCORE_04_callersMistakesNeverCountAgainstAWorker() {
    end(0, Outcome.ofStatus(400), 20);
    end(0, Outcome.CLIENT_ABORT, 20);

    assertThat(health(0).isReady()).isTrue();
  }

  @Test
  void aWorkerThatKeepsFailingIsEjectedAndBackAfterOneGoodTrial() {
    end(0, Outcome.FAILURE, 3);
    assertThat(health(0)).isInstanceOf(Ejected.class);
    assertThat(registry.grantTrial(worker(registry, 0), clock.getAsLong())).isFalse();

    clock.advance(Duration.ofSeconds(5));
    assertThat(registry.grantTrial(worker(registry, 0), clock.getAsLong())).isTrue();
    assertThat(registry.grantTrial(worker(registry, 0), clock.getAsLong())).isFalse();
    end(0, Outcome.SUCCESS, 1);

    assertThat(health(0).isReady()).isTrue();
  }

  @Test
  void afterAFailedTrialTheEjectionIsTwiceAsLong() {
    end(0, Outcome.FAILURE, 3);
    clock.advance(Duration.ofSeconds(5));
    registry.grantTrial(worker(registry, 0), clock.getAsLong());
    end(0, Outcome.FAILURE, 1);

    clock.advance(Duration.ofSeconds(9));
    assertThat(registry.grantTrial(worker(registry, 0), clock.getAsLong())).isFalse();
    clock.advance(Duration.ofSeconds(1));
    assertThat(registry.grantTrial(worker(registry, 0), clock.getAsLong())).isTrue();
  }

  @Test
  void everySecondAnswerFailingEjectsToo() {
    for (int i = 0; i < 10; i++) {
      end(0, i % 2 == 0 ? Outcome.SUCCESS : Outcome.FAILURE, 1);
    }

    assertThat(health(0).isEjected()).isTrue();
  }

  @Test
  void rareFailuresDoNotEject() {
    for (int i = 0; i < 100; i++) {
      end(0, i % 5 == 0 ? Outcome.FAILURE : Outcome.SUCCESS, 1);
    }

    assertThat(health(0).isReady()).isTrue();
  }

  @Test
  void aCauseThatHitsThePoolIsNotTheWorkersFault() {
    end(0, Outcome.FAILURE, 3);
    end(1, Outcome.FAILURE, 3);
    end(2, Outcome.FAILURE, 3);

    assertThat(health(0).isEjected()).isTrue();
    assertThat(health(1).isReady()).isTrue();
    assertThat(health(2).isReady()).isTrue();
  }

  @Test
  void theOnlyWorkerIsNeverEjected() {
    var single = new FleetRegistry(HealthSettings.DEFAULTS, clock);
    single.put(WorkerSpec.ready("p", "a", new Endpoint("a", 1)));
    for (int i = 0; i < 10; i++) {
      single.ended(worker(single, 0), Outcome.FAILURE);
    }

    assertThat(single.fleet().health(worker(single, 0)).isReady()).isTrue();
  }

  @Test
  void backPressureHoldsOffForAMomentAndIsNoFailure() {
    end(0, Outcome.BACK_PRESSURE, 1);
    assertThat(registry.isHeldOff(worker(registry, 0), clock.getAsLong())).isTrue();
    assertThat(health(0).isReady()).isTrue();

    clock.advance(Duration.ofMillis(250));
    assertThat(registry.isHeldOff(worker(registry, 0), clock.getAsLong())).isFalse();

    end(0, Outcome.BACK_PRESSURE, 1);
    clock.advance(Duration.ofMillis(400));
    assertThat(registry.isHeldOff(worker(registry, 0), clock.getAsLong())).isTrue();
    end(0, Outcome.SUCCESS, 1);
    assertThat(registry.isHeldOff(worker(registry, 0), clock.getAsLong())).isFalse();
  }

  @Test
  void newsOfAnEarlierLifeIsDropped() {
    Worker old = worker(registry, 0);
    registry.restarted(old);
    for (int i = 0; i < 10; i++) {
      registry.ended(old, Outcome.FAILURE);
    }

    assertThat(health(0).isReady()).isTrue();
  }

  @Test
  void aProbedWorkerWaitsForItsFirstGoodProbe() {
    FleetRegistry probed = fleet(HealthSettings.DEFAULTS.withProbed(true));
    assertThat(probed.fleet().health(worker(probed, 0)))
        .isEqualTo(new Unready(UnreadyReason.NOT_PROBED, ""));

    probed.probed(worker(probed, 0), new ProbeResult.Healthy());

    assertThat(probed.fleet().health(worker(probed, 0)).isReady()).isTrue();
    assertThat(probed.fleet().readyCount("pool")).isEqualTo(1);
  }

  @Test
  void oneMissedProbeIsForgivenTwoAreNot() {
    FleetRegistry probed = fleet(HealthSettings.DEFAULTS.withProbed(true));
    Worker a = worker(probed, 0);
    probed.probed(a, new ProbeResult.Healthy());
    probed.probed(a, new ProbeResult.TimedOut());
    assertThat(probed.fleet().health(a).isReady()).isTrue();

    probed.probed(a, new ProbeResult.TimedOut());
    assertThat(probed.fleet().health(a))
        .isEqualTo(new Unready(UnreadyReason.PROBE_TIMED_OUT, "health probe timed out"));

    probed.probed(a, new ProbeResult.Healthy());
    assertThat(probed.fleet().health(a).isReady()).isTrue();
    assertThat(probed.fleet().isLive(a)).isTrue();
  }

  @Test
  void aRefusedConnectionOnTheDataPathTakesItOutAtOnceAndComingBackIsANewLife() {
    FleetRegistry probed = fleet(HealthSettings.DEFAULTS.withProbed(true));
    Worker a = worker(probed, 0);
    probed.probed(a, new ProbeResult.Healthy());

    probed.ended(a, Outcome.CONNECT_FAILED);
    assertThat(probed.fleet().health(a))
        .isEqualTo(new Unready(UnreadyReason.CONNECT_FAILED, "connection failed"));

    probed.probed(a, new ProbeResult.Healthy());
    assertThat(probed.fleet().isLive(a)).isFalse();
    assertThat(probed.fleet().health(worker(probed, 0)).isReady()).isTrue();
    assertThat(worker(probed, 0).life()).isGreaterThan(a.life());
  }

  @Test
  void withoutAProberRefusedConnectionsCountAsFailures() {
    end(0, Outcome.CONNECT_FAILED, 3);

    assertThat(health(0).isEjected()).isTrue();
  }
}
