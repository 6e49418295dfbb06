// SPDX-License-Identifier: Apache-2.0

/**
 * What Kvoy adds to a request: a real Envoy with and without it, in front of workers that compute
 * nothing.
 *
 * <p>Start at {@link io.kvoy.bench.overhead.Overhead}; {@link io.kvoy.bench.overhead.HttpLoad}
 * sends, {@link io.kvoy.bench.overhead.Prompts} says what, {@link
 * io.kvoy.bench.overhead.ProcessCpu} reads what the processes used.
 */
@NullMarked
package io.kvoy.bench.overhead;

import org.jspecify.annotations.NullMarked;
