// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.google.protobuf.Any;
import com.google.protobuf.BoolValue;
import com.google.protobuf.Message;
import com.google.protobuf.UInt32Value;
import com.google.protobuf.util.Durations;
import io.envoyproxy.envoy.config.accesslog.v3.AccessLog;
import io.envoyproxy.envoy.config.listener.v3.Listener;
import io.envoyproxy.envoy.config.overload.v3.OverloadManager;
import io.envoyproxy.envoy.config.route.v3.RetryPolicy;
import io.envoyproxy.envoy.config.route.v3.Route;
import io.envoyproxy.envoy.config.route.v3.RouteConfiguration;
import io.envoyproxy.envoy.extensions.access_loggers.file.v3.FileAccessLog;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.HeaderSendMode;
import io.envoyproxy.envoy.extensions.filters.http.header_mutation.v3.HeaderMutation;
import io.envoyproxy.envoy.extensions.filters.http.header_mutation.v3.Mutations;
import io.envoyproxy.envoy.extensions.filters.http.router.v3.Router;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter;
import io.envoyproxy.envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig;
import io.envoyproxy.envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate;
import io.kvoy.scoring.fleet.Endpoint;

/**
 * The listeners of an {@link EnvoyBootstrap}: the door through Kvoy and, when asked for, the plain
 * one.
 */
final class Listeners {
  /**
   * Client connections that one Envoy takes before it refuses more; without a limit it takes them
   * until it dies.
   */
  private static final long MAX_CLIENT_CONNECTIONS = 50_000;

  private final EnvoyBootstrap options;

  Listeners(EnvoyBootstrap options) {
    this.options = options;
  }

  Listener picked() {
    return listener("inference", options.listen(), EnvoyBootstrap.MODEL_SERVERS, true);
  }

  Listener plain(Endpoint endpoint) {
    return listener("plain", endpoint, EnvoyBootstrap.MODEL_SERVERS_PLAIN, false);
  }

  OverloadManager connectionLimit() {
    OverloadManager.Builder manager = OverloadManager.newBuilder();
    manager
        .addResourceMonitorsBuilder()
        .setName("envoy.resource_monitors.global_downstream_max_connections")
        .setTypedConfig(
            Any.pack(
                DownstreamConnectionsConfig.newBuilder()
                    .setMaxActiveDownstreamConnections(MAX_CLIENT_CONNECTIONS)
                    .build()));
    return manager.build();
  }

  private Listener listener(String name, Endpoint endpoint, String cluster, boolean throughKvoy) {
    HttpConnectionManager.Builder http =
        HttpConnectionManager.newBuilder()
            .setStatPrefix(name)
            // The peer's address is the client's: x-envoy-* control headers from outside are
            // dropped.
            .setUseRemoteAddress(BoolValue.of(true))
            .setNormalizePath(BoolValue.of(true))
            .setRequestHeadersTimeout(Durations.fromSeconds(10))
            .setStreamIdleTimeout(EnvoyBootstrap.proto(options.idleTimeout()))
            .setRouteConfig(routes(name, cluster));
    http.addHttpFilters(filter("envoy.filters.http.header_mutation", withoutControlHeaders()));
    if (throughKvoy) {
      http.addHttpFilters(filter("envoy.filters.http.ext_proc", extProc()));
    }
    http.addHttpFilters(
        filter(
            "envoy.filters.http.router",
            Router.newBuilder().setSuppressEnvoyHeaders(true).build()));
    options.accessLogPath().ifPresent(path -> http.addAccessLog(accessLog(path)));

    Listener.Builder listener =
        Listener.newBuilder()
            .setName(name)
            .setAddress(Addresses.socket(endpoint))
            .setPerConnectionBufferLimitBytes(UInt32Value.of(connectionBufferBytes(throughKvoy)));
    listener
        .addFilterChainsBuilder()
        .addFiltersBuilder()
        .setName("envoy.filters.network.http_connection_manager")
        .setTypedConfig(Any.pack(http.build()));
    return listener.build();
  }

  /**
   * In BUFFERED mode Envoy answers 413 to a body that does not fit here; otherwise it bounds what a
   * retry can repeat.
   */
  private int connectionBufferBytes(boolean throughKvoy) {
    return throughKvoy && options.requestBody() == RequestBodyMode.BUFFERED
        ? Math.max(options.bufferedBodyLimitBytes(), options.retryBufferBytes())
        : options.retryBufferBytes();
  }

  private RouteConfiguration routes(String name, String cluster) {
    Route.Builder route = Route.newBuilder();
    route.getMatchBuilder().setPrefix("/");
    route
        .getRouteBuilder()
        .setCluster(cluster)
        // Envoy's default of 15 s for the whole answer would cut generations.
        .setTimeout(Durations.ZERO)
        .setIdleTimeout(EnvoyBootstrap.proto(options.idleTimeout()))
        .setRetryPolicy(retry());
    RouteConfiguration.Builder routes = RouteConfiguration.newBuilder().setName(name);
    routes.addVirtualHostsBuilder().setName(name).addDomains("*").addRoutes(route);
    return routes.build();
  }

