// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.protobuf.util.Durations;
import io.envoyproxy.envoy.config.cluster.v3.CircuitBreakers;
import io.envoyproxy.envoy.config.cluster.v3.Cluster;
import io.envoyproxy.envoy.config.cluster.v3.LoadBalancingPolicy;
import io.envoyproxy.envoy.config.core.v3.HealthCheck;
import io.envoyproxy.envoy.config.core.v3.HealthStatus;
import io.envoyproxy.envoy.config.core.v3.Http2ProtocolOptions;
import io.envoyproxy.envoy.config.endpoint.v3.ClusterLoadAssignment;
import io.envoyproxy.envoy.config.endpoint.v3.LocalityLbEndpoints;
import io.envoyproxy.envoy.extensions.load_balancing_policies.least_request.v3.LeastRequest;
import io.envoyproxy.envoy.extensions.load_balancing_policies.round_robin.v3.RoundRobin;
import io.envoyproxy.envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher;
import io.envoyproxy.envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext;
import io.envoyproxy.envoy.extensions.upstreams.http.v3.HttpProtocolOptions;
import io.kvoy.scoring.fleet.Endpoint;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The clusters of an {@link EnvoyBootstrap}: the workers, Kvoy, and the workers again for the plain
 * door.
 */
final class Clusters {
  /**
   * Open streams a cluster may have. One request to a worker lives as long as its answer, and so
   * does its stream to Kvoy; Envoy's default of 1024 would refuse the rest with 503, or 500 on
   * Kvoy's cluster.
   */
  private static final int MAX_STREAMS = 40_000;

  private static final int MAX_RETRIES = 1_024;

  /**
   * Envoy closes an idle connection to a worker before the worker does, else a request can be sent
   * into a closing connection. vLLM closes after 5 s (vLLM 0.32.0 {@code vllm/envs.py},
   * VLLM_HTTP_TIMEOUT_KEEP_ALIVE).
   */
  private static final int WORKER_KEEP_ALIVE_SECONDS = 4;

  /** A prompt of 60 000 tokens comes back from Kvoy without waiting for a window update. */
  private static final int PICKER_STREAM_WINDOW_BYTES = 256 << 10;

  /**
   * All streams of a connection share this window, and a client that reads slowly holds its part of
   * it: a thousand such clients must not stop the others.
   */
  private static final int PICKER_CONNECTION_WINDOW_BYTES = 1_000 * PICKER_STREAM_WINDOW_BYTES;

  private static final String HTTP_OPTIONS =
      "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
  private static final String EXT_PROC_SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor";

  private final EnvoyBootstrap options;
  private final Delivery delivery;

  Clusters(EnvoyBootstrap options, Delivery delivery) {
    this.options = options;
    this.delivery = delivery;
  }

  /** Every cluster that the options ask for. */
  List<Cluster> all() {
    List<Cluster> all = new ArrayList<>();
    all.add(modelServers());
    all.add(picker());
    if (options.responseBody() == ResponseBodyMode.REPORTED) {
      all.add(reports());
    }
    if (options.plainListen().isPresent()) {
      all.add(plainModelServers());
    }
    return all;
  }

  /** The endpoints of those of {@link #all} that hold workers. */
  List<ClusterLoadAssignment> endpoints(List<FleetMember> fleet) {
    List<ClusterLoadAssignment> all = new ArrayList<>();
    all.add(assignment(EnvoyBootstrap.MODEL_SERVERS, fleet));
    if (options.plainListen().isPresent()) {
      all.add(assignment(EnvoyBootstrap.MODEL_SERVERS_PLAIN, fleet));
    }
    return all;
  }

  private Cluster modelServers() {
    Message overrideHost = OverrideHostPolicy.forEndpointPicker(fallback());
    return workers(EnvoyBootstrap.MODEL_SERVERS)
        .setLoadBalancingPolicy(policy("envoy.load_balancing_policies.override_host", overrideHost))
        .build();
  }

  private Cluster plainModelServers() {
    return workers(EnvoyBootstrap.MODEL_SERVERS_PLAIN).setLoadBalancingPolicy(roundRobin()).build();
  }

