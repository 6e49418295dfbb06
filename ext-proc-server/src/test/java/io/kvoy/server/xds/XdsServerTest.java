// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.xds;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.Status;
import io.envoyproxy.controlplane.cache.Resources;
import io.envoyproxy.envoy.config.core.v3.HealthStatus;
import io.envoyproxy.envoy.config.core.v3.Node;
import io.envoyproxy.envoy.config.endpoint.v3.ClusterLoadAssignment;
import io.envoyproxy.envoy.config.endpoint.v3.LbEndpoint;
import io.envoyproxy.envoy.service.discovery.v3.AggregatedDiscoveryServiceGrpc;
import io.envoyproxy.envoy.service.discovery.v3.DeltaDiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DeltaDiscoveryResponse;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryResponse;
import io.envoyproxy.envoy.service.discovery.v3.Resource;
import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.StreamObserver;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.ProbeResult;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.Reservation;
import io.kvoy.scoring.load.Work;
import io.kvoy.server.metrics.KvoyMetrics;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Two kinds of proxies, played by hand, at a real xDS port over a real fleet. */
class XdsServerTest {
  private static final String CDS = Resources.V3.CLUSTER_TYPE_URL;
  private static final String EDS = Resources.V3.ENDPOINT_TYPE_URL;
  private static final String LDS = Resources.V3.LISTENER_TYPE_URL;

  /** Enough for an answer on a busy machine that has yet to load Envoy's thousand classes. */
  private static final Duration SOON = Duration.ofSeconds(30);

  /** Enough to see that nothing comes; a loop would send hundreds. */
  private static final Duration QUIET = Duration.ofMillis(300);

  private final AtomicLong clock = new AtomicLong();
  private final KvoyMetrics metrics = new KvoyMetrics();
  private final InFlightLedger ledger = new InFlightLedger(clock::get);
  private final FleetRegistry registry =
      new FleetRegistry(HealthSettings.DEFAULTS.withProbed(true), clock::get);
  private final List<ManagedChannel> channels = new ArrayList<>();
  private volatile EnvoyBootstrap options = EnvoyBootstrap.builder().buildForXds();
  private XdsServer server;

  @BeforeEach
  void start() throws IOException {
    server =
        XdsServer.start(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
            Optional.empty(),
            () -> options,
            registry,
            ledger,
            () -> Duration.ofMinutes(15),
            metrics.server(),
            clock::get);
  }

  @AfterEach
  void stop() {
    channels.forEach(ManagedChannel::shutdownNow);
    server.close();
    metrics.close();
  }

  private void fleet(int... lastNumbers) {
    List<WorkerSpec> specs = new ArrayList<>();
    for (int last : lastNumbers) {
      specs.add(WorkerSpec.ready("pool", "w" + last, new Endpoint("10.0.0." + last, 8000)));
    }
    registry.apply("pool", specs);
  }

  private void allHealthy() {
    registry
        .fleet()
        .workers()
        .forEach(worker -> registry.probed(worker, new ProbeResult.Healthy()));
  }

  /** One ADS stream; what is sent and what comes back is in the test's hands. */
  private abstract class Proxy<Q, R> implements StreamObserver<R> {
    final BlockingQueue<R> received = new LinkedBlockingQueue<>();
    final ManagedChannel channel =
        NettyChannelBuilder.forAddress("127.0.0.1", server.port()).usePlaintext().build();
    volatile @Nullable Throwable failure;

    Proxy() {
      channels.add(channel);
    }

    @Override
    public void onNext(R answer) {
      received.add(answer);
    }

    @Override
    public void onError(Throwable error) {
      failure = error;
    }

    @Override
    public void onCompleted() {}

    R next() throws InterruptedException {
      R answer = received.poll(SOON.toMillis(), TimeUnit.MILLISECONDS);
      assertThat(answer).as("an answer; the stream failed with %s", failure).isNotNull();
      return answer;
    }

    void nothing() throws InterruptedException {
      assertThat(received.poll(QUIET.toMillis(), TimeUnit.MILLISECONDS)).isNull();
    }
  }

  private final class Sotw extends Proxy<DiscoveryRequest, DiscoveryResponse> {
    final StreamObserver<DiscoveryRequest> out =
        AggregatedDiscoveryServiceGrpc.newStub(channel).streamAggregatedResources(this);

