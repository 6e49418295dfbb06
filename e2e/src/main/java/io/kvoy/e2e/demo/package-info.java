// SPDX-License-Identifier: Apache-2.0

/**
 * The demo behind {@code make run}: workers, Kvoy and Envoy on one machine, a small load through
 * both doors, and a table of where each request went and why.
 *
 * <p>Start at {@link io.kvoy.e2e.demo.Demo}. {@link io.kvoy.e2e.demo.Stage} is the rig itself and
 * serves tests as well.
 */
@NullMarked
package io.kvoy.e2e.demo;

import org.jspecify.annotations.NullMarked;
