// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

/** How Envoy chooses a worker when Kvoy named none, or none that the cluster knows. */
public enum FallbackPolicy {
  /** The less busy of two random workers, counted by requests that Envoy has open there. */
  LEAST_REQUEST,
  ROUND_ROBIN
}
