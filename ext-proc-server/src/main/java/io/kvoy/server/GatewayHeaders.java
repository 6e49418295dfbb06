// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.envoy.ControlHeaders;
import io.kvoy.inference.ProductNames;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Names of the endpoint picker protocol (gateway-api-inference-extension, proposal 004) and our own
 * header names.
 *
 * <p>A client must never be able to choose an endpoint, a tenant or a priority: {@link
 * #CLIENT_MUST_NOT_SET} is removed from every request.
 */
public final class GatewayHeaders {
  /** Request header and {@code envoy.lb} metadata key with the chosen {@code ip:port}. */
  public static final String DESTINATION = ControlHeaders.DESTINATION_ENDPOINT;

  /** {@code envoy.lb} metadata key with the {@code ip:port} that served. */
  public static final String SERVED = ControlHeaders.DESTINATION_ENDPOINT_SERVED;

  /** {@code envoy.lb.subset_hint} metadata key: pick only from these. */
  public static final String SUBSET = "x-gateway-destination-endpoint-subset";

  /** Id of the decision, for {@code /debug/decisions/{id}}. */
  public static final String DECISION_ID = ProductNames.HEADER_PREFIX + "decision-id";

  /** Worker that was picked. */
  public static final String TARGET = ProductNames.HEADER_PREFIX + "target";

  /** Policy that applied. */
  public static final String POLICY = ProductNames.HEADER_PREFIX + "policy";

  /** Why the decision knew less than it could. */
  public static final String DEGRADED = ProductNames.HEADER_PREFIX + "degraded";

  /** Why this worker, in a few words. */
  public static final String WHY = ProductNames.HEADER_PREFIX + "why";

  /** Prompt tokens predicted to be in the picked worker's cache. */
  public static final String PREDICTED_CACHED =
      ProductNames.HEADER_PREFIX + "predicted-cached-tokens";

  /** Predicted time to first token, milliseconds. */
  public static final String PREDICTED_TTFT = ProductNames.HEADER_PREFIX + "predicted-ttft-ms";

  /** Response header of the protocol that says why a request was not served. */
  public static final String DROPPED_REASON = "x-llm-d-request-dropped-reason";

  /** Removed from every request before a worker sees it; {@link #DESTINATION} is overwritten. */
  public static final Set<String> CLIENT_MUST_NOT_SET =
      Stream.of(
              ControlHeaders.STEERING.stream(),
              ControlHeaders.IDENTITY.stream(),
              ControlHeaders.REQUEST_CONTROL.stream(),
              Stream.of(DROPPED_REASON, DECISION_ID, TARGET, POLICY, DEGRADED))
          .flatMap(names -> names)
          .collect(Collectors.toUnmodifiableSet());

  /** Whether this header must not reach a worker as it came. HTTP/2 and Envoy write lower case. */
  public static boolean removedFromRequests(String name) {
    return name.startsWith("x-") && CLIENT_MUST_NOT_SET.contains(name) && !name.equals(DESTINATION);
  }

  private GatewayHeaders() {}
}
