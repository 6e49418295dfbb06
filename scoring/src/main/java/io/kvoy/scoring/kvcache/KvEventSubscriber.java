// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.Collection;
import java.util.function.ToIntFunction;

/** Listens to the KV events of all workers and keeps the {@link PrefixIndex}. */
@SuppressWarnings("DoNotCallSuggester")
public final class KvEventSubscriber implements AutoCloseable {

  /**
   * @param inFlight requests that are at a worker right now, to tell silence from idleness
   */
  public KvEventSubscriber(
      PrefixIndex index,
      SpeculativePrefixes speculative,
      ToIntFunction<Worker> inFlight,
      KvCacheListener listener) {}

  /** Starts the threads. */
  public void start() {
    throw new UnsupportedOperationException();
  }

  /** The fleet is this from now on: unknown lives are added, missing ones removed. Any thread. */
  public void update(Collection<Worker> workers) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void close() {
    throw new UnsupportedOperationException();
  }
}
