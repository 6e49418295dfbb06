// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;

/**
 * Hears from the index writer what the workers' events really brought. Called on its thread for
 * each block: be quick.
 */
interface Placements {

  /** Hears nothing. */
  Placements UNHEARD = new Placements() {};

  /** Tells two. */
  static Placements both(Placements a, Placements b) {
    return new Placements() {
      @Override
      public void placed(Worker worker, long key) {
        a.placed(worker, key);
        b.placed(worker, key);
      }

      @Override
      public void removed(Worker worker, long key) {
        a.removed(worker, key);
        b.removed(worker, key);
      }

      @Override
      public void tick() {
        a.tick();
        b.tick();
      }

      @Override
      public void emptied(Worker worker) {
        a.emptied(worker);
        b.emptied(worker);
      }
    };
  }

  /** The worker now holds the block on its GPU, or has one more copy of it. */
  default void placed(Worker worker, long key) {}

  /** It no longer does. */
  default void removed(Worker worker, long key) {}

  /** Time goes on; about ten times a second. */
  default void tick() {}

  /** Its view was emptied, or its life is over. */
  default void emptied(Worker worker) {}
}
