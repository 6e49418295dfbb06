// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * What a router knows of the caches: KV events that arrive a little late, and what it has sent and
 * not yet seen stored.
 */
final class CacheMirror {
  private final VirtualTime time;
  private final double delayMillis;
  private final List<Set<Long>> confirmed = new ArrayList<>();
  private final List<Map<Long, Integer>> expected = new ArrayList<>();

  CacheMirror(VirtualTime time, int workers, double delayMillis) {
    this.time = time;
    this.delayMillis = delayMillis;
    for (int i = 0; i < workers; i++) {
      confirmed.add(new HashSet<>());
      expected.add(new HashMap<>());
    }
  }

  void changed(int worker, Map<Long, Boolean> nowStored) {
    Set<Long> keys = confirmed.get(worker);
    time.after(
        delayMillis,
        () ->
            nowStored.forEach(
                (key, isStored) -> {
                  if (isStored) {
                    keys.add(key);
                  } else {
                    keys.remove(key);
                  }
                }));
  }

  void expect(int worker, SimRequest request) {
    Map<Long, Integer> keys = expected.get(worker);
    for (int i = 0; i < request.cacheableBlocks(); i++) {
      keys.merge(request.blockKeys[i], 1, Integer::sum);
    }
  }

  /** The request's blocks are stored or lost; events tell which. */
  void settled(int worker, SimRequest request) {
    time.after(
        delayMillis,
        () -> {
          Map<Long, Integer> keys = expected.get(worker);
          for (int i = 0; i < request.cacheableBlocks(); i++) {
            keys.computeIfPresent(request.blockKeys[i], (_, n) -> n == 1 ? null : n - 1);
          }
        });
  }

  int confirmedTokens(int worker, SimRequest request) {
    Set<Long> keys = confirmed.get(worker);
    int blocks = request.cacheableBlocks();
    int found = 0;
    while (found < blocks && keys.contains(request.blockKeys[found])) {
      found++;
    }
    return found * BlockCache.BLOCK_TOKENS;
  }

  int expectedTokens(int worker, SimRequest request) {
    Set<Long> keys = confirmed.get(worker);
    Map<Long, Integer> more = expected.get(worker);
    int blocks = request.cacheableBlocks();
    int found = 0;
    while (found < blocks
        && (keys.contains(request.blockKeys[found])
            || more.containsKey(request.blockKeys[found]))) {
      found++;
    }
    return found * BlockCache.BLOCK_TOKENS;
  }
}