    void ask(String type, String version, String... names) {
      out.onNext(request(type, version).addAllResourceNames(List.of(names)).build());
    }

    void ack(DiscoveryResponse answer, String... names) {
      out.onNext(
          request(answer.getTypeUrl(), answer.getVersionInfo())
              .setResponseNonce(answer.getNonce())
              .addAllResourceNames(List.of(names))
              .build());
    }

    void nack(DiscoveryResponse answer, String accepted, String... names) {
      out.onNext(
          request(answer.getTypeUrl(), accepted)
              .setResponseNonce(answer.getNonce())
              .addAllResourceNames(List.of(names))
              .setErrorDetail(Status.newBuilder().setMessage("no\nsuch policy"))
              .build());
    }

    private static DiscoveryRequest.Builder request(String type, String version) {
      return DiscoveryRequest.newBuilder()
          .setNode(Node.newBuilder().setId("sotw"))
          .setTypeUrl(type)
          .setVersionInfo(version);
    }
  }

  private final class Delta extends Proxy<DeltaDiscoveryRequest, DeltaDiscoveryResponse> {
    final StreamObserver<DeltaDiscoveryRequest> out =
        AggregatedDiscoveryServiceGrpc.newStub(channel).deltaAggregatedResources(this);

    void ask(String type, String... names) {
      out.onNext(request(type).addAllResourceNamesSubscribe(List.of(names)).build());
    }

    void ack(DeltaDiscoveryResponse answer) {
      out.onNext(request(answer.getTypeUrl()).setResponseNonce(answer.getNonce()).build());
    }

    void nack(DeltaDiscoveryResponse answer) {
      out.onNext(
          request(answer.getTypeUrl())
              .setResponseNonce(answer.getNonce())
              .setErrorDetail(Status.newBuilder().setMessage("no such policy"))
              .build());
    }

    static DeltaDiscoveryRequest.Builder request(String type) {
      return DeltaDiscoveryRequest.newBuilder()
          .setNode(Node.newBuilder().setId("delta"))
          .setTypeUrl(type);
    }
  }

  private static List<String> endpoints(ClusterLoadAssignment assignment) {
    List<String> seen = new ArrayList<>();
    for (LbEndpoint endpoint : assignment.getEndpoints(0).getLbEndpointsList()) {
      HealthStatus health = endpoint.getHealthStatus();
      seen.add(
          endpoint.getEndpoint().getAddress().getSocketAddress().getAddress()
              + (health == HealthStatus.UNKNOWN ? "" : " " + health));
    }
    return seen;
  }

  private static List<String> endpoints(DiscoveryResponse answer)
      throws InvalidProtocolBufferException {
    return endpoints(answer.getResources(0).unpack(ClusterLoadAssignment.class));
  }

  private static List<String> endpoints(DeltaDiscoveryResponse answer)
      throws InvalidProtocolBufferException {
    return endpoints(answer.getResources(0).getResource().unpack(ClusterLoadAssignment.class));
  }

  private String page(String part) {
    return String.valueOf(server.page().get(part));
  }

