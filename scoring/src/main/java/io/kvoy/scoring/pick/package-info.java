// SPDX-License-Identifier: Apache-2.0

/**
 * The choice of a worker and the booking that goes with it, in one step.
 *
 * <p>Start at {@link io.kvoy.scoring.pick.Picker}; it takes a {@link
 * io.kvoy.scoring.pick.PickRequest} and answers with a {@link io.kvoy.scoring.pick.Pick}, whose
 * {@link io.kvoy.scoring.pick.Flight} the response path reports to. Called by the routing pipeline
 * from any thread; never blocks.
 */
@NullMarked
package io.kvoy.scoring.pick;

import org.jspecify.annotations.NullMarked;
