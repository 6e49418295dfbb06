// SPDX-License-Identifier: Apache-2.0

/**
 * How busy each worker is: scraped gauges with their age, and the ledger of our own work in flight.
 *
 * <p>Start at {@link io.kvoy.scoring.load.InFlightLedger}, then {@link
 * io.kvoy.scoring.load.LoadBook}. Picks read both without a lock; scraper threads and the response
 * path write. Nothing here predicts or decides.
 */
@NullMarked
package io.kvoy.scoring.load;

import org.jspecify.annotations.NullMarked;
