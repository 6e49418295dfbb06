// SPDX-License-Identifier: Apache-2.0

/**
 * How busy each worker is: scraped gauges with their age, and the ledger of our own work in flight.
 * Start at {@code InFlightLedger}.
 */
@NullMarked
package io.kvoy.scoring.load;

import org.jspecify.annotations.NullMarked;
