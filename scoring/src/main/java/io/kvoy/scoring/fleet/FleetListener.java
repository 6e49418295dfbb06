// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

/**
 * Hears of every new {@link Fleet}, in order, one call at a time, on the thread that caused the
 * change (or on one that was delivering at that moment). Must not block.
 */
@FunctionalInterface
public interface FleetListener {
  /** Called after {@code change.after()} has become visible to readers. */
  void fleetChanged(FleetChange change);
}
