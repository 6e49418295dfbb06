// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import com.google.protobuf.util.Durations;
import io.envoyproxy.envoy.config.bootstrap.v3.Admin;
import io.envoyproxy.envoy.config.bootstrap.v3.Bootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * A whole static configuration for one Envoy 1.40 in front of a fixed list of workers, with Kvoy as
 * endpoint picker.
 *
 * <p>The way of a request: listener, removal of {@link ControlHeaders}, ext_proc to Kvoy, router,
 * cluster {@value #MODEL_SERVERS}, whose {@code override_host} policy goes to the endpoint that
 * Kvoy named and falls back to {@link #fallback} when there is none. The cluster {@value #PICKER}
 * is Kvoy itself, health-checked, so that a Kvoy that is down is noticed before a request is lost
 * to it.
 *
 * @param listen where clients connect
 * @param extProc Kvoy's ext_proc address; a name is resolved by Envoy, an IP address is taken as is
 * @param admin Envoy's admin page, which can stop the proxy: keep it on loopback
 * @param workers what {@code override_host} may choose from; IP addresses, since it compares
 *     addresses as text
 * @param plainListen a second door to the same workers by round robin, past Kvoy, to compare with
 * @param fallback how to choose without Kvoy
 * @param requestBody how request bodies reach Kvoy
 * @param responseBody what Kvoy sees of responses
 * @param failOpen serve by {@code fallback} while Kvoy is down instead of answering 500
 * @param checkWorkerHealth probe {@code GET /health} of each worker, so that the fallback avoids
 *     dead ones; a pick is followed whatever the probe says
 * @param trustIdentityHeaders keep the headers of {@link ControlHeaders#IDENTITY} that arrive: only
 *     behind a proxy that has checked the caller and wrote them itself
 * @param idleTimeout ends a request on which nothing moved for so long: longer than the longest
 *     wait for a first token
 * @param messageTimeout ends the wait for one answer of Kvoy in {@link RequestBodyMode#BUFFERED};
 *     full duplex has no such guard in Envoy, there Kvoy keeps its own deadline
 * @param bufferedBodyLimitBytes largest request body in {@link RequestBodyMode#BUFFERED}
 * @param retryBufferBytes how much of a request Envoy keeps to repeat it on another worker when the
 *     first one refuses the connection; a longer request is not repeated. Also what one connection
 *     may hold in memory each way
 * @param extProcTls TLS to Kvoy; plaintext when empty
 * @param accessLogPath file for one JSON line per request, such as {@code /dev/stdout}; no log when
 *     empty
 */
public record EnvoyBootstrap(
    Endpoint listen,
    Endpoint extProc,
    Endpoint admin,
    List<Endpoint> workers,
    Optional<Endpoint> plainListen,
    FallbackPolicy fallback,
    RequestBodyMode requestBody,
    ResponseBodyMode responseBody,
    boolean failOpen,
    boolean checkWorkerHealth,
    boolean trustIdentityHeaders,
    Duration idleTimeout,
    Duration messageTimeout,
    int bufferedBodyLimitBytes,
    int retryBufferBytes,
    Optional<ExtProcTls> extProcTls,
    Optional<String> accessLogPath) {

  /** Name of the cluster with the workers behind {@code override_host}. */
  public static final String MODEL_SERVERS = "model_servers";

  /**
   * Name of the cluster with the same workers behind plain round robin, for {@link #plainListen}.
   */
  public static final String MODEL_SERVERS_PLAIN = "model_servers_plain";

  /** Name of the cluster that is Kvoy. */
  public static final String PICKER = "kvoy";

  public EnvoyBootstrap {
    workers = List.copyOf(workers);
    if (workers.isEmpty()) {
      throw new IllegalArgumentException("at least one worker is needed, got none");
    }
    Set<Endpoint> seen = new HashSet<>();
    for (Endpoint worker : workers) {
      if (!Addresses.isIpLiteral(worker.host())) {
        throw new IllegalArgumentException(
            "worker "
                + worker
                + " is given by name; give its IP address: Envoy finds the picked worker by comparing addresses");
      }
      if (!seen.add(worker)) {
        throw new IllegalArgumentException("worker " + worker + " is listed twice");
      }
    }
    requireIpLiteral("listen", listen);
    requireIpLiteral("admin", admin);
    plainListen.ifPresent(endpoint -> requireIpLiteral("plainListen", endpoint));
    requirePositive("idleTimeout", idleTimeout);
    requirePositive("messageTimeout", messageTimeout);
    if (bufferedBodyLimitBytes <= 0 || retryBufferBytes <= 0) {
      throw new IllegalArgumentException(
          "bufferedBodyLimitBytes and retryBufferBytes must be positive, were "
              + bufferedBodyLimitBytes
              + " and "
              + retryBufferBytes);
    }
  }

  /** A bootstrap with every option at its default, still without addresses. */
  public static Builder builder() {
    return new Builder();
  }

  /** The configuration as Envoy's own message. */
  public Bootstrap toProto() {
    Bootstrap.Builder bootstrap = Bootstrap.newBuilder();
    bootstrap.getNodeBuilder().setId("kvoy").setCluster("kvoy");
    bootstrap.setAdmin(Admin.newBuilder().setAddress(Addresses.socket(admin)));
    Listeners listeners = new Listeners(this);
    Clusters clusters = new Clusters(this);
    Bootstrap.StaticResources.Builder resources = bootstrap.getStaticResourcesBuilder();
    resources.addListeners(listeners.picked());
    plainListen.ifPresent(endpoint -> resources.addListeners(listeners.plain(endpoint)));
    resources.addClusters(clusters.modelServers()).addClusters(clusters.picker());
    if (plainListen.isPresent()) {
      resources.addClusters(clusters.plainModelServers());
    }
    bootstrap.setOverloadManager(listeners.connectionLimit());
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

  static com.google.protobuf.Duration proto(Duration duration) {
    return Durations.fromNanos(duration.toNanos());
  }

  private static void requireIpLiteral(String what, Endpoint endpoint) {
    if (!Addresses.isIpLiteral(endpoint.host())) {
      throw new IllegalArgumentException(what + " must be an IP address and port, was " + endpoint);
    }
  }

  private static void requirePositive(String what, Duration duration) {
    if (!duration.isPositive()) {
      throw new IllegalArgumentException(what + " must be positive, was " + duration);
    }
  }

  /** Collects options; not thread-safe. {@link #workers} is the only one without a default. */
  public static final class Builder {
    private Endpoint listen = new Endpoint("127.0.0.1", 8080);
    private Endpoint extProc = new Endpoint("127.0.0.1", 9002);
    private Endpoint admin = new Endpoint("127.0.0.1", 9901);
    private List<Endpoint> workers = List.of();
    private Optional<Endpoint> plainListen = Optional.empty();
    private FallbackPolicy fallback = FallbackPolicy.LEAST_REQUEST;
    private RequestBodyMode requestBody = RequestBodyMode.FULL_DUPLEX_STREAMED;
    private ResponseBodyMode responseBody = ResponseBodyMode.FULL_DUPLEX_STREAMED;
    private boolean failOpen = true;
    private boolean checkWorkerHealth;
    private boolean trustIdentityHeaders;
    private Duration idleTimeout = Duration.ofMinutes(10);
    private Duration messageTimeout = Duration.ofSeconds(30);
    private int bufferedBodyLimitBytes = 16 << 20;
    private int retryBufferBytes = 1 << 20;
    private Optional<ExtProcTls> extProcTls = Optional.empty();
    private Optional<String> accessLogPath = Optional.empty();

    private Builder() {}

    public Builder listen(Endpoint value) {
      listen = value;
      return this;
    }

    public Builder extProc(Endpoint value) {
      extProc = value;
      return this;
    }

    public Builder admin(Endpoint value) {
      admin = value;
      return this;
    }

    public Builder workers(List<Endpoint> value) {
      workers = value;
      return this;
    }

    public Builder plainListen(Endpoint value) {
      plainListen = Optional.of(value);
      return this;
    }

    public Builder fallback(FallbackPolicy value) {
      fallback = value;
      return this;
    }

    public Builder requestBody(RequestBodyMode value) {
      requestBody = value;
      return this;
    }

    public Builder responseBody(ResponseBodyMode value) {
      responseBody = value;
      return this;
    }

    public Builder failOpen(boolean value) {
      failOpen = value;
      return this;
    }

    public Builder checkWorkerHealth(boolean value) {
      checkWorkerHealth = value;
      return this;
    }

    public Builder trustIdentityHeaders(boolean value) {
      trustIdentityHeaders = value;
      return this;
    }

    public Builder idleTimeout(Duration value) {
      idleTimeout = value;
      return this;
    }

    public Builder messageTimeout(Duration value) {
      messageTimeout = value;
      return this;
    }

    public Builder bufferedBodyLimitBytes(int value) {
      bufferedBodyLimitBytes = value;
      return this;
    }

    public Builder retryBufferBytes(int value) {
      retryBufferBytes = value;
      return this;
    }

    public Builder extProcTls(ExtProcTls value) {
      extProcTls = Optional.of(value);
      return this;
    }

    public Builder accessLogPath(String value) {
      accessLogPath = Optional.of(value);
      return this;
    }

    /**
     * @throws IllegalArgumentException when an option is outside its range; the message names it
     */
    public EnvoyBootstrap build() {
      return new EnvoyBootstrap(
          listen,
          extProc,
          admin,
          workers,
          plainListen,
          fallback,
          requestBody,
          responseBody,
          failOpen,
          checkWorkerHealth,
          trustIdentityHeaders,
          idleTimeout,
          messageTimeout,
          bufferedBodyLimitBytes,
          retryBufferBytes,
          extProcTls,
          accessLogPath);
    }
  }
}
