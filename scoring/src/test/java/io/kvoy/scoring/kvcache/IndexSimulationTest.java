// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/**
 * Sixty-four workers that store, evict, clear, restart and leave, over a network that loses
 * messages and replay answers, against plain maps. A failure names its seed; the same seed gives
 * the same run.
 */
class IndexSimulationTest {

  private static final int WORKERS = 64;
  private static final int NODES = 6_000;
  private static final int MAX_DEPTH = 48;
  private static final int RING = 64;
  private static final int LIVE_BLOCKS = 400;

  private final Random random = new Random();
  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT);
  private final KvEventDecoder decoder = new KvEventDecoder();
  private final PrefixMatch match = new PrefixMatch();
  private final int[] parents = new int[NODES];
  private final int[] depths = new int[NODES];
  private final List<Simulated> fleet = new ArrayList<>();
  private long now;
  private long operations;
  private boolean isLossless;
  private int restarts;
  private int replaysLost;
  private int lives;

  /** A worker, its cache as it truly is, and our view of it. */
  private final class Simulated {
    final int slot;
    final int stride;
    Worker worker;
    KvStream stream;
    long hashSeed = random.nextLong();

    /** Copies by the last node of a block. */
    final Map<Integer, Integer> cache = new HashMap<>();

    final List<Integer> cached = new ArrayList<>();
    final List<KvMessage.Published> ring = new ArrayList<>();
    long next;

    Simulated(int slot, int stride) {
      this.slot = slot;
      this.stride = stride;
      this.worker = Fleet.worker(slot, ++lives);
      this.stream = open();
    }

    private KvStream open() {
      KvStream opened =
          new KvStream(
              index.open(worker, KvViewState.SYNCING, KvCacheListener.NONE),
              slot % 8 != 7,
              KvStreamConfig.DEFAULT,
              decoder,
              KvCacheListener.NONE);
      opened.start(now);
      return opened;
    }

    void newLife() {
      KvStream old = stream;
      old.close();
      worker = Fleet.worker(slot, ++lives);
      stream = open();
      restart();
      for (KvMessage.Published late : List.copyOf(ring)) {
        old.onPublished(late, now, now);
      }
    }

    void restart() {
      restarts++;
      hashSeed = random.nextLong();
      cache.clear();
      cached.clear();
      ring.clear();
      next = 0;
    }

    long hash(int node) {
      long mixed = (node + 1) * 0x9E3779B97F4A7C15L ^ hashSeed;
      return (mixed ^ mixed >>> 31) * 0xBF58476D1CE4E5B9L;
    }

    /** What a request for the node's prompt does: stores what is missing of its path. */
    void request(int node, List<KvEvent> events) {
      int[] path = path(node);
      int parent = -1;
      for (int end = stride; end <= path.length; end += stride) {
        int last = path[end - 1];
        boolean isAgain = end + stride > path.length && random.nextInt(20) == 0;
        if (!cache.containsKey(last) || isAgain) {
          cached.add(last);
          cache.merge(last, 1, Integer::sum);
          events.add(
              Fleet.stored(
                  new long[] {hash(last)},
                  parent < 0 ? 0 : hash(parent),
                  ids(Arrays.copyOfRange(path, end - stride, end)),
                  16 * stride));
          operations++;
        }
        parent = last;
      }
    }

    void evict(List<KvEvent> events) {
      if (random.nextInt(20) == 0) {
        events.add(Fleet.removed(random.nextLong())); // was never there
        operations++;
      }
      if (!cached.isEmpty()) {
        int at = random.nextInt(cached.size());
        int node = cached.get(at);
        cached.set(at, cached.getLast());
        cached.removeLast();
        cache.computeIfPresent(node, (_, n) -> n == 1 ? null : n - 1);
        events.add(Fleet.removed(hash(node)));
        operations++;
      }
    }

    void clear(List<KvEvent> events) {
      cache.clear();
      cached.clear();
      events.add(new KvEvent.AllBlocksCleared());
      operations++;
    }

    void publish(List<KvEvent> events) {
      KvMessage.Published message =
          MsgPack.message(next++, random.nextDouble(), events.toArray(KvEvent[]::new));
      ring.add(message);
      if (ring.size() > RING) {
        ring.removeFirst();
      }
      if (isLossless || random.nextInt(100) > 0) {
        stream.onPublished(message, now, now);
      }
      serve();
    }

    void serve() {
      for (KvStream.Wish wish = stream.poll(); wish != null; wish = stream.poll()) {
        switch (wish) {
          case KvStream.AskReplay(long from, int id) -> {
            boolean isLost = !isLossless && random.nextInt(10) == 0;
            int delivered = 0;
            for (KvMessage.Published message : List.copyOf(ring)) {
              if (message.sequence() >= from && !(isLost && delivered++ > 2)) {
                stream.onReplayed(id, message, now);
              }
            }
            if (isLost) {
              replaysLost++;
            } else {
              stream.onReplayed(id, new KvMessage.ReplayEnd(), now);
            }
          }
          case KvStream.Reconnect _ -> stream.onInterruption(now);
        }
      }
    }

    int references() {
      return cache.values().stream().mapToInt(n -> n).sum();
    }

    int cachedTokens(int[] path) {
      int end = stride;
      while (end <= path.length && cache.containsKey(path[end - 1])) {
        end += stride;
      }
      return (end - stride) * 16;
    }
  }

  private int[] path(int node) {
    int[] path = new int[depths[node]];
    int at = node;
    for (int i = path.length - 1; i >= 0; i--) {
      path[i] = at;
      at = parents[at];
    }
    return path;
  }

  private static int[] ids(int[] path) {
    int[] ids = new int[16 * path.length];
    for (int i = 0; i < ids.length; i++) {
      ids[i] = path[i / 16] * 16 + i % 16;
    }
    return ids;
  }

  private void run(long seed, long wantedOperations) {
    random.setSeed(seed);
    for (int node = 0; node < NODES; node++) {
      int parent = random.nextInt(100) < 85 ? node - 1 : random.nextInt(node + 1) - 1;
      boolean isRoot = parent < 0 || depths[parent] == MAX_DEPTH;
      parents[node] = isRoot ? -1 : parent;
      depths[node] = isRoot ? 1 : depths[parent] + 1;
    }
    for (int slot = 0; slot < WORKERS; slot++) {
      fleet.add(new Simulated(slot, 1 << slot % 3));
    }
    int rounds = 0;
    while (operations < wantedOperations) {
      Simulated worker = fleet.get(random.nextInt(WORKERS));
      List<KvEvent> events = new ArrayList<>();
      int dice = random.nextInt(10_000);
      if (dice == 0) {
        worker.newLife();
      } else if (dice < 4) {
        worker.restart();
      } else if (dice < 10) {
        worker.clear(events);
      }
      worker.request(random.nextInt(NODES), events);
      while (worker.cached.size() > LIVE_BLOCKS || random.nextInt(3) == 0) {
        worker.evict(events);
      }
      worker.publish(events);
      now += 5_000_000;
      if (++rounds % 200 == 0) {
        fleet.forEach(w -> w.stream.tick(now, 1));
        fleet.forEach(Simulated::serve);
        index.sweep(500);
      }
      if (rounds % 20_000 == 0) {
        check(seed);
      }
    }
    check(seed);
    assertThat(restarts).isGreaterThan(10);
    assertThat(replaysLost).isGreaterThan(10);
    fleet.forEach(w -> w.stream.close());
    boolean hasMore = true;
    while (hasMore) {
      hasMore = index.sweep(100_000);
    }
    assertThat(index.blocks()).isZero();
    assertThat(index.keys()).isZero();
  }

  /** Everybody says one more thing, nothing gets lost, and then the views must be the truth. */
  private void check(long seed) {
    isLossless = true;
    for (int i = 0; i < 4; i++) {
      for (Simulated worker : fleet) {
        worker.publish(List.of());
        worker.stream.tick(now, 0);
        worker.serve();
      }
      now += 3_000_000_000L;
    }
    isLossless = false;
    int live = 0;
    for (Simulated worker : fleet) {
      WorkerBlocks view = worker.stream.blocks();
      String who = "seed " + seed + " after " + operations + " at worker " + worker.slot;
      if (view.state() == KvViewState.LIVE) {
        live++;
        assertThat(view.blocks()).as(who).isEqualTo(worker.cache.size());
        assertThat(view.references()).as(who).isEqualTo(worker.references());
      } else {
        assertThat(view.state()).as(who).isEqualTo(KvViewState.PARTIAL);
        assertThat(view.references()).as(who).isLessThanOrEqualTo(worker.references());
      }
    }
    assertThat(live).isGreaterThan(WORKERS / 4);
    for (int i = 0; i < 200; i++) {
      int[] path = path(random.nextInt(NODES));
      int[] ids = Arrays.copyOf(ids(path), 16 * path.length + 1);
      index.lookup(BlockKeys.of(CacheIdentity.PLAIN, ids, 16), match);
      for (Simulated worker : fleet) {
        int truth = worker.cachedTokens(path);
        String who = "seed " + seed + " after " + operations + " at worker " + worker.slot;
        if (worker.stream.blocks().state() == KvViewState.LIVE) {
          assertThat(match.cachedTokens(worker.worker)).as(who).isEqualTo(truth);
        } else {
          assertThat(match.cachedTokens(worker.worker)).as(who).isLessThanOrEqualTo(truth);
        }
      }
    }
  }

  @Test
  void IDX_01_indexEqualsThePlainModelOverAMillionOperations() {
    @Nullable String seed = System.getProperty("kvoy.simulation.seed");
    run(seed == null ? 20_261_130 : Long.parseLong(seed), 1_000_000);
  }
}
