// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;

/** Which worker holds which prefix. */
@SuppressWarnings("DoNotCallSuggester")
public final class PrefixIndex {

  public PrefixIndex(PrefixIndexConfig config) {}

  /** Canonical block size in tokens, for {@link BlockKeys#of}. */
  public int blockSize() {
    throw new UnsupportedOperationException();
  }

  /**
   * Finds the longest cached prefix of every known worker. Any thread, no locks.
   *
   * @param match overwritten with the result
   */
  public void lookup(BlockKeys keys, PrefixMatch match) {
    throw new UnsupportedOperationException();
  }

  /** The same, restricted to the given workers: others are reported as having nothing. */
  public void lookup(BlockKeys keys, Iterable<Worker> candidates, PrefixMatch match) {
    throw new UnsupportedOperationException();
  }
}
