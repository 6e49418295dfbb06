// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

/**
 * How the parts that change while Envoy runs come to it. The only difference between a static
 * configuration and one over xDS.
 */
enum Delivery {
  /** Routes and endpoints stand in the listeners and clusters themselves. */
  STATIC,
  /** Listeners and clusters name their routes and endpoints; Envoy asks for them over ADS. */
  XDS
}