  private Cluster picker() {
    Cluster.Builder cluster =
        Cluster.newBuilder()
            .setName(EnvoyBootstrap.PICKER)
            .setType(discovery(options.extProc()))
            .setConnectTimeout(Durations.fromSeconds(1))
            .setLbPolicy(Cluster.LbPolicy.LEAST_REQUEST)
            .setCircuitBreakers(circuitBreakers())
            .addHealthChecks(grpcHealth())
            .setLoadAssignment(one(EnvoyBootstrap.PICKER, options.extProc()));
    // At the default threshold of 50 % Envoy goes on sending to a Kvoy that is known to be down,
    // and a request with a
    // body gets 500 although the filter may fail open.
    cluster.getCommonLbConfigBuilder().getHealthyPanicThresholdBuilder().setValue(0);
    HttpProtocolOptions.Builder http = HttpProtocolOptions.newBuilder();
    Http2ProtocolOptions.Builder http2 =
        http.getExplicitHttpConfigBuilder().getHttp2ProtocolOptionsBuilder();
    http2.getInitialStreamWindowSizeBuilder().setValue(PICKER_STREAM_WINDOW_BYTES);
    http2.getInitialConnectionWindowSizeBuilder().setValue(PICKER_CONNECTION_WINDOW_BYTES);
    cluster.putTypedExtensionProtocolOptions(HTTP_OPTIONS, Any.pack(http.build()));
    options.extProcTls().ifPresent(tls -> secure(cluster, tls));
    return cluster.build();
  }

  /** A report that does not get through is lost, and nobody waits for it: no health check. */
  private Cluster reports() {
    HttpProtocolOptions.Builder http = HttpProtocolOptions.newBuilder();
    http.getExplicitHttpConfigBuilder().getHttp2ProtocolOptionsBuilder();
    return grpc(EnvoyBootstrap.REPORTS, options.reports(), http).build();
  }

  /** Kvoy's xDS door, as an Envoy has to know it before it knows anything else. */
  static Cluster control(String name, Endpoint endpoint, Optional<ExtProcTls> tls) {
    HttpProtocolOptions.Builder http = HttpProtocolOptions.newBuilder();
    // Nothing is sent for hours while the fleet stays as it is: a Kvoy whose host vanished would
    // not be noticed.
    http.getExplicitHttpConfigBuilder()
        .getHttp2ProtocolOptionsBuilder()
        .getConnectionKeepaliveBuilder()
        .setInterval(Durations.fromSeconds(10))
        .setTimeout(Durations.fromSeconds(5));
    Cluster.Builder cluster = grpc(name, endpoint, http);
    tls.ifPresent(settings -> secure(cluster, settings));
    return cluster.build();
  }

  private static Cluster.Builder grpc(
      String name, Endpoint endpoint, HttpProtocolOptions.Builder http) {
    return Cluster.newBuilder()
        .setName(name)
        .setType(discovery(endpoint))
        .setConnectTimeout(Durations.fromSeconds(1))
        .setLoadAssignment(one(name, endpoint))
        .putTypedExtensionProtocolOptions(HTTP_OPTIONS, Any.pack(http.build()));
  }

  private static Cluster.DiscoveryType discovery(Endpoint endpoint) {
    return Addresses.isIpLiteral(endpoint.host())
        ? Cluster.DiscoveryType.STATIC
        : Cluster.DiscoveryType.STRICT_DNS;
  }

  private Cluster.Builder workers(String name) {
    Cluster.Builder cluster =
        Cluster.newBuilder()
            .setName(name)
            .setConnectTimeout(Durations.fromSeconds(2))
            .setCircuitBreakers(circuitBreakers());
    switch (delivery) {
      case STATIC ->
          cluster
              .setType(Cluster.DiscoveryType.STATIC)
              .setLoadAssignment(
                  assignment(name, options.workers().stream().map(FleetMember::healthy).toList()));
      case XDS ->
          cluster
              .setType(Cluster.DiscoveryType.EDS)
              .getEdsClusterConfigBuilder()
              .setEdsConfig(XdsBootstrap.overAds());
    }
    HttpProtocolOptions.Builder http = HttpProtocolOptions.newBuilder();
    http.getExplicitHttpConfigBuilder().getHttpProtocolOptionsBuilder();
    http.getCommonHttpProtocolOptionsBuilder()
        .setIdleTimeout(Durations.fromSeconds(WORKER_KEEP_ALIVE_SECONDS));
    cluster.putTypedExtensionProtocolOptions(HTTP_OPTIONS, Any.pack(http.build()));
    // A worker whose host vanished sends nothing more, not even a reset, and a long prefill looks
    // just like that.
    var keepAlive = cluster.getUpstreamConnectionOptionsBuilder().getTcpKeepaliveBuilder();
    keepAlive.getKeepaliveTimeBuilder().setValue(30);
    keepAlive.getKeepaliveIntervalBuilder().setValue(10);
    keepAlive.getKeepaliveProbesBuilder().setValue(3);
    if (options.checkWorkerHealth()) {
      // Envoy would go on using a worker that has left until it fails its probe.
      cluster.addHealthChecks(workerHealth()).setIgnoreHealthOnHostRemoval(true);
    }
    return cluster;
  }

