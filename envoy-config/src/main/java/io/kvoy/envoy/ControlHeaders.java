// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import java.util.List;

/**
 * Request headers that speak to the gateway's own parts, so a client that sends them must not be
 * believed.
 *
 * <p>The proxy removes them before the ext_proc filter; what Kvoy or the proxy sets later stays.
 * Names are those of the endpoint picker protocol (proposal 004 of the Gateway API Inference
 * Extension 1.6) and of the llm-d router 0.9.
 */
public final class ControlHeaders {
  /** Header and metadata key with the endpoint the request must go to. */
  public static final String DESTINATION_ENDPOINT = "x-gateway-destination-endpoint";

  /** Metadata key with the endpoint that served. */
  public static final String DESTINATION_ENDPOINT_SERVED = "x-gateway-destination-endpoint-served";

  /** Time to first token, in milliseconds, that counts as good for the request. */
  public static final String SLO_TTFT = "x-llm-d-slo-ttft-ms";

  /** The older name of {@link #SLO_TTFT}, which wins where both are given. */
  public static final String SLO_TTFT_OLD = "x-slo-ttft-ms";

  /** Class of the request, by name. */
  public static final String OBJECTIVE = "x-llm-d-inference-objective";

  /** The older name of {@link #OBJECTIVE}, which wins where both are given. */
  public static final String OBJECTIVE_OLD = "x-gateway-inference-objective";

  /** On whose behalf a request is made. */
  public static final String FAIRNESS_ID = "x-llm-d-inference-fairness-id";

  /** The older name of {@link #FAIRNESS_ID}, which wins where both are given. */
  public static final String FAIRNESS_ID_OLD = "x-gateway-inference-fairness-id";

  /**
   * Headers in which clients name the session that a request belongs to, the first one counts.
   * Workers see them.
   */
  public static final List<String> SESSION =
      List.of(
          "x-session-id",
          "x-claude-code-session-id",
          "x-session-affinity",
          "session-id",
          "session_id");

  /** Metadata namespace of both. */
  public static final String METADATA_NAMESPACE = "envoy.lb";

  /** Metadata namespace in which a gateway restricts the candidates. */
  public static final String SUBSET_NAMESPACE = "envoy.lb.subset_hint";

  /**
   * Headers that steer where a request, or a connection that a worker opens for it, goes. A client
   * that could set one could reach any address the proxy or a worker reaches, past every policy.
   */
  public static final List<String> STEERING =
      List.of(
          DESTINATION_ENDPOINT,
          DESTINATION_ENDPOINT_SERVED,
          "x-gateway-destination-endpoint-subset",
          "x-gateway-destination-endpoint-scores",
          "x-prefiller-host-port",
          "x-encoder-hosts-ports",
          "x-data-parallel-host-port",
          "x-kv-cache-source-host-port");

  /**
   * Headers that say who asks, of what class it is, or which model is meant. True only when
   * something in front that has checked the caller wrote them; see {@link
   * EnvoyBootstrap#trustIdentityHeaders}.
   */
  public static final List<String> IDENTITY =
      List.of(
          OBJECTIVE,
          OBJECTIVE_OLD,
          FAIRNESS_ID,
          FAIRNESS_ID_OLD,
          "x-llm-d-model-name-rewrite",
          "x-gateway-model-name-rewrite",
          "x-kvoy-tenant",
          "x-tenant");

  /**
   * Headers in which a client may say how it wants a request handled. They are for the picker; a
   * worker does not see them.
   */
  public static final List<String> REQUEST_CONTROL =
      List.of(SLO_TTFT, "x-llm-d-slo-tpot-ms", SLO_TTFT_OLD, "x-slo-tpot-ms");

  private ControlHeaders() {}
}
