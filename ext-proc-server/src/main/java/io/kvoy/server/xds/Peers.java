// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.xds;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import com.google.rpc.Status;
import io.envoyproxy.controlplane.cache.Resources;
import io.envoyproxy.controlplane.server.DiscoveryServerCallbacks;
import io.envoyproxy.controlplane.server.exception.RequestException;
import io.envoyproxy.envoy.config.core.v3.Node;
import io.envoyproxy.envoy.service.discovery.v3.DeltaDiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DeltaDiscoveryResponse;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryResponse;
import io.kvoy.server.metrics.ServerMeters;
import io.kvoy.server.metrics.ServerMeters.XdsAnswer;
import io.kvoy.server.metrics.ServerMeters.XdsType;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The proxies that are connected, and what each said to what it was sent. A rejection is logged
 * with the proxy's own words, counted, and shown until the proxy accepts something newer.
 *
 * <p>Written on the control plane's thread, read by debug pages and gauges.
 */
final class Peers implements DiscoveryServerCallbacks {
  private static final Logger LOG = LoggerFactory.getLogger(Peers.class);

  /** More proxies than one Kvoy is for; beyond it a stream is refused. */
  static final int MAX_STREAMS = 4_096;

  /** Of a proxy's words and names, what a person reads. */
  private static final int MAX_WORDS_CHARS = 1_000;

  private static final int MAX_NAME_CHARS = 128;

  /**
   * What a proxy said to one type of resource.
   *
   * @param version accepted last; empty when none
   * @param rejectedVersion rejected last; empty when something was accepted since
   * @param problem the proxy's words about the rejection
   */
  record Said(String version, String rejectedVersion, String problem) {
    static final Said NOTHING = new Said("", "", "");
  }

  /**
   * One stream.
   *
   * @param node the proxy's name for itself; not verified
   * @param said by type
   */
  record Peer(String node, boolean isDelta, Map<XdsType, Said> said) {}

  private static final class Stream {
    String node = "";
    boolean isDelta;
    final Map<XdsType, Said> said = new EnumMap<>(XdsType.class);

    /** Delta: version of what was sent under a nonce and not yet answered. */
    final Map<String, String> sent = new LinkedHashMap<>();
  }

  private final ServerMeters meters;

  @GuardedBy("this")
  private final Map<Long, Stream> streams = new LinkedHashMap<>();

  Peers(ServerMeters meters) {
    this.meters = meters;
  }

  /** Everybody who is connected. */
  synchronized List<Peer> connected() {
    List<Peer> all = new ArrayList<>();
    streams.values().forEach(s -> all.add(new Peer(s.node, s.isDelta, Map.copyOf(s.said))));
    return all;
  }

  synchronized int count() {
    return streams.size();
  }

  /** How many proxies go on with an older configuration since they rejected a newer one. */
  synchronized int rejecting() {
    int rejecting = 0;
    for (Stream stream : streams.values()) {
      if (stream.said.values().stream().anyMatch(said -> !said.rejectedVersion().isEmpty())) {
        rejecting++;
      }
    }
    return rejecting;
  }

  @Override
  public synchronized void onStreamOpen(long streamId, String typeUrl) throws RequestException {
    if (streams.size() >= MAX_STREAMS) {
      throw refused(io.grpc.Status.RESOURCE_EXHAUSTED, "too many xDS streams");
    }
    streams.put(streamId, new Stream());
  }

  @Override
  public synchronized void onStreamClose(long streamId, String typeUrl) {
    closed(streamId);
  }

  @Override
  public synchronized void onStreamCloseWithError(long streamId, String typeUrl, Throwable error) {
    closed(streamId);
  }

  @GuardedBy("this")
  private void closed(long streamId) {
    Stream stream = streams.remove(streamId);
    if (stream != null && !stream.node.isEmpty()) {
      LOG.info("xds_disconnected node={} left={}", stream.node, streams.size());
    }
  }