  private LoadBalancingPolicy fallback() {
    return switch (options.fallback()) {
      case LEAST_REQUEST ->
          policy("envoy.load_balancing_policies.least_request", LeastRequest.getDefaultInstance());
      case ROUND_ROBIN -> roundRobin();
    };
  }

  private static LoadBalancingPolicy roundRobin() {
    return policy("envoy.load_balancing_policies.round_robin", RoundRobin.getDefaultInstance());
  }

  private static LoadBalancingPolicy policy(String name, Message config) {
    LoadBalancingPolicy.Builder policy = LoadBalancingPolicy.newBuilder();
    policy
        .addPoliciesBuilder()
        .getTypedExtensionConfigBuilder()
        .setName(name)
        .setTypedConfig(Any.pack(config));
    return policy.build();
  }

  private static CircuitBreakers circuitBreakers() {
    CircuitBreakers.Builder breakers = CircuitBreakers.newBuilder();
    CircuitBreakers.Thresholds.Builder thresholds = breakers.addThresholdsBuilder();
    thresholds.getMaxConnectionsBuilder().setValue(MAX_STREAMS);
    thresholds.getMaxPendingRequestsBuilder().setValue(MAX_STREAMS);
    thresholds.getMaxRequestsBuilder().setValue(MAX_STREAMS);
    thresholds.getMaxRetriesBuilder().setValue(MAX_RETRIES);
    return breakers.build();
  }

  private static HealthCheck.Builder everyTwoSeconds() {
    HealthCheck.Builder check =
        HealthCheck.newBuilder()
            .setTimeout(Durations.fromSeconds(2))
            .setInterval(Durations.fromSeconds(2))
            .setNoTrafficInterval(Durations.fromSeconds(2));
    check.getUnhealthyThresholdBuilder().setValue(2);
    check.getHealthyThresholdBuilder().setValue(1);
    return check;
  }

  private static HealthCheck grpcHealth() {
    HealthCheck.Builder check = everyTwoSeconds();
    check.getGrpcHealthCheckBuilder().setServiceName(EXT_PROC_SERVICE);
    return check.build();
  }

  private static HealthCheck workerHealth() {
    HealthCheck.Builder check = everyTwoSeconds();
    check.getHttpHealthCheckBuilder().setPath("/health");
    return check.build();
  }

  private static ClusterLoadAssignment one(String cluster, Endpoint endpoint) {
    return assignment(cluster, List.of(FleetMember.healthy(endpoint)));
  }

  private static ClusterLoadAssignment assignment(String cluster, List<FleetMember> members) {
    ClusterLoadAssignment.Builder assignment =
        ClusterLoadAssignment.newBuilder().setClusterName(cluster);
    LocalityLbEndpoints.Builder locality = assignment.addEndpointsBuilder();
    for (FleetMember member : members) {
      locality
          .addLbEndpointsBuilder()
          .setHealthStatus(status(member.standing()))
          .getEndpointBuilder()
          .setAddress(Addresses.socket(member.endpoint()));
    }
    return assignment.build();
  }

  /** Unknown and healthy are the same to Envoy; the former is not written out. */
  private static HealthStatus status(FleetMember.Standing standing) {
    return switch (standing) {
      case HEALTHY -> HealthStatus.UNKNOWN;
      case DEGRADED -> HealthStatus.DEGRADED;
      case UNHEALTHY -> HealthStatus.UNHEALTHY;
      case DRAINING -> HealthStatus.DRAINING;
    };
  }

  private static void secure(Cluster.Builder cluster, ExtProcTls tls) {
    UpstreamTlsContext.Builder context = UpstreamTlsContext.newBuilder().setSni(tls.serverName());
    var common = context.getCommonTlsContextBuilder().addAlpnProtocols("h2");
    var validation = common.getValidationContextBuilder();
    validation.getTrustedCaBuilder().setFilename(tls.trustedCaFile());
    SubjectAltNameMatcher.Builder name = validation.addMatchTypedSubjectAltNamesBuilder();
    name.setSanType(SubjectAltNameMatcher.SanType.DNS)
        .getMatcherBuilder()
        .setExact(tls.serverName());
    cluster
        .getTransportSocketBuilder()
        .setName("envoy.transport_sockets.tls")
        .setTypedConfig(Any.pack(context.build()));
  }
}
