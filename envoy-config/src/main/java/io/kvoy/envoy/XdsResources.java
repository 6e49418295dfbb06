// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.google.protobuf.MessageOrBuilder;
import io.envoyproxy.envoy.config.cluster.v3.Cluster;
import io.envoyproxy.envoy.config.endpoint.v3.ClusterLoadAssignment;
import io.envoyproxy.envoy.config.listener.v3.Listener;
import io.envoyproxy.envoy.config.route.v3.RouteConfiguration;
import io.kvoy.scoring.fleet.Endpoint;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * What an Envoy gets over xDS: the listeners and clusters of the static configuration, made by the
 * same code, with routes and endpoints apart so that each can change alone.
 *
 * <p>Each cluster's endpoints and each listener's routes are in here: no part refers to one that is
 * missing. Equal options and fleets, in whatever order, make equal resources.
 *
 * @param clusters answers to CDS
 * @param endpoints answers to EDS
 * @param listeners answers to LDS
 * @param routes answers to RDS
 */
public record XdsResources(
    List<Cluster> clusters,
    List<ClusterLoadAssignment> endpoints,
    List<Listener> listeners,
    List<RouteConfiguration> routes) {

  private static final Comparator<FleetMember> BY_ADDRESS =
      Comparator.comparing((FleetMember member) -> member.endpoint().host())
          .thenComparingInt(member -> member.endpoint().port());

  public XdsResources {
    clusters = List.copyOf(clusters);
    endpoints = List.copyOf(endpoints);
    listeners = List.copyOf(listeners);
    routes = List.copyOf(routes);
  }

  /**
   * Makes them.
   *
   * @param options everything but the workers; {@code workers} and {@code admin} are not looked at
   * @param fleet the workers; of an address that is there twice the better standing counts
   * @throws IllegalArgumentException when a worker is given by name
   */
  public static XdsResources of(EnvoyBootstrap options, List<FleetMember> fleet) {
    Map<Endpoint, FleetMember> byEndpoint = new HashMap<>();
    for (FleetMember member : fleet) {
      EnvoyBootstrap.requireWorkerAddress(member.endpoint());
      byEndpoint.merge(
          member.endpoint(),
          member,
          (one, other) -> one.standing().compareTo(other.standing()) <= 0 ? one : other);
    }
    List<FleetMember> members = byEndpoint.values().stream().sorted(BY_ADDRESS).toList();
    Listeners listeners = new Listeners(options, Delivery.XDS);
    Clusters clusters = new Clusters(options, Delivery.XDS);
    return new XdsResources(
        clusters.all(), clusters.endpoints(members), listeners.all(), listeners.routes());
  }

  /** All of it as JSON, for people and for review. */
  public String toJson() {
    return "{\n"
        + section("clusters", clusters)
        + ",\n"
        + section("endpoints", endpoints)
        + ",\n"
        + section("listeners", listeners)
        + ",\n"
        + section("routes", routes)
        + "\n}\n";
  }

  private static String section(String name, List<? extends MessageOrBuilder> messages) {
    return messages.stream()
        .map(message -> EnvoyText.json(message).stripTrailing())
        .collect(Collectors.joining(",\n", "\"" + name + "\": [", "]"));
  }
}
