// SPDX-License-Identifier: Apache-2.0

/**
 * The choice of a worker and the reservation that goes with it, in one step. Start at {@code
 * Picker}.
 */
@NullMarked
package io.kvoy.scoring.pick;

import org.jspecify.annotations.NullMarked;
