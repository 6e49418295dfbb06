// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import io.kvoy.scoring.fleet.Endpoint;

/**
 * A worker as Envoy is told of it.
 *
 * @param endpoint where requests go; an IP address
 * @param standing what Envoy's own choice makes of it. A pick of Kvoy is followed whatever it is
 */
public record FleetMember(Endpoint endpoint, Standing standing) {

  /** From best to worst. */
  public enum Standing {
    HEALTHY,
    /** Used by the fallback when there are not enough healthy ones. */
    DEGRADED,
    /** Finishes what it has; the fallback sends nothing new. */
    DRAINING,
    /** Not used by the fallback unless most are so. */
    UNHEALTHY
  }

  static FleetMember healthy(Endpoint endpoint) {
    return new FleetMember(endpoint, Standing.HEALTHY);
  }
}
