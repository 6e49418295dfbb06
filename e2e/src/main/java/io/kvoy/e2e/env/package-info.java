// SPDX-License-Identifier: Apache-2.0

/**
 * Real processes for demo and tests: Envoy and vLLM, started on free loopback ports, watched, and
 * stopped for certain.
 *
 * <p>Start at {@link io.kvoy.e2e.env.EnvoyProcess} and {@link io.kvoy.e2e.env.VllmProcess}; {@link
 * io.kvoy.e2e.env.LocalTools} finds what {@code make tools} fetched. Used from any one thread per
 * process. A process that does not start throws with the end of its own log in the message.
 */
@NullMarked
package io.kvoy.e2e.env;

import org.jspecify.annotations.NullMarked;
