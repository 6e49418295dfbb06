// SPDX-License-Identifier: Apache-2.0

/**
 * Who can serve: workers, their addresses, lives and health, as immutable snapshots.
 *
 * <p>Start at {@link io.kvoy.scoring.fleet.FleetRegistry} (who writes) and {@link
 * io.kvoy.scoring.fleet.Fleet} (what a request sees). Discovery declares {@link
 * io.kvoy.scoring.fleet.WorkerSpec}s, {@link io.kvoy.scoring.fleet.HealthProber} and the response
 * path report what they saw. Nothing here knows what a worker has cached or how busy it is.
 */
@NullMarked
package io.kvoy.scoring.fleet;

import org.jspecify.annotations.NullMarked;
