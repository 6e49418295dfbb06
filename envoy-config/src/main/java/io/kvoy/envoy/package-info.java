// SPDX-License-Identifier: Apache-2.0

/**
 * The fleet as Envoy configuration.
 *
 * <p>Start at {@link io.kvoy.envoy.EnvoyBootstrap}: options in, a whole static configuration out,
 * as protobuf, JSON or YAML. {@link io.kvoy.envoy.ControlHeaders} names what no client may say.
 * Everything here is an immutable value and does no I/O; the command line, the demo and the tests
 * call it, on any thread. Nothing here knows how an endpoint is picked.
 */
@NullMarked
package io.kvoy.envoy;

import org.jspecify.annotations.NullMarked;