  /** Only what cannot have started a generation is repeated, and on another worker. */
  private static RetryPolicy retry() {
    RetryPolicy.Builder retry =
        RetryPolicy.newBuilder()
            .setRetryOn("connect-failure,refused-stream,reset-before-request")
            .setNumRetries(UInt32Value.of(2))
            .setHostSelectionRetryMaxAttempts(5);
    retry
        .addRetryHostPredicateBuilder()
        .setName("envoy.retry_host_predicates.previous_hosts")
        .setTypedConfig(Any.pack(PreviousHostsPredicate.getDefaultInstance()));
    return retry.build();
  }

  private HeaderMutation withoutControlHeaders() {
    Mutations.Builder mutations = Mutations.newBuilder();
    for (String name : ControlHeaders.STEERING) {
      mutations.addRequestMutationsBuilder().setRemove(name);
    }
    if (!options.trustIdentityHeaders()) {
      for (String name : ControlHeaders.IDENTITY) {
        mutations.addRequestMutationsBuilder().setRemove(name);
      }
    }
    return HeaderMutation.newBuilder().setMutations(mutations).build();
  }

  private ExternalProcessor extProc() {
    ExternalProcessor.Builder filter =
        ExternalProcessor.newBuilder()
            .setFailureModeAllow(options.failOpen())
            .setProcessingMode(processingMode())
            .setMessageTimeout(EnvoyBootstrap.proto(options.messageTimeout()))
            // Who served, from any kind of cluster; the metadata below says it too where
            // override_host is in use.
            .addResponseAttributes("upstream.address");
    filter.getGrpcServiceBuilder().getEnvoyGrpcBuilder().setClusterName(EnvoyBootstrap.PICKER);
    filter
        .getMetadataOptionsBuilder()
        .getForwardingNamespacesBuilder()
        .addUntyped(ControlHeaders.METADATA_NAMESPACE)
        .addUntyped(ControlHeaders.SUBSET_NAMESPACE);
    // Without this Envoy drops the picked endpoint from Kvoy's answer and balances the load itself.
    filter
        .getMetadataOptionsBuilder()
        .getReceivingNamespacesBuilder()
        .addUntyped(ControlHeaders.METADATA_NAMESPACE);
    return filter.build();
  }

  /** Envoy rejects a full duplex body whose trailers are not sent too. */
  private ProcessingMode processingMode() {
    ProcessingMode.Builder mode =
        ProcessingMode.newBuilder()
            .setRequestHeaderMode(HeaderSendMode.SEND)
            .setResponseHeaderMode(HeaderSendMode.SEND);
    switch (options.requestBody()) {
      case FULL_DUPLEX_STREAMED ->
          mode.setRequestBodyMode(BodySendMode.FULL_DUPLEX_STREAMED)
              .setRequestTrailerMode(HeaderSendMode.SEND);
      case BUFFERED ->
          mode.setRequestBodyMode(BodySendMode.BUFFERED).setRequestTrailerMode(HeaderSendMode.SKIP);
    }
    switch (options.responseBody()) {
      case FULL_DUPLEX_STREAMED ->
          mode.setResponseBodyMode(BodySendMode.FULL_DUPLEX_STREAMED)
              .setResponseTrailerMode(HeaderSendMode.SEND);
      case STREAMED ->
          mode.setResponseBodyMode(BodySendMode.STREAMED)
              .setResponseTrailerMode(HeaderSendMode.SKIP);
      case NONE ->
          mode.setResponseBodyMode(BodySendMode.NONE).setResponseTrailerMode(HeaderSendMode.SKIP);
    }
    return mode.build();
  }

  /** Sizes, times and who served; no header that a client chose, no path beyond the API's own. */
  private static AccessLog accessLog(String path) {
    FileAccessLog.Builder log = FileAccessLog.newBuilder().setPath(path);
    var fields = log.getLogFormatBuilder().getJsonFormatBuilder();
    record Field(String name, String operator) {}
    Field[] wanted = {
      new Field("time", "%START_TIME%"),
      new Field("request_id", "%REQ(X-REQUEST-ID)%"),
      new Field("method", "%REQ(:METHOD)%"),
      new Field("status", "%RESPONSE_CODE%"),
      new Field("details", "%RESPONSE_CODE_DETAILS%"),
      new Field("flags", "%RESPONSE_FLAGS%"),
      new Field("upstream", "%UPSTREAM_HOST%"),
      new Field("attempts", "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"),
      new Field("request_bytes", "%BYTES_RECEIVED%"),
      new Field("response_bytes", "%BYTES_SENT%"),
      new Field("first_byte_ms", "%RESPONSE_DURATION%"),
      new Field("total_ms", "%DURATION%"),
    };
    for (Field field : wanted) {
      fields.putFields(
          field.name(),
          com.google.protobuf.Value.newBuilder().setStringValue(field.operator()).build());
    }
    return AccessLog.newBuilder()
        .setName("envoy.access_loggers.file")
        .setTypedConfig(Any.pack(log.build()))
        .build();
  }

  private static HttpFilter filter(String name, Message config) {
    return HttpFilter.newBuilder().setName(name).setTypedConfig(Any.pack(config)).build();
  }
}
