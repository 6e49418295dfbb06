// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.google.protobuf.util.Durations;
import io.envoyproxy.envoy.config.bootstrap.v3.Admin;
import io.envoyproxy.envoy.config.bootstrap.v3.Bootstrap;
import io.envoyproxy.envoy.config.core.v3.AggregatedConfigSource;
import io.envoyproxy.envoy.config.core.v3.ApiConfigSource;
import io.envoyproxy.envoy.config.core.v3.ApiVersion;
import io.envoyproxy.envoy.config.core.v3.ConfigSource;
import io.kvoy.scoring.fleet.Endpoint;
import java.util.Optional;

/**
 * The little that an Envoy must be told when it gets the rest from Kvoy: who it is, and where
 * Kvoy's xDS door is. What comes over that door is in {@link XdsResources}.
 *
 * @param admin Envoy's admin page, which can stop the proxy: keep it on loopback
 * @param xds Kvoy's xDS address; a name is resolved by Envoy
 * @param nodeId what Kvoy shows this Envoy as
 * @param protocol how changes are told
 * @param tls TLS to Kvoy's xDS door; plaintext when empty
 */
public record XdsBootstrap(
    Endpoint admin, Endpoint xds, String nodeId, Protocol protocol, Optional<ExtProcTls> tls) {

  /** The two variants of xDS. */
  public enum Protocol {
    /** Every answer holds all resources of its type. */
    STATE_OF_THE_WORLD,
    /** Answers hold what has changed. */
    DELTA
  }

  /** Name of the cluster that is Kvoy's xDS door. */
  public static final String CONTROL = "kvoy_xds";

  private static final int MAX_NODE_ID_CHARS = 128;

  public XdsBootstrap {
    if (!Addresses.isIpLiteral(admin.host())) {
      throw new IllegalArgumentException("admin must be an IP address and port, was " + admin);
    }
    if (!nodeId.matches("[A-Za-z0-9._:/~-]{1," + MAX_NODE_ID_CHARS + "}")) {
      throw new IllegalArgumentException(
          "node id must be 1 to "
              + MAX_NODE_ID_CHARS
              + " letters, digits and any of . _ : / ~ -, was '"
              + nodeId
              + "'");
    }
  }

  /** The configuration as Envoy's own message. */
  public Bootstrap toProto() {
    Bootstrap.Builder bootstrap = Bootstrap.newBuilder();
    bootstrap.getNodeBuilder().setId(nodeId).setCluster("kvoy");
    bootstrap.setAdmin(Admin.newBuilder().setAddress(Addresses.socket(admin)));
    ApiConfigSource.Builder ads =
        bootstrap
            .getDynamicResourcesBuilder()
            .setLdsConfig(overAds())
            .setCdsConfig(overAds())
            .getAdsConfigBuilder()
            .setApiType(
                switch (protocol) {
                  case STATE_OF_THE_WORLD -> ApiConfigSource.ApiType.GRPC;
                  case DELTA -> ApiConfigSource.ApiType.DELTA_GRPC;
                })
            .setTransportApiVersion(ApiVersion.V3)
            .setSetNodeOnFirstMessageOnly(true);
    // By itself Envoy waits up to 30 s between two attempts: too long after a restart of Kvoy.
    ads.addGrpcServicesBuilder()
        .getEnvoyGrpcBuilder()
        .setClusterName(CONTROL)
        .getRetryPolicyBuilder()
        .getRetryBackOffBuilder()
        .setBaseInterval(Durations.fromMillis(200))
        .setMaxInterval(Durations.fromSeconds(2));
    bootstrap.getStaticResourcesBuilder().addClusters(Clusters.control(CONTROL, xds, tls));
    bootstrap.setOverloadManager(Listeners.connectionLimit());
    return bootstrap.build();
  }

  /** The configuration as JSON that {@code envoy -c} reads. */
  public String toJson() {
    return EnvoyText.json(toProto());
  }

  /** The configuration as block-style YAML that {@code envoy -c} reads. */
  public String toYaml() {
    return EnvoyText.yaml(toProto());
  }

  /**
   * The source of everything that comes over the one ADS stream. Without a time limit for the first
   * answer: after it Envoy would open its listener without workers and answer 503.
   */
  static ConfigSource overAds() {
    return ConfigSource.newBuilder()
        .setAds(AggregatedConfigSource.getDefaultInstance())
        .setResourceApiVersion(ApiVersion.V3)
        .setInitialFetchTimeout(Durations.ZERO)
        .build();
  }
}
