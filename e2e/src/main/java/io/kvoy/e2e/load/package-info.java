// SPDX-License-Identifier: Apache-2.0

/**
 * Clients that send chat requests the way users do, and what they saw.
 *
 * <p>Start at {@link io.kvoy.e2e.load.ChatClient}; {@link io.kvoy.e2e.load.Workloads} says what is
 * sent, {@link io.kvoy.e2e.load.LoadRun} sends it.
 */
@NullMarked
package io.kvoy.e2e.load;

import org.jspecify.annotations.NullMarked;
