// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.google.protobuf.Any;
import com.google.protobuf.BoolValue;
import com.google.protobuf.Message;
import com.google.protobuf.UInt32Value;
import com.google.protobuf.util.Durations;
import io.envoyproxy.envoy.config.accesslog.v3.AccessLog;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
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
import java.util.ArrayList;
import java.util.List;

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

  private static final int MAX_HEADERS = 256;
  private static final String PICKED = "inference";
  private static final String PLAIN = "plain";

  private final EnvoyBootstrap options;
  private final Delivery delivery;

  Listeners(EnvoyBootstrap options, Delivery delivery) {
    this.options = options;
    this.delivery = delivery;
  }

  /** Every listener that the options ask for. */
  List<Listener> all() {
    List<Listener> all = new ArrayList<>();
    all.add(picked());
    options.plainListen().ifPresent(endpoint -> all.add(plain(endpoint)));
    return all;
  }

  /** The routes of {@link #all}, by the listener's name. */
  List<RouteConfiguration> routes() {
    List<RouteConfiguration> all = new ArrayList<>();
    all.add(routes(PICKED, EnvoyBootstrap.MODEL_SERVERS, true));
    if (options.plainListen().isPresent()) {
      all.add(routes(PLAIN, EnvoyBootstrap.MODEL_SERVERS_PLAIN, false));
    }
    return all;
  }

  private Listener picked() {
    return listener(PICKED, options.listen(), EnvoyBootstrap.MODEL_SERVERS, true);
  }

  private Listener plain(Endpoint endpoint) {
    return listener(PLAIN, endpoint, EnvoyBootstrap.MODEL_SERVERS_PLAIN, false);
  }

  static OverloadManager connectionLimit() {
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
            .setStreamIdleTimeout(EnvoyBootstrap.proto(options.idleTimeout()));
    switch (delivery) {
      case STATIC -> http.setRouteConfig(routes(name, cluster, throughKvoy));
      case XDS ->
          http.getRdsBuilder().setRouteConfigName(name).setConfigSource(XdsBootstrap.overAds());
    }
    // Agent clients and proxies in front add many; the default of 100 is soon reached.
    http.getCommonHttpProtocolOptionsBuilder().getMaxHeadersCountBuilder().setValue(MAX_HEADERS);
    if (throughKvoy && buffersBodies()) {
      // Envoy buffers no more of an HTTP/2 request than its window, 16 MiB if not told otherwise.
      var http2 = http.getHttp2ProtocolOptionsBuilder();
      http2.getInitialStreamWindowSizeBuilder().setValue(connectionBufferBytes(true));
      http2.getInitialConnectionWindowSizeBuilder().setValue(connectionBufferBytes(true));
    }
    http.addHttpFilters(filter("envoy.filters.http.header_mutation", withoutControlHeaders()));
    if (throughKvoy) {
      http.setLocalReplyConfig(LocalReplies.config());
      http.addHttpFilters(filter("envoy.filters.http.ext_proc", extProc()));
      watchAnswers(http);
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

  private void watchAnswers(HttpConnectionManager.Builder http) {
    switch (options.responseBody()) {
      case COPIED -> http.addHttpFilters(filter("kvoy.answer_copy", answerCopy()));
      case REPORTED -> {
        if (options.reportUsage()) {
          http.addHttpFilters(AnswerReports.usageOfStreams());
        }
        http.addAccessLog(AnswerReports.accessLog(options.reportUsage()));
        http.getAccessLogOptionsBuilder()
            .setAccessLogFlushInterval(EnvoyBootstrap.proto(options.firstTokenNotice()));
      }
      case FULL_DUPLEX_STREAMED, STREAMED, NONE -> {}
    }
  }

  /**
   * A second filter, whose stream is answered nothing. It begins with the request, so that its end
   * tells of a client that left before there was an answer.
   */
  private ExternalProcessor answerCopy() {
    ExternalProcessor.Builder filter =
        ExternalProcessor.newBuilder()
            .setObservabilityMode(true)
            .setFailureModeAllow(true)
            // Nothing comes back, so there is nothing to wait for at the end.
            .setDeferredCloseTimeout(EnvoyBootstrap.seconds(0.1))
            .addResponseAttributes("upstream.address")
            .addResponseAttributes("response.code_details")
            .setProcessingMode(
                ProcessingMode.newBuilder()
                    .setRequestHeaderMode(HeaderSendMode.SEND)
                    .setResponseHeaderMode(HeaderSendMode.SEND)
                    .setResponseBodyMode(BodySendMode.STREAMED)
                    .setResponseTrailerMode(HeaderSendMode.SEND));
    filter
        .getGrpcServiceBuilder()
        .addInitialMetadata(answerWay(AnswerReports.COPY))
        .getEnvoyGrpcBuilder()
        .setClusterName(EnvoyBootstrap.PICKER);
    filter
        .getMetadataOptionsBuilder()
        .getForwardingNamespacesBuilder()
        .addUntyped(AnswerReports.NAMESPACE)
        .addUntyped(ControlHeaders.METADATA_NAMESPACE);
    return filter.build();
  }

  private static void answersElsewhere(ExternalProcessor.Builder filter, String way) {
    filter.getGrpcServiceBuilder().addInitialMetadata(answerWay(way));
    filter
        .getMetadataOptionsBuilder()
        .getReceivingNamespacesBuilder()
        .addUntyped(AnswerReports.NAMESPACE);
  }

  private static HeaderValue answerWay(String way) {
    return HeaderValue.newBuilder().setKey(AnswerReports.WAY_HEADER).setValue(way).build();
  }

  /**
   * In BUFFERED mode Envoy answers 413 to a body that does not fit here; otherwise it bounds what a
   * retry can repeat.
   */
  private int connectionBufferBytes(boolean throughKvoy) {
    return throughKvoy && buffersBodies()
        ? Math.max(options.bufferedBodyLimitBytes(), options.retryBufferBytes())
        : options.retryBufferBytes();
  }

  private boolean buffersBodies() {
    return options.requestBody() == RequestBodyMode.BUFFERED
        || options.requestBody() == RequestBodyMode.BUFFERED_PARTIAL;
  }

  /**
   * Envoy 1.40 keeps what it may have to repeat in the buffer from which ext_proc goes on after
   * request trailers: where bodies are streamed through the filter, a request with trailers then
   * reaches the worker with its body twice. Buffered bodies are repeated whole and once.
   */
  private boolean mayRetryThroughKvoy() {
    return switch (options.requestBody()) {
      case FULL_DUPLEX_STREAMED, STREAMED, BUFFERED_PARTIAL -> false;
      case BUFFERED, NONE -> true;
    };
  }

  private RouteConfiguration routes(String name, String cluster, boolean throughKvoy) {
    Route.Builder route = Route.newBuilder();
    route.getMatchBuilder().setPrefix("/");
    route
        .getRouteBuilder()
        .setCluster(cluster)
        // Envoy's default of 15 s for the whole answer would cut generations.
        .setTimeout(Durations.ZERO)
        .setIdleTimeout(EnvoyBootstrap.proto(options.idleTimeout()));
    if (!throughKvoy || mayRetryThroughKvoy()) {
      route.getRouteBuilder().setRetryPolicy(retry());
    }
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
            // Of an upgrade Kvoy waives the body: Envoy would buffer it up to an end that never
            // comes.
            .setAllowModeOverride(buffersBodies())
            // Who served, from any kind of cluster; the metadata below says it too where
            // override_host is in use. Both name the worker tried last when none answered; the
            // details tell that apart.
            .addResponseAttributes("upstream.address")
            .addResponseAttributes("response.code_details");
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
    switch (options.responseBody()) {
      case COPIED -> answersElsewhere(filter, AnswerReports.COPIED);
      case REPORTED -> answersElsewhere(filter, AnswerReports.REPORTED);
      case FULL_DUPLEX_STREAMED, STREAMED, NONE -> {}
    }
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
          // With trailers and no body at all Envoy sends nothing else after the headers.
          mode.setRequestBodyMode(BodySendMode.BUFFERED).setRequestTrailerMode(HeaderSendMode.SEND);
      case BUFFERED_PARTIAL ->
          mode.setRequestBodyMode(BodySendMode.BUFFERED_PARTIAL)
              .setRequestTrailerMode(HeaderSendMode.SEND);
      case STREAMED ->
          mode.setRequestBodyMode(BodySendMode.STREAMED).setRequestTrailerMode(HeaderSendMode.SEND);
      case NONE ->
          mode.setRequestBodyMode(BodySendMode.NONE).setRequestTrailerMode(HeaderSendMode.SKIP);
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
      case COPIED, REPORTED ->
          mode.setResponseHeaderMode(HeaderSendMode.SKIP)
              .setResponseBodyMode(BodySendMode.NONE)
              .setResponseTrailerMode(HeaderSendMode.SKIP);
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
