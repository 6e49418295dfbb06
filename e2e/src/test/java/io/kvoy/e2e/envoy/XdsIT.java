// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.env.EnvoyProcess;
import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.Ports;
import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.XdsBootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.ProbeResult;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.server.metrics.KvoyMetrics;
import io.kvoy.server.xds.XdsServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The real Envoy configured by Kvoy, in both protocols, while requests run. */
final class XdsIT {
  /** What HA-06 asks for. */
  private static final Duration CONVERGED = Duration.ofSeconds(5);

  private static final Pattern DECISION =
      Pattern.compile("\"target\":\"(w\\d+)\".*?\"served_by\":\"(w\\d+)\"");

  /** A control plane whose fleet is in the test's hands. */
  private static final class Control implements AutoCloseable {
    final FleetRegistry registry =
        new FleetRegistry(HealthSettings.DEFAULTS.withProbed(true), System::nanoTime);
    private final KvoyMetrics metrics = new KvoyMetrics();
    private final XdsServer server;
    private volatile EnvoyBootstrap options;

    Control(int port, EnvoyBootstrap first) throws IOException {
      options = first;
      server =
          XdsServer.start(
              new InetSocketAddress(InetAddress.getLoopbackAddress(), port),
              Optional.empty(),
              () -> options,
              registry,
              new InFlightLedger(System::nanoTime),
              () -> Duration.ofMinutes(1),
              metrics.server(),
              System::nanoTime);
    }

    void change(EnvoyBootstrap to) {
      options = to;
      server.changed();
    }

    /** Declares these and no others, not probed yet. */
    void declare(InstantWorker... workers) {
      registry.apply(
          "pool",
          Arrays.stream(workers)
              .map(w -> WorkerSpec.ready("pool", w.endpoint().toString(), w.endpoint()))
              .toList());
    }

    void probe() {
      registry.fleet().workers().forEach(w -> registry.probed(w, new ProbeResult.Healthy()));
    }

    /** As when its process ends. */
    void stop() {
      server.close();
    }

    @Override
    public void close() {
      stop();
      metrics.close();
    }
  }

  private static List<String> addresses(InstantWorker... workers) {
    return new ArrayList<>(
        new TreeSet<>(Arrays.stream(workers).map(w -> w.endpoint().toString()).toList()));
  }

  private static void awaitEndpoints(EnvoyProcess envoy, InstantWorker... workers) {
    long since = System.nanoTime();
    await()
        .pollInterval(Duration.ofMillis(20))
        .atMost(CONVERGED)
        .untilAsserted(
            () ->
                assertThat(envoy.endpoints(EnvoyBootstrap.MODEL_SERVERS).keySet())
                    .containsExactlyElementsOf(addresses(workers)));
    assertThat(Duration.ofNanos(System.nanoTime() - since)).isLessThan(CONVERGED);
  }

