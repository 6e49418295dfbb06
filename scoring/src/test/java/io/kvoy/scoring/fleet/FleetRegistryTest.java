// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.FakeClock;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class FleetRegistryTest {
  private final FakeClock clock = new FakeClock();
  private final FleetRegistry registry = new FleetRegistry(HealthSettings.DEFAULTS, clock);

  private static WorkerSpec spec(String name) {
    return WorkerSpec.ready("pool", name, new Endpoint("10.0.0.1", 8000 + name.charAt(0)));
  }

  private Worker worker(String name) {
    return registry.fleet().workers().stream()
        .filter(w -> w.name().equals(name))
        .findFirst()
        .orElseThrow();
  }

  @Test
  void givesDenseSlotsAndReusesFreedOnesWithAHigherLife() {
    registry.apply("pool", List.of(spec("a"), spec("b"), spec("c")));
    Worker b = worker("b");
    assertThat(b.slot()).isEqualTo(1);

    registry.remove("pool", "b");
    registry.put(spec("d"));

    assertThat(worker("d").slot()).isEqualTo(1);
    assertThat(worker("d").life()).isGreaterThan(b.life());
    assertThat(registry.fleet().isLive(b)).isFalse();
    assertThat(registry.fleet().slots()).isEqualTo(3);
  }

  @Test
  void anUnchangedDeclarationChangesNothing() {
    registry.apply("pool", List.of(spec("a"), spec("b")));
    Fleet before = registry.fleet();

    registry.apply("pool", List.of(spec("a"), spec("b")));

    assertThat(registry.fleet()).isSameAs(before);
  }

  @Test
  void aListOfOnePoolLeavesOtherPoolsAlone() {
    registry.put(WorkerSpec.ready("other", "x", new Endpoint("h", 1)));
    registry.apply("pool", List.of(spec("a")));
    registry.apply("pool", List.of());

    assertThat(registry.fleet().workers()).extracting(Worker::name).containsExactly("x");
    assertThat(registry.fleet().workers("pool")).isEmpty();
  }

  @Test
  void anotherIncarnationOrAddressIsANewLife() {
    registry.put(spec("a"));
    long first = worker("a").life();
    WorkerSpec s = spec("a");
    registry.put(
        new WorkerSpec(s.pool(), s.name(), s.endpoint(), "uid-2/0", s.readiness(), s.kv()));
    long second = worker("a").life();
    registry.put(WorkerSpec.ready("pool", "a", new Endpoint("10.9.9.9", 8000)));

    assertThat(second).isGreaterThan(first);
    assertThat(worker("a").life()).isGreaterThan(second);
    assertThat(worker("a").slot()).isZero();
  }

  @Test
  void readinessChangesKeepTheLife() {
    registry.put(spec("a"));
    Worker before = worker("a");

    registry.put(spec("a").with(WorkerSpec.Readiness.DRAINING));

    assertThat(worker("a")).isEqualTo(before);
    assertThat(registry.fleet().health(before)).isEqualTo(WorkerHealth.draining());
  }

  @Test
  void listenersHearEveryChangeInOrderEvenThoseTheyCause() {
    List<String> heard = new ArrayList<>();
    registry.listen(
        change -> {
          if (change.after().version() == 1) {
            registry.put(spec("b"));
          }
          heard.add(change.before().version() + ">" + change.after().version());
        });
    registry.put(spec("a"));
    registry.restarted(worker("a"));

    assertThat(heard).containsExactly("0>1", "1>2", "2>3");
  }

  @Test
  void aBrokenListenerDoesNotHideTheChangeFromOthers() {
    List<FleetChange> heard = new ArrayList<>();
    registry.listen(
        _ -> {
          throw new IllegalStateException("broken on purpose");
        });
    registry.listen(heard::add);

    registry.put(spec("a"));

    assertThat(heard).hasSize(1);
  }

  @Test
  void aRestartIsOneLifeRemovedAndOneAdded() {
    registry.put(spec("a"));
    Worker old = worker("a");
    List<FleetChange> heard = new ArrayList<>();
    registry.listen(heard::add);

    registry.restarted(old);
    registry.restarted(old);

    assertThat(heard).hasSize(1);
    assertThat(heard.getFirst().removed()).containsExactly(old);
    assertThat(heard.getFirst().added()).containsExactly(worker("a"));
  }

  @Test
  void DISC_04_findsAnIpv6WorkerByItsBracketedAddress() {
    registry.put(WorkerSpec.ready("pool", "six", new Endpoint("2001:db8::7", 8000)));
    Endpoint parsed = requireNonNull(Endpoint.parse("[2001:db8::7]:8000"));

    assertThat(registry.fleet().at(parsed)).isEqualTo(worker("six"));
    assertThat(worker("six").endpoint()).hasToString("[2001:db8::7]:8000");
  }

  @Test
  void DISC_08_fourPortsOfOneHostAreFourWorkers() {
    var specs = new ArrayList<WorkerSpec>();
    for (int port = 8000; port < 8004; port++) {
      specs.add(WorkerSpec.ready("pool", "pod-0:" + port, new Endpoint("10.0.0.7", port)));
    }
    registry.apply("pool", specs);

    assertThat(registry.fleet().workers("pool"))
        .extracting(Worker::slot)
        .containsExactly(0, 1, 2, 3);
  }
}
