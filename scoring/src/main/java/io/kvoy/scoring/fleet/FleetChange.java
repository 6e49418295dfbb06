// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import java.util.List;

/**
 * The step from one snapshot to the next. A worker with a new life is in both lists: the old life
 * removed, the new one added.
 *
 * @param before snapshot before
 * @param after snapshot after; its version is higher
 * @param removed lives that ended
 * @param added lives that began
 */
public record FleetChange(Fleet before, Fleet after, List<Worker> removed, List<Worker> added) {
  public FleetChange {
    removed = List.copyOf(removed);
    added = List.copyOf(added);
  }
}
