// SPDX-License-Identifier: Apache-2.0

/**
 * Who can serve: workers, their addresses and lives, as immutable snapshots.
 *
 * <p>Start at {@link io.kvoy.scoring.fleet.Worker}.
 */
@NullMarked
package io.kvoy.scoring.fleet;

import org.jspecify.annotations.NullMarked;
