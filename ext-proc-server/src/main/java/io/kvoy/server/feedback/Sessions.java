// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.scoring.fleet.Worker;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;

/**
 * Which worker served a session last. Only breaks ties between workers that are predicted to be
 * equally fast, so a client that names another one's session gains nothing.
 *
 * <p>A table of fixed size in which sessions that fall into one place push each other out: bounded
 * memory, no lock, and a session forgotten now and then costs a tie. Any thread.
 */
public final class Sessions {
  /** Longer names are nobody's. */
  public static final int MAX_CHARS = 128;

  private record Entry(String session, Worker worker) {}

  private final AtomicReferenceArray<@Nullable Entry> entries;

  /**
   * @param places most sessions remembered, about 200 bytes each; a power of two
   */
  public Sessions(int places) {
    if (Integer.bitCount(places) != 1) {
      throw new IllegalArgumentException("places must be a power of two, was " + places);
    }
    this.entries = new AtomicReferenceArray<>(places);
  }

  /** The worker that served it last; null when nobody is known to have, or it has no name. */
  public @Nullable Worker last(String session) {
    if (session.isEmpty()) {
      return null;
    }
    Entry entry = entries.get(place(session));
    return entry != null && entry.session.equals(session) ? entry.worker : null;
  }

  /** A worker was picked for it. */
  public void picked(String session, Worker worker) {
    if (session.isEmpty()) {
      return;
    }
    int place = place(session);
    Entry entry = entries.get(place);
    if (entry == null || !entry.session.equals(session) || !entry.worker.equals(worker)) {
      entries.set(place, new Entry(session, worker));
    }
  }

  private int place(String session) {
    int hash = session.hashCode();
    return (hash ^ hash >>> 16) & (entries.length() - 1);
  }
}