  @ParameterizedTest
  @EnumSource
  void HA_06_envoyConvergesToTheLastSnapshotAndSeesNoEmptyOne(XdsBootstrap.Protocol protocol)
      throws Exception {
    int port = Ports.free();
    EnvoyBootstrap options =
        EnvoyBootstrap.builder()
            .listen(new Endpoint("127.0.0.1", Ports.free()))
            .extProc(new Endpoint("127.0.0.1", Ports.free()))
            .buildForXds();
    try (InstantWorker w0 = InstantWorker.start();
        InstantWorker w1 = InstantWorker.start();
        InstantWorker w2 = InstantWorker.start();
        Control first = new Control(port, options)) {
      first.declare(w0, w1);
      first.probe();
      try (EnvoyProcess envoy =
          EnvoyProcess.start(
              LocalTools.find(),
              new XdsBootstrap(
                  new Endpoint("127.0.0.1", Ports.free()),
                  new Endpoint("127.0.0.1", port),
                  "ha-06",
                  protocol,
                  Optional.empty()))) {
        awaitEndpoints(envoy, w0, w1);
        // Nobody is the picker here: its health check must have said so, else the first requests
        // go the way of a picker that dies.
        await().until(() -> envoy.stat("cluster.kvoy.health_check.failure") > 0);
        try (ConstantLoad load = new ConstantLoad(options.listen(), 6)) {
          await().until(() -> load.answered.get() > 50);

          first.stop();
          try (Control second = new Control(port, options)) {
            // Started, connected, and not in sync: the fleet is empty, then known but not looked
            // at.
            await().atMost(CONVERGED).until(() -> envoy.stat("control_plane.connected_state") == 1);
            second.declare(w1, w2);
            int answered = load.answered.get();
            await().until(() -> load.answered.get() > answered + 50);
            assertThat(envoy.endpoints(EnvoyBootstrap.MODEL_SERVERS).keySet())
                .containsExactlyElementsOf(addresses(w0, w1));
            second.probe();
            awaitEndpoints(envoy, w1, w2);

            for (int round = 0; round < 20; round++) {
              // Two within 10 ms, again and again, so that answers and changes cross.
              second.declare(w1, w2);
              second.probe();
              second.declare(w0, w2);
              second.probe();
              Thread.sleep(round);
            }
            awaitEndpoints(envoy, w0, w2);
          }
          assertThat(load.end()).as(envoy.logTail()).isEmpty();
        }
        assertThat(envoy.stat("cluster.model_servers.update_empty")).isZero();
        assertThat(envoy.stats("update_rejected")).doesNotContainPattern("rejected: [1-9]");
      }
    }
  }