  @Override
  public synchronized void onV3StreamRequest(long streamId, DiscoveryRequest request)
      throws RequestException {
    Stream stream = stream(streamId, request.getNode(), false);
    XdsType type = type(request.getTypeUrl());
    String nonce = request.getResponseNonce();
    if (nonce.isEmpty()) {
      return;
    }
    if (request.hasErrorDetail()) {
      rejected(stream, type, Ads.versionIn(nonce), request.getErrorDetail());
    } else {
      accepted(stream, type, request.getVersionInfo());
    }
  }

  @Override
  public synchronized void onV3StreamDeltaRequest(long streamId, DeltaDiscoveryRequest request)
      throws RequestException {
    Stream stream = stream(streamId, request.getNode(), true);
    XdsType type = type(request.getTypeUrl());
    if (request.getResponseNonce().isEmpty()) {
      return;
    }
    String version = stream.sent.remove(request.getResponseNonce());
    if (version == null) {
      throw refused(io.grpc.Status.INVALID_ARGUMENT, "nonce was never sent on this stream");
    }
    if (request.hasErrorDetail()) {
      rejected(stream, type, version, request.getErrorDetail());
    } else {
      accepted(stream, type, version);
    }
  }

  @Override
  public synchronized void onV3StreamDeltaResponse(
      long streamId, DeltaDiscoveryRequest request, DeltaDiscoveryResponse response) {
    Stream stream = streams.get(streamId);
    if (stream != null) {
      stream.sent.put(response.getNonce(), response.getSystemVersionInfo());
    }
  }

  @Override
  public void onV3StreamResponse(
      long streamId, DiscoveryRequest request, DiscoveryResponse response) {
    // The version is in the nonce.
  }

  @GuardedBy("this")
  private Stream stream(long streamId, Node node, boolean delta) {
    Stream stream = streams.computeIfAbsent(streamId, _ -> new Stream());
    stream.isDelta = delta;
    if (stream.node.isEmpty() && !node.getId().isEmpty()) {
      stream.node = shown(node.getId(), MAX_NAME_CHARS);
      LOG.info("xds_connected node={} delta={} streams={}", stream.node, delta, streams.size());
    }
    return stream;
  }

  private void accepted(Stream stream, XdsType type, String version) {
    stream.said.put(type, new Said(shown(version, MAX_NAME_CHARS), "", ""));
    meters.xdsAnswer(type, XdsAnswer.ACCEPTED);
  }

  private void rejected(Stream stream, XdsType type, String version, Status detail) {
    String words = shown(detail.getMessage(), MAX_WORDS_CHARS);
    Said before = stream.said.getOrDefault(type, Said.NOTHING);
    stream.said.put(type, new Said(before.version(), shown(version, MAX_NAME_CHARS), words));
    meters.xdsAnswer(type, XdsAnswer.REJECTED);
    LOG.warn(
        "xds_rejected node={} type={} version={} in_force={} problem=\"{}\"",
        stream.node,
        type,
        shown(version, MAX_NAME_CHARS),
        before.version(),
        words);
  }

  /** The type of what is asked for; what we do not have is refused before it is remembered. */
  private static XdsType type(String url) throws RequestException {
    XdsType type =
        switch (url) {
          case Resources.V3.CLUSTER_TYPE_URL -> XdsType.CLUSTERS;
          case Resources.V3.ENDPOINT_TYPE_URL -> XdsType.ENDPOINTS;
          case Resources.V3.LISTENER_TYPE_URL -> XdsType.LISTENERS;
          case Resources.V3.ROUTE_TYPE_URL -> XdsType.ROUTES;
          default -> null;
        };
    if (type == null) {
      throw refused(
          io.grpc.Status.INVALID_ARGUMENT,
          "Kvoy serves clusters, endpoints, listeners and routes, not "
              + shown(url, MAX_NAME_CHARS));
    }
    return type;
  }

  private static RequestException refused(io.grpc.Status status, String why) {
    return new RequestException(status.withDescription(why));
  }

  /** Text of a stranger, short and on one line. */
  private static String shown(@Nullable String text, int maxChars) {
    if (text == null) {
      return "";
    }
    String cut = text.length() > maxChars ? text.substring(0, maxChars) + "…" : text;
    return cut.replaceAll("\\p{Cntrl}", " ").strip();
  }
}
