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
 * The options of an Envoy 1.40 with Kvoy as endpoint picker, and the whole static configuration
 * that they make for a fixed list of workers. {@link XdsResources} makes the same for a fleet that
 * changes.
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
 *     addresses as text. None where they come over xDS, see {@link XdsResources}
 * @param plainListen a second door to the same workers by round robin, past Kvoy, to compare with
 * @param fallback how to choose without Kvoy
 * @param requestBody how request bodies reach Kvoy
 * @param responseBody how Kvoy learns what became of a request
 * @param reports Kvoy's address for access log reports, used with {@link ResponseBodyMode#REPORTED}
 * @param firstTokenNotice longest wait until Envoy reports that a first token came, with {@link
 *     ResponseBodyMode#REPORTED}; one record per open answer in each such time
 * @param reportUsage whether reports hold token usage: Envoy then reads every event of a stream
 * @param failOpen serve by {@code fallback} while Kvoy is down instead of answering 500
 * @param checkWorkerHealth probe {@code GET /health} of each worker, so that the fallback avoids
 *     dead ones; a pick is followed whatever the probe says
 * @param trustIdentityHeaders keep the headers of {@link ControlHeaders#IDENTITY} that arrive: only
 *     behind a proxy that has checked the caller and wrote them itself
 * @param idleTimeout ends a request on which nothing moved for so long: longer than the longest
 *     wait for a first token
 * @param messageTimeout ends the wait for one answer of Kvoy in {@link RequestBodyMode#BUFFERED};
 *     full duplex has no such guard in Envoy, there Kvoy keeps its own deadline
 * @param bufferedBodyLimitBytes largest request body in {@link RequestBodyMode#BUFFERED}; a little
 *     more than Kvoy's {@code limits.maxRequestBody}, so that Kvoy refuses a larger one first
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
    Endpoint reports,
    Duration firstTokenNotice,
    boolean reportUsage,
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

  /** Name of the cluster that is Kvoy's door for access log reports. */
  public static final String REPORTS = "kvoy_reports";

  public EnvoyBootstrap {
    workers = List.copyOf(workers);
    Set<Endpoint> seen = new HashSet<>();
    for (Endpoint worker : workers) {
      requireWorkerAddress(worker);
      if (!seen.add(worker)) {
        throw new IllegalArgumentException("worker " + worker + " is listed twice");
      }
    }
    requireIpLiteral("listen", listen);
    requireIpLiteral("admin", admin);
    plainListen.ifPresent(endpoint -> requireIpLiteral("plainListen", endpoint));
    requirePositive("idleTimeout", idleTimeout);
    requirePositive("messageTimeout", messageTimeout);
    requirePositive("firstTokenNotice", firstTokenNotice);
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

  /** The whole configuration as Envoy's own message. */
  public Bootstrap toProto() {
    Bootstrap.Builder bootstrap = Bootstrap.newBuilder();
    bootstrap.getNodeBuilder().setId("kvoy").setCluster("kvoy");
    bootstrap.setAdmin(Admin.newBuilder().setAddress(Addresses.socket(admin)));
    bootstrap
        .getStaticResourcesBuilder()
        .addAllListeners(new Listeners(this, Delivery.STATIC).all())
        .addAllClusters(new Clusters(this, Delivery.STATIC).all());
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

  static com.google.protobuf.Duration proto(Duration duration) {
    return Durations.fromNanos(duration.toNanos());
  }

  static com.google.protobuf.Duration seconds(double seconds) {
    return Durations.fromNanos(Math.round(seconds * 1e9));
  }

  /** Whether the endpoint is given by IP address, as workers must be. */
  public static boolean isAddress(Endpoint endpoint) {
    return Addresses.isIpLiteral(endpoint.host());
  }

  static void requireWorkerAddress(Endpoint worker) {
    if (!isAddress(worker)) {
      throw new IllegalArgumentException(
          "worker "
              + worker
              + " is given by name; give its IP address: Envoy finds the picked worker by comparing"
              + " addresses");
    }
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
    private RequestBodyMode requestBody = RequestBodyMode.BUFFERED;
    private ResponseBodyMode responseBody = ResponseBodyMode.STREAMED;
    private Endpoint reports = new Endpoint("127.0.0.1", 9005);
    private Duration firstTokenNotice = Duration.ofMillis(200);
    private boolean reportUsage = true;
    private boolean failOpen = true;
    private boolean checkWorkerHealth;
    private boolean trustIdentityHeaders;
    private Duration idleTimeout = Duration.ofMinutes(10);
    private Duration messageTimeout = Duration.ofSeconds(30);
    private int bufferedBodyLimitBytes = (32 << 20) + (512 << 10);
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

    public Builder reports(Endpoint value) {
      reports = value;
      return this;
    }

    public Builder firstTokenNotice(Duration value) {
      firstTokenNotice = value;
      return this;
    }

    public Builder reportUsage(boolean value) {
      reportUsage = value;
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
     * A configuration that stands alone.
     *
     * @throws IllegalArgumentException when an option is outside its range or there is no worker;
     *     the message names it
     */
    public EnvoyBootstrap build() {
      if (workers.isEmpty()) {
        throw new IllegalArgumentException("at least one worker is needed, got none");
      }
      return buildForXds();
    }

    /**
     * Options of an Envoy that learns its workers over xDS.
     *
     * @throws IllegalArgumentException when an option is outside its range; the message names it
     */
    public EnvoyBootstrap buildForXds() {
      return new EnvoyBootstrap(
          listen,
          extProc,
          admin,
          workers,
          plainListen,
          fallback,
          requestBody,
          responseBody,
          reports,
          firstTokenNotice,
          reportUsage,
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
