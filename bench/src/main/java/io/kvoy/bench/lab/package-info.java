// SPDX-License-Identifier: Apache-2.0

/**
 * A seeded fleet in virtual time: simulated engines, the product's own picker, and the policies it
 * is measured against.
 *
 * <p>Start at {@link io.kvoy.bench.lab.Lab}, which prints the tables of {@code docs/adr/0004}. No
 * sockets, one thread per run; the same seed gives the same numbers.
 */
@NullMarked
package io.kvoy.bench.lab;

import org.jspecify.annotations.NullMarked;
