// SPDX-License-Identifier: Apache-2.0

/**
 * From the configuration file to a live fleet: workers declared, their event endpoints discovered.
 *
 * <p>Start at {@link io.kvoy.server.fleet.StaticFleet}.
 */
@NullMarked
package io.kvoy.server.fleet;

import org.jspecify.annotations.NullMarked;
