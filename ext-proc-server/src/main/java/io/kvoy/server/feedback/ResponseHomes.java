// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.Worker;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Which worker holds the state of a {@code /v1/responses} answer, so that a request that continues
 * it goes there. Filled from answers alone: an id that no worker has produced leads nowhere, and an
 * id that is taken leads to its first producer for as long as that lives, so naming an id chooses
 * no worker and takes no other client's.
 *
 * <p>Bounded: the ids used longest ago are forgotten first. Not shared between replicas: one that
 * did not see the answer picks as for any other request. One lock, held for a look-up in a map, for
 * requests of this API only.
 */
public final class ResponseHomes {
  /** Ids have about 40 characters; longer ones are nobody's. */
  private static final int MAX_ID_CHARS = 128;

  private final int maxIds;

  /** By use, oldest first. Guarded by this. */
  private final Map<Key, Worker> homes = new LinkedHashMap<>(64, 0.75f, true);

  /**
   * @param tenant whose answer it is; ids of one tenant are none to another
   */
  private record Key(String tenant, String id) {}

  /**
   * @param maxIds most ids remembered, about 200 bytes each
   */
  public ResponseHomes(int maxIds) {
    this.maxIds = maxIds;
  }

  /** A worker has produced this answer. */
  public void produced(String tenant, String id, Worker worker, Fleet fleet) {
    if (id.isEmpty() || id.length() > MAX_ID_CHARS) {
      return;
    }
    synchronized (this) {
      Worker earlier = homes.get(new Key(tenant, id));
      if (earlier != null && lives(earlier, fleet)) {
        return;
      }
      homes.put(new Key(tenant, id), worker);
      if (homes.size() > maxIds) {
        Iterator<Key> oldest = homes.keySet().iterator();
        oldest.next();
        oldest.remove();
      }
    }
  }

  /**
   * The worker that produced it, also when it is gone by now; null when nobody is known to have.
   */
  public synchronized @Nullable Worker home(String tenant, String id) {
    return id.length() > MAX_ID_CHARS ? null : homes.get(new Key(tenant, id));
  }

  /** Whether this very life of the worker is still in the fleet: a restart forgets its answers. */
  public static boolean lives(Worker worker, Fleet fleet) {
    return worker.equals(fleet.at(worker.endpoint()));
  }
}