  // A changed cluster is used only once its endpoints were sent again; in delta too.
  @ParameterizedTest
  @EnumSource
  void changedOptionsReachEnvoyAndLaterChangesOfTheFleetToo(XdsBootstrap.Protocol protocol)
      throws Exception {
    int port = Ports.free();
    EnvoyBootstrap.Builder options =
        EnvoyBootstrap.builder()
            .listen(new Endpoint("127.0.0.1", Ports.free()))
            .extProc(new Endpoint("127.0.0.1", Ports.free()));
    EnvoyBootstrap first = options.buildForXds();
    Endpoint plain = new Endpoint("127.0.0.1", Ports.free());
    EnvoyBootstrap changed =
        options
            .checkWorkerHealth(true)
            .idleTimeout(Duration.ofMinutes(1))
            .plainListen(plain)
            .buildForXds();
    try (InstantWorker w0 = InstantWorker.start();
        InstantWorker w1 = InstantWorker.start();
        Control control = new Control(port, first)) {
      control.declare(w0);
      control.probe();
      try (EnvoyProcess envoy =
          EnvoyProcess.start(
              LocalTools.find(),
              new XdsBootstrap(
                  new Endpoint("127.0.0.1", Ports.free()),
                  new Endpoint("127.0.0.1", port),
                  "options",
                  protocol,
                  Optional.empty()))) {
        awaitEndpoints(envoy, w0);
        await().until(() -> envoy.stat("cluster.kvoy.health_check.failure") > 0);
        try (ConstantLoad load = new ConstantLoad(first.listen(), 4)) {
          await().until(() -> load.answered.get() > 20);
          control.change(changed);
          await()
              .atMost(Duration.ofSeconds(20))
              .untilAsserted(
                  () -> {
                    assertThat(envoy.stat("cluster.model_servers.health_check.success"))
                        .as(envoy.stats("warming|cds|lds|health_check"))
                        .isPositive();
                    assertThat(envoy.stat("cluster_manager.warming_clusters")).isZero();
                    assertThat(envoy.stat("listener_manager.total_listeners_active")).isEqualTo(2);
                  });
          try (ConstantLoad pastKvoy = new ConstantLoad(plain, 1)) {
            await().until(() -> pastKvoy.answered.get() > 5);
            assertThat(pastKvoy.end()).isEmpty();
          }
          control.declare(w0, w1);
          control.probe();
          awaitEndpoints(envoy, w0, w1);
          assertThat(load.end()).as(envoy.logTail()).isEmpty();
        }
        assertThat(envoy.stats("update_rejected")).doesNotContainPattern("rejected: [1-9]");
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void whatEnvoyRejectsIsShownInItsOwnWordsAndTheOldConfigurationGoesOn(
      XdsBootstrap.Protocol protocol) throws Exception {
    int port = Ports.free();
    EnvoyBootstrap.Builder options =
        EnvoyBootstrap.builder()
            .listen(new Endpoint("127.0.0.1", Ports.free()))
            .extProc(new Endpoint("127.0.0.1", Ports.free()));
    EnvoyBootstrap first = options.buildForXds();
    try (InstantWorker worker = InstantWorker.start();
        ServerSocket taken = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Control control = new Control(port, first)) {
      control.declare(worker);
      control.probe();
      try (EnvoyProcess envoy =
          EnvoyProcess.start(
              LocalTools.find(),
              new XdsBootstrap(
                  new Endpoint("127.0.0.1", Ports.free()),
                  new Endpoint("127.0.0.1", port),
                  "rejecting",
                  protocol,
                  Optional.empty()))) {
        awaitEndpoints(envoy, worker);
        await().until(() -> envoy.stat("cluster.kvoy.health_check.failure") > 0);
        control.change(
            options.plainListen(new Endpoint("127.0.0.1", taken.getLocalPort())).buildForXds());

        await()
            .untilAsserted(
                () ->
                    assertThat(String.valueOf(control.server.page().get("proxies")))
                        .contains("node=rejecting", "rejected=", "cannot bind"));
        long rejected = envoy.stat("listener_manager.lds.update_rejected");
        assertThat(rejected).isPositive();
        try (ConstantLoad load = new ConstantLoad(first.listen(), 2)) {
          await().until(() -> load.answered.get() > 20);
          assertThat(load.end()).isEmpty();
        }
        assertThat(envoy.stat("listener_manager.lds.update_rejected"))
            .as("what was rejected is not sent again")
            .isEqualTo(rejected);

        // What comes after it is taken.
        control.change(first);
        await()
            .untilAsserted(
                () ->
                    assertThat(String.valueOf(control.server.page().get("proxies")))
                        .doesNotContain("rejected="));
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void everyWorkerIsReplacedUnderLoadWithoutALostRequest(XdsBootstrap.Protocol protocol)
      throws Exception {
    Endpoint door = new Endpoint("127.0.0.1", Ports.free());
    try (Rig rig = new Rig(3, "envoy: {listen: \"" + door + "\", failOpen: false}")) {
      rig.servesXds = true;
      rig.writeConfig(rig.workers);
      rig.startKvoy();
      EnvoyProcess envoy = rig.envoyOverXds(protocol);
      await().until(() -> envoy.stat("cluster.kvoy.membership_healthy") == 1);
      List<InstantWorker> fleet = new ArrayList<>(rig.workers);
      try (ConstantLoad load = new ConstantLoad(door, 8)) {
        await().until(() -> load.answered.get() > 50);
        for (InstantWorker leaving : List.copyOf(fleet)) {
          InstantWorker coming = InstantWorker.start();
          rig.workers.add(coming);
          fleet.remove(leaving);
          fleet.add(coming);
          rig.writeConfig(fleet);
          await()
              .atMost(Duration.ofSeconds(30))
              .untilAsserted(
                  () ->
                      assertThat(envoy.endpoints(EnvoyBootstrap.MODEL_SERVERS).keySet())
                          .contains(coming.endpoint().toString())
                          .doesNotContain(leaving.endpoint().toString()));
          leaving.close();
          await().until(() -> coming.requests() > 20);
        }
        assertThat(load.end()).as(envoy.logTail()).isEmpty();
      }
      assertThat(rig.admin("/debug/xds")).contains("\"node\":\"rig\"").doesNotContain("rejected");
      // Whom Kvoy named is who served, but for picks that overtook the news of a worker.
      int followed = 0;
      int overtaking = 0;
      for (String decision : rig.admin("/debug/decisions?limit=1000").split("\"request_id\"", -1)) {
        Matcher ended = DECISION.matcher(decision);
        if (ended.find()) {
          if (ended.group(2).equals(ended.group(1))) {
            followed++;
          } else {
            overtaking++;
          }
        }
      }
      assertThat(followed).isGreaterThan(100);
      assertThat(overtaking).as("of %d", followed).isLessThan(followed / 50);
    }
  }
}
