// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.scoring.fleet.Fleet;

/**
 * The state of everything else, frozen for one request: it never sees half an update.
 *
 * @param fleet workers and their health
 * @param pools pools with their models and tokenizers
 * @param nowNanos monotonic time of the decision
 */
public record World(Fleet fleet, PoolTable pools, long nowNanos) {}
