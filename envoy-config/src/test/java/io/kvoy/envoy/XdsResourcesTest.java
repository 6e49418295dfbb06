// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import io.envoyproxy.envoy.config.bootstrap.v3.Bootstrap;
import io.envoyproxy.envoy.config.cluster.v3.Cluster;
import io.envoyproxy.envoy.config.core.v3.HealthStatus;
import io.envoyproxy.envoy.config.endpoint.v3.ClusterLoadAssignment;
import io.envoyproxy.envoy.config.endpoint.v3.LbEndpoint;
import io.envoyproxy.envoy.config.listener.v3.Listener;
import io.envoyproxy.envoy.config.route.v3.RouteConfiguration;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager;
import io.kvoy.envoy.FleetMember.Standing;
import io.kvoy.scoring.fleet.Endpoint;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class XdsResourcesTest {
  static XdsResources resources(Samples sample) {
    EnvoyBootstrap bootstrap = sample.bootstrap();
    return XdsResources.of(
        bootstrap, bootstrap.workers().stream().map(FleetMember::healthy).toList());
  }

  // Put together, what comes over xDS is the static configuration, to the last field.
  @ParameterizedTest
  @EnumSource
  void staticConfigurationAndXdsCannotDiffer(Samples sample) throws Exception {
    XdsResources resources = resources(sample);
    Bootstrap whole = sample.bootstrap().toProto();
    List<Cluster> clusters = new ArrayList<>();
    for (Cluster cluster : resources.clusters()) {
      clusters.add(
          cluster.getType() == Cluster.DiscoveryType.EDS
              ? cluster.toBuilder()
                  .clearEdsClusterConfig()
                  .setType(Cluster.DiscoveryType.STATIC)
                  .setLoadAssignment(assignment(resources, cluster.getName()))
                  .build()
              : cluster);
    }
    List<Listener> listeners = new ArrayList<>();
    for (Listener listener : resources.listeners()) {
      listeners.add(withRoutes(listener, resources.routes()));
    }

    assertThat(clusters).isEqualTo(whole.getStaticResources().getClustersList());
    assertThat(listeners).isEqualTo(whole.getStaticResources().getListenersList());
  }

  private static ClusterLoadAssignment assignment(XdsResources resources, String cluster) {
    return resources.endpoints().stream()
        .filter(assignment -> assignment.getClusterName().equals(cluster))
        .findFirst()
        .orElseThrow();
  }

  private static Listener withRoutes(Listener listener, List<RouteConfiguration> routes)
      throws InvalidProtocolBufferException {
    Listener.Builder builder = listener.toBuilder();
    var filter = builder.getFilterChainsBuilder(0).getFiltersBuilder(0);
    HttpConnectionManager.Builder http =
        filter.getTypedConfig().unpack(HttpConnectionManager.class).toBuilder();
    String name = http.getRds().getRouteConfigName();
    http.clearRds()
        .setRouteConfig(
            routes.stream().filter(r -> r.getName().equals(name)).findFirst().orElseThrow());
    filter.setTypedConfig(Any.pack(http.build()));
    return builder.build();
  }

  @Test
  void orderOfTheFleetChangesNothing() {
    List<FleetMember> fleet = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      fleet.add(new FleetMember(new Endpoint("10.0.0." + i, 8000), Standing.HEALTHY));
    }
    EnvoyBootstrap options = EnvoyBootstrap.builder().buildForXds();
    XdsResources one = XdsResources.of(options, fleet);
    Collections.reverse(fleet);

    assertThat(XdsResources.of(options, fleet)).isEqualTo(one);
  }

  @Test
  void standingBecomesTheHealthThatTheFallbackGoesBy() {
    List<FleetMember> fleet = new ArrayList<>();
    int last = 0;
    for (Standing standing : Standing.values()) {
      fleet.add(new FleetMember(new Endpoint("10.0.0." + last++, 8000), standing));
    }
    // The same address in another pool, seen better there.
    fleet.add(new FleetMember(new Endpoint("10.0.0.3", 8000), Standing.DRAINING));

    XdsResources made = XdsResources.of(EnvoyBootstrap.builder().buildForXds(), fleet);

    assertThat(made.endpoints().getFirst().getEndpoints(0).getLbEndpointsList())
        .extracting(LbEndpoint::getHealthStatus)
        .containsExactly(
            HealthStatus.UNKNOWN,
            HealthStatus.DEGRADED,
            HealthStatus.DRAINING,
            HealthStatus.DRAINING);
  }

  @Test
  void workerByNameIsRefused() {
    List<FleetMember> fleet =
        List.of(new FleetMember(new Endpoint("vllm-0", 8000), Standing.HEALTHY));

    assertThatIllegalArgumentException()
        .isThrownBy(() -> XdsResources.of(EnvoyBootstrap.builder().buildForXds(), fleet))
        .withMessageContaining("IP address");
  }
}
