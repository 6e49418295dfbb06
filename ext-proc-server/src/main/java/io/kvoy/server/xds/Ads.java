// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.xds;

import com.google.protobuf.Any;
import io.envoyproxy.controlplane.cache.ConfigWatcher;
import io.envoyproxy.controlplane.cache.DeltaResponse;
import io.envoyproxy.controlplane.cache.DeltaWatch;
import io.envoyproxy.controlplane.cache.DeltaXdsRequest;
import io.envoyproxy.controlplane.cache.Response;
import io.envoyproxy.controlplane.cache.SimpleCache;
import io.envoyproxy.controlplane.cache.Watch;
import io.envoyproxy.controlplane.cache.XdsRequest;
import io.envoyproxy.controlplane.server.DefaultExecutorGroup;
import io.envoyproxy.controlplane.server.DiscoveryServerCallbacks;
import io.envoyproxy.controlplane.server.V3DiscoveryServer;
import io.envoyproxy.controlplane.server.serializer.DefaultProtoResourcesSerializer;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryResponse;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * java-control-plane's ADS server with three of its habits (1.0.49) undone:
 *
 * <ul>
 *   <li>State of the world: it answers a rejection with the rejected configuration again, as fast
 *       as the proxy can reject it. Here a rejected version is held to be known, and the stream
 *       waits for the next one. Which version a rejection is about is in the nonce.
 *   <li>Delta: the same, for endpoints and routes that were never accepted. And what was rejected
 *       is forgotten: when it is taken back, the proxy hears nothing and goes on counting as one
 *       that rejects.
 *   <li>Delta: it does not look at what a proxy says to have from an earlier stream, so that what
 *       was removed in between stays for ever.
 * </ul>
 */
final class Ads extends V3DiscoveryServer {
  /** In a nonce, between the stream's own count and the version. */
  private static final char SEPARATOR = '/';

  /** Version of a resource that the proxy may have, but of which content is not known. */
  private static final String UNKNOWN_VERSION = "";

  /**
   * Serves one group of proxies.
   *
   * @param group key of their snapshot in the cache
   */
  Ads(DiscoveryServerCallbacks callbacks, SimpleCache<String, EnvoySnapshot> cache, String group) {
    super(
        List.of(callbacks),
        new Patient(cache, group),
        new DefaultExecutorGroup(),
        new DefaultProtoResourcesSerializer());
  }

  @Override
  protected DiscoveryResponse makeResponse(
      String version, Collection<Any> resources, String typeUrl, String nonce) {
    return super.makeResponse(version, resources, typeUrl, nonce + SEPARATOR + version);
  }

  @Override
  protected XdsRequest wrapXdsRequest(DiscoveryRequest request) {
    String nonce = request.getResponseNonce();
    int end = nonce.indexOf(SEPARATOR);
    if (end < 0) {
      return super.wrapXdsRequest(request);
    }
    DiscoveryRequest.Builder own = request.toBuilder().setResponseNonce(nonce.substring(0, end));
    if (request.hasErrorDetail()) {
      own.setVersionInfo(versionIn(nonce));
    }
    return super.wrapXdsRequest(own.build());
  }

  /** The version of the response that a nonce of ours belongs to; empty when it is none of ours. */
  static String versionIn(String nonce) {
    return nonce.substring(nonce.indexOf(SEPARATOR) + 1);
  }

  private record Patient(SimpleCache<String, EnvoySnapshot> cache, String group)
      implements ConfigWatcher {
    @Override
    public Watch createWatch(
        boolean ads,
        XdsRequest request,
        Set<String> knownResourceNames,
        Consumer<Response> responseConsumer,
        boolean hasClusterChanged,
        boolean allowDefaultEmptyEdsUpdate) {
      boolean rejected = request.hasErrorDetail();
      return cache.createWatch(
          ads,
          request,
          rejected ? Set.copyOf(request.getResourceNamesList()) : knownResourceNames,
          responseConsumer,
          hasClusterChanged && !rejected,
          allowDefaultEmptyEdsUpdate);
    }

    @Override
    public DeltaWatch createDeltaWatch(
        DeltaXdsRequest request,
        String requesterVersion,
        Map<String, String> resourceVersions,
        Set<String> pendingResources,
        boolean isWildcard,
        Consumer<DeltaResponse> responseConsumer,
        boolean hasClusterChanged) {
      boolean rejected = request.hasErrorDetail();
      Map<String, String> known = new HashMap<>();
      request.getInitialResourceVersionsMap().keySet().forEach(n -> known.put(n, UNKNOWN_VERSION));
      known.putAll(resourceVersions);
      Set<String> pending = new HashSet<>(pendingResources);
      EnvoySnapshot snapshot = cache.getSnapshot(group);
      if (rejected && snapshot != null) {
        // Known, in a version that is none: told of when it changes or goes, not before.
        snapshot
            .versionedResources(request.getResourceType())
            .forEach(
                (name, resource) -> {
                  pending.remove(name);
                  if (!resource.version().equals(known.get(name))) {
                    known.put(name, UNKNOWN_VERSION);
                  }
                });
      }
      return cache.createDeltaWatch(
          request,
          requesterVersion,
          known,
          pending,
          isWildcard,
          responseConsumer,
          hasClusterChanged && !rejected);
    }
  }
}
