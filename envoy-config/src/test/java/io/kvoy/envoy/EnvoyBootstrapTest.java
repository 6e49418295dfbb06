// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import com.google.protobuf.InvalidProtocolBufferException;
import io.envoyproxy.envoy.config.cluster.v3.Cluster;
import io.envoyproxy.envoy.config.listener.v3.Listener;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.HeaderSendMode;
import io.envoyproxy.envoy.extensions.filters.http.header_mutation.v3.HeaderMutation;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter;
import io.kvoy.scoring.fleet.Endpoint;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class EnvoyBootstrapTest {
  private static final List<Endpoint> WORKERS =
      List.of(new Endpoint("10.0.0.1", 8000), new Endpoint("10.0.0.2", 8000));

  @Test
  void clientCannotNameTheEndpointBeforeKvoyDoes() throws Exception {
    HttpConnectionManager http = http(builder().build(), 0);

    assertThat(http.getHttpFiltersList())
        .extracting(HttpFilter::getName)
        .containsExactly(
            "envoy.filters.http.header_mutation",
            "envoy.filters.http.ext_proc",
            "envoy.filters.http.router");
    assertThat(removedHeaders(http))
        .containsAll(ControlHeaders.STEERING)
        .containsAll(ControlHeaders.IDENTITY);
  }

  @Test
  void trustedProxyMayStateWhoAsksButNotWhereToGo() throws Exception {
    HttpConnectionManager http = http(builder().trustIdentityHeaders(true).build(), 0);

    assertThat(removedHeaders(http)).containsExactlyElementsOf(ControlHeaders.STEERING);
  }

  @Test
  void plainDoorStripsControlHeadersAndKnowsNoKvoy() throws Exception {
    EnvoyBootstrap bootstrap = builder().plainListen(new Endpoint("127.0.0.1", 8081)).build();

    HttpConnectionManager http = http(bootstrap, 1);

    assertThat(http.getHttpFiltersList())
        .extracting(HttpFilter::getName)
        .containsExactly("envoy.filters.http.header_mutation", "envoy.filters.http.router");
    assertThat(removedHeaders(http)).containsAll(ControlHeaders.STEERING);
    assertThat(http.getRouteConfig().getVirtualHosts(0).getRoutes(0).getRoute().getCluster())
        .isEqualTo(EnvoyBootstrap.MODEL_SERVERS_PLAIN);
  }

  @ParameterizedTest
  @EnumSource
  void trailersAreSentWhereverABodyIsFullDuplex(ResponseBodyMode responseBody) throws Exception {
    for (RequestBodyMode requestBody : RequestBodyMode.values()) {
      ProcessingMode mode =
          extProc(builder().requestBody(requestBody).responseBody(responseBody).build())
              .getProcessingMode();

      assertThat(mode.getRequestBodyMode().name()).isEqualTo(requestBody.name());
      boolean elsewhere =
          responseBody == ResponseBodyMode.COPIED || responseBody == ResponseBodyMode.REPORTED;
      assertThat(mode.getResponseBodyMode().name())
          .isEqualTo(elsewhere ? "NONE" : responseBody.name());
      // Also where a body is buffered: with trailers and no body nothing else would come.
      assertThat(mode.getRequestTrailerMode() == HeaderSendMode.SEND)
          .isEqualTo(requestBody != RequestBodyMode.NONE);
      assertThat(mode.getResponseTrailerMode() == HeaderSendMode.SEND)
          .isEqualTo(mode.getResponseBodyMode() == BodySendMode.FULL_DUPLEX_STREAMED);
    }
  }

  @Test
  void bufferedModeMakesRoomForTheLargestBody() {
    Listener listener =
        builder()
            .requestBody(RequestBodyMode.BUFFERED)
            .bufferedBodyLimitBytes(5_000_000)
            .build()
            .toProto()
            .getStaticResources()
            .getListeners(0);

    assertThat(listener.getPerConnectionBufferLimitBytes().getValue()).isEqualTo(5_000_000);
  }

  @Test
  void pickerThatIsDownIsNeverPanickedInto() {
    Cluster picker = cluster(builder().build(), EnvoyBootstrap.PICKER);

    assertThat(picker.getCommonLbConfig().hasHealthyPanicThreshold()).isTrue();
    assertThat(picker.getCommonLbConfig().getHealthyPanicThreshold().getValue()).isZero();
    assertThat(picker.getHealthChecks(0).getGrpcHealthCheck().getServiceName())
        .isEqualTo("envoy.service.ext_proc.v3.ExternalProcessor");
  }

  @Test
  void pickerGivenByNameIsResolvedByEnvoy() {
    Cluster picker =
        cluster(builder().extProc(new Endpoint("kvoy.svc", 9002)).build(), EnvoyBootstrap.PICKER);

    assertThat(picker.getType()).isEqualTo(Cluster.DiscoveryType.STRICT_DNS);
  }

  @Test
  void tlsToThePickerChecksItsName() throws Exception {
    Cluster picker =
        cluster(
            builder().extProcTls(new ExtProcTls("/etc/ca.pem", "kvoy.example")).build(),
            EnvoyBootstrap.PICKER);

    assertThat(picker.getTransportSocket().getName()).isEqualTo("envoy.transport_sockets.tls");
    assertThat(builder().extProcTls(new ExtProcTls("/etc/ca.pem", "kvoy.example")).build().toJson())
        .contains("\"trusted_ca\"", "\"exact\": \"kvoy.example\"");
  }

  @Test
  void workerGivenByNameIsRefusedBecauseAddressesAreCompared() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> builder().workers(List.of(new Endpoint("vllm-0.local", 8000))).build())
        .withMessageContaining("vllm-0.local:8000")
        .withMessageContaining("IP address");
  }

  @Test
  void emptyOrDoubledFleetIsRefused() {
    assertThatIllegalArgumentException().isThrownBy(() -> builder().workers(List.of()).build());
    assertThatIllegalArgumentException()
        .isThrownBy(() -> builder().workers(List.of(WORKERS.get(0), WORKERS.get(0))).build())
        .withMessageContaining("10.0.0.1:8000");
  }

  @Test
  void zeroIdleTimeoutIsRefusedSinceEnvoyTakesItForNever() {
    assertThatIllegalArgumentException()
        .isThrownBy(() -> builder().idleTimeout(Duration.ZERO).build())
        .withMessageContaining("idleTimeout");
  }

  @Test
  void accessLogNamesNoHeaderThatAClientChose() {
    String json = builder().accessLogPath("/dev/stdout").build().toJson();

    assertThat(json).contains("%UPSTREAM_HOST%").doesNotContain("%REQ(AUTHORIZATION)%", ":PATH");
  }

  private static EnvoyBootstrap.Builder builder() {
    return EnvoyBootstrap.builder().workers(WORKERS);
  }

  private static HttpConnectionManager http(EnvoyBootstrap bootstrap, int listener)
      throws InvalidProtocolBufferException {
    return bootstrap
        .toProto()
        .getStaticResources()
        .getListeners(listener)
        .getFilterChains(0)
        .getFilters(0)
        .getTypedConfig()
        .unpack(HttpConnectionManager.class);
  }

  private static List<String> removedHeaders(HttpConnectionManager http)
      throws InvalidProtocolBufferException {
    return http
        .getHttpFilters(0)
        .getTypedConfig()
        .unpack(HeaderMutation.class)
        .getMutations()
        .getRequestMutationsList()
        .stream()
        .map(io.envoyproxy.envoy.config.common.mutation_rules.v3.HeaderMutation::getRemove)
        .toList();
  }

  private static ExternalProcessor extProc(EnvoyBootstrap bootstrap)
      throws InvalidProtocolBufferException {
    return http(bootstrap, 0).getHttpFilters(1).getTypedConfig().unpack(ExternalProcessor.class);
  }

  private static Cluster cluster(EnvoyBootstrap bootstrap, String name) {
    return bootstrap.toProto().getStaticResources().getClustersList().stream()
        .filter(cluster -> cluster.getName().equals(name))
        .findFirst()
        .orElseThrow();
  }
}