  private String metricsPage() throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    metrics.writePage(out);
    return out.toString(StandardCharsets.UTF_8);
  }

  @Test
  void nothingIsSentBeforeEveryWorkerWasLookedAt() throws Exception {
    Sotw envoy = new Sotw();
    envoy.ask(CDS, "");
    envoy.ask(EDS, "", EnvoyBootstrap.MODEL_SERVERS);
    envoy.nothing();
    fleet(1, 2);
    envoy.nothing();

    registry.probed(registry.fleet().workers().getFirst(), new ProbeResult.Healthy());
    envoy.nothing();
    registry.probed(registry.fleet().workers().getLast(), new ProbeResult.Healthy());

    assertThat(envoy.next().getTypeUrl()).isEqualTo(CDS);
    DiscoveryResponse endpoints = envoy.next();
    assertThat(endpoints(endpoints)).containsExactly("10.0.0.1", "10.0.0.2");
  }

  @Test
  void workerThatCannotBeLookedAtHoldsTheOthersBackForALimitedTime() throws Exception {
    Sotw envoy = new Sotw();
    envoy.ask(EDS, "", EnvoyBootstrap.MODEL_SERVERS);
    fleet(1, 2);
    registry.probed(registry.fleet().workers().getFirst(), new ProbeResult.Healthy());
    envoy.nothing();

    clock.addAndGet(Duration.ofSeconds(10).toNanos());

    assertThat(endpoints(envoy.next())).containsExactly("10.0.0.1", "10.0.0.2 UNHEALTHY");
  }

  @Test
  void lastOfTwoChangesInOneMomentWins() throws Exception {
    fleet(1);
    allHealthy();
    Sotw sotw = new Sotw();
    sotw.ask(EDS, "", EnvoyBootstrap.MODEL_SERVERS);
    DiscoveryResponse first = sotw.next();
    Delta delta = new Delta();
    delta.ask(EDS, EnvoyBootstrap.MODEL_SERVERS);
    DeltaDiscoveryResponse firstDelta = delta.next();

    // While the first answer is not even acknowledged.
    for (int last = 2; last < 6; last++) {
      registry.put(WorkerSpec.ready("pool", "w" + last, new Endpoint("10.0.0." + last, 8000)));
      allHealthy();
    }
    await().atMost(SOON).until(() -> page("members").contains("10.0.0.5:8000=healthy"));
    sotw.ack(first, EnvoyBootstrap.MODEL_SERVERS);
    delta.ack(firstDelta);

    assertThat(endpoints(sotw.next()))
        .containsExactly("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5");
    assertThat(endpoints(delta.next())).hasSize(5);
  }

  @ParameterizedTest
  @ValueSource(strings = {CDS_URL, EDS_URL})
  void rejectedConfigurationIsToldOnceAndNotSentAgain(String type) throws Exception {
    fleet(1);
    allHealthy();
    String[] names = type.equals(EDS) ? new String[] {EnvoyBootstrap.MODEL_SERVERS} : new String[0];
    Sotw sotw = new Sotw();
    sotw.ask(type, "", names);
    sotw.nack(sotw.next(), "", names);
    Delta delta = new Delta();
    delta.ask(type, names);
    delta.nack(delta.next());

    sotw.nothing();
    delta.nothing();
    assertThat(page("proxies")).contains("node=sotw", "node=delta", "problem=no such policy");
    assertThat(metricsPage())
        .contains("kvoy_xds_rejecting 2", "result=\"rejected\"", "kvoy_xds_streams 2");

    // What comes after it is sent, and accepting it ends the alarm.
    registry.put(WorkerSpec.ready("pool", "w2", new Endpoint("10.0.0.2", 8000)));
    options =
        EnvoyBootstrap.builder()
            .idleTimeout(Duration.ofMinutes(1))
            .checkWorkerHealth(true)
            .buildForXds();
    server.changed();
    sotw.ack(sotw.next(), names);
    delta.ack(delta.next());
    await().atMost(SOON).until(() -> metricsPage().contains("kvoy_xds_rejecting 0"));
  }

  @Test
  void endpointsAreSentAgainWithTheirChangedCluster() throws Exception {
    fleet(1);
    allHealthy();
    Delta envoy = new Delta();
    envoy.ask(EDS, EnvoyBootstrap.MODEL_SERVERS);
    envoy.ack(envoy.next());

    options = EnvoyBootstrap.builder().idleTimeout(Duration.ofMinutes(1)).buildForXds();
    server.changed();
    envoy.nothing();
    options = EnvoyBootstrap.builder().checkWorkerHealth(true).buildForXds();
    server.changed();

    assertThat(endpoints(envoy.next())).containsExactly("10.0.0.1");
  }

  // Also where the proxy never had what it rejected, or still has what comes back.
  @Test
  void takingBackWhatADeltaProxyRejectedEndsTheAlarm() throws Exception {
    fleet(1);
    allHealthy();
    Delta envoy = new Delta();
    envoy.ask(LDS);
    envoy.ack(envoy.next());
    EnvoyBootstrap before = options;
    for (EnvoyBootstrap.Builder wrong :
        List.of(
            EnvoyBootstrap.builder().plainListen(new Endpoint("127.0.0.1", 81)),
            EnvoyBootstrap.builder().accessLogPath("/dev/full"))) {
      options = wrong.buildForXds();
      server.changed();
      envoy.nack(envoy.next());
      await().atMost(SOON).until(() -> metricsPage().contains("kvoy_xds_rejecting 1"));
      options = before;
      server.changed();
      envoy.ack(envoy.next());
      await().atMost(SOON).until(() -> metricsPage().contains("kvoy_xds_rejecting 0"));
    }
  }

  @Test
  void equalConfigurationIsNotSentAgainAfterARestart() throws Exception {
    fleet(1, 2);
    allHealthy();
    Sotw before = new Sotw();
    before.ask(CDS, "");
    String version = before.next().getVersionInfo();
    server.close();
    start();

    Sotw after = new Sotw();
    after.ask(CDS, version);

    await().atMost(SOON).until(() -> !page("version").isEmpty());
    after.nothing();
  }

  @Test
  void whatWasRemovedWhileADeltaProxyWasAwayIsTold() throws Exception {
    options = EnvoyBootstrap.builder().buildForXds();
    fleet(1);
    allHealthy();
    Delta envoy = new Delta();

    envoy.out.onNext(
        Delta.request(CDS)
            .putInitialResourceVersions(EnvoyBootstrap.MODEL_SERVERS, "an earlier one")
            .putInitialResourceVersions(EnvoyBootstrap.MODEL_SERVERS_PLAIN, "an earlier one")
            .build());

    DeltaDiscoveryResponse answer = envoy.next();
    assertThat(answer.getRemovedResourcesList())
        .containsExactly(EnvoyBootstrap.MODEL_SERVERS_PLAIN);
    assertThat(answer.getResourcesList())
        .extracting(Resource::getName)
        .containsExactlyInAnyOrder(EnvoyBootstrap.MODEL_SERVERS, EnvoyBootstrap.PICKER);
  }

  @Test
  void workerThatLeftDrainsUntilItsLastAnswerHasEnded() throws Exception {
    fleet(1, 2);
    allHealthy();
    Worker leaving = registry.fleet().workers().getFirst();
    long patience = Duration.ofMinutes(5).toNanos();
    Reservation answer = ledger.reserve(leaving, new Work(100, 100, 0, patience, patience, true));
    Sotw envoy = new Sotw();
    envoy.ask(EDS, "", EnvoyBootstrap.MODEL_SERVERS);
    envoy.ack(envoy.next(), EnvoyBootstrap.MODEL_SERVERS);

    // Another worker takes its slot at once, as a rolling change does.
    fleet(2, 3);
    allHealthy();
    List<String> seen;
    do {
      DiscoveryResponse next = envoy.next();
      seen = endpoints(next);
      envoy.ack(next, EnvoyBootstrap.MODEL_SERVERS);
    } while (!seen.contains("10.0.0.3"));
    assertThat(seen).containsExactly("10.0.0.1 DRAINING", "10.0.0.2", "10.0.0.3");
    clock.addAndGet(Duration.ofMinutes(1).toNanos());
    envoy.nothing();

    assertThat(answer.end()).isTrue();
    assertThat(endpoints(envoy.next())).containsExactly("10.0.0.2", "10.0.0.3");
  }

  @Test
  void unknownTypeIsRefused() throws Exception {
    Sotw envoy = new Sotw();
    envoy.ask("type.googleapis.com/evil.Type", "");

    await().atMost(SOON).until(() -> envoy.failure != null);
    assertThat(envoy.failure).hasMessageContaining("INVALID_ARGUMENT").hasMessageContaining("evil");
    await().atMost(SOON).until(() -> metricsPage().contains("kvoy_xds_streams 0"));
  }

  @Test
  void listenersAndRoutesBelongTogether() throws Exception {
    fleet(1);
    allHealthy();
    Sotw envoy = new Sotw();
    envoy.ask(LDS, "");
    assertThat(envoy.next().getResourcesCount()).isEqualTo(1);
    envoy.ask(Resources.V3.ROUTE_TYPE_URL, "", "inference");
    assertThat(envoy.next().getResourcesCount()).isEqualTo(1);
  }

  private static final String CDS_URL = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
  private static final String EDS_URL =
      "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
}
