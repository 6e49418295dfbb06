// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.PriorityQueue;
import org.jspecify.annotations.Nullable;

/**
 * Which worker holds which prefix: one table for all workers, asked once per request.
 *
 * <h2>How a match is found</h2>
 *
 * Blocks are named by our own keys ({@link BlockKeys}), computed from the token ids that the
 * workers publish, so workers with different engines, versions, hash algorithms and seeds share the
 * table; an engine's own hashes only lead from its events to these keys ({@link EngineTable}). A
 * worker whose block is k canonical blocks long is entered at every k-th position, and only asked
 * about there. A look-up goes along the prompt's keys once and keeps the set of workers that have
 * had every block so far; whoever drops out has found its depth. Nothing is assumed about blocks in
 * between: a worker that evicted block 3 and kept block 4 matches 3.
 *
 * <p>A worker of a hybrid model has further cache groups (sliding window, mamba). A prefix counts
 * only if each such group still has the blocks before its end, as vLLM 0.32 {@code
 * v1/core/kv_cache_coordinator.py} requires.
 *
 * <h2>Threads</h2>
 *
 * All changes come from one thread, the index writer (through {@link WorkerBlocks}). {@link
 * #lookup} may run anywhere, at any time, takes no lock and sees each block either before or after
 * a change.
 *
 * <h2>Memory</h2>
 *
 * 12 bytes per (block, worker) in the worker's engine table, which is 82-87 % full, and 8 bytes per
 * distinct key in the shared table, 53-56 % full, plus the distinct worker sets: 22 bytes per entry
 * when half of the blocks are shared ({@code IndexReport}). Bounded by {@link
 * PrefixIndexConfig#maxBlocks}.
 */
public final class PrefixIndex {

  private final int blockSize;
  private final long maxBlocks;
  private final WorkerSets sets = new WorkerSets();
  private final KeyTable table = new KeyTable(sets);

  /** Volatile: published by the writer, read once per look-up. */
  private volatile Members members = Members.NONE;

  /** Emptied contents whose bits are still in the table. Writer only, as everything below. */
  private final Deque<Sweep> sweeps = new ArrayDeque<>();

  /** Member ids that no bit in the table stands for, freed lately; oldest first. */
  private final Deque<Integer> freeIds = new ArrayDeque<>();

  /** Those freed longer ago: the lowest is used first, so that {@link Members} gets shorter. */
  private final PriorityQueue<Integer> lowIds = new PriorityQueue<>();

  /** Ids freed lately that are kept back, since look-ups may still have an old snapshot. */
  private static final int LATELY_FREED = 64;

  private int nextId;
  private long blocks;

  /** No set at all: every set is another one. */
  private static final int NO_SET = -2;

  /** Keys that are looked for together first; then twice as many: most prompts end early. */
  private static final int FIRST_BATCH = 32;

  final Placements placements;
  final HashVerifier verifier;

  public PrefixIndex(PrefixIndexConfig config) {
    this(config, Placements.UNHEARD);
  }

  /** An index whose changes confirm or contradict what was speculated. */
  public PrefixIndex(PrefixIndexConfig config, SpeculativePrefixes speculative) {
    this(config, (Placements) speculative);
  }

  /** The same, with a check of our keys against them. */
  public PrefixIndex(PrefixIndexConfig config, SpeculativePrefixes speculative, OwnKeyCheck check) {
    this(config, Placements.both(speculative, check));
  }

  private PrefixIndex(PrefixIndexConfig config, Placements placements) {
    this.placements = placements;
    verifier = new HashVerifier(config.hashSeeds());
    blockSize = config.blockSize();
    maxBlocks = config.maxBlocks();
  }

  /** Canonical block size in tokens, for {@link BlockKeys#of}. */
  public int blockSize() {
    return blockSize;
  }

  /**
   * Finds the longest cached prefix of every known worker.
   *
   * @param match overwritten with the result
   */
  public void lookup(BlockKeys keys, PrefixMatch match) {
    Members snapshot = members;
    match.reset(snapshot, blockSize);
    System.arraycopy(snapshot.lookable, 0, match.alive, 0, snapshot.lookable.length);
    lookup(keys, snapshot, match);
  }

  /** The same for the given workers only: others are reported as having nothing. */
  public void lookup(BlockKeys keys, Iterable<Worker> candidates, PrefixMatch match) {
    Members snapshot = members;
    match.reset(snapshot, blockSize);
    Arrays.fill(match.alive, 0);
    for (Worker worker : candidates) {
      for (int id : snapshot.of(worker)) {
        match.alive[id >>> 6] |= 1L << id & snapshot.lookable[id >>> 6];
      }
    }
    lookup(keys, snapshot, match);
  }

  private void lookup(BlockKeys keys, Members snapshot, PrefixMatch match) {
    if (keys.blockSize() != blockSize) {
      throw new IllegalArgumentException(
          "keys of block size " + keys.blockSize() + " for an index of " + blockSize);
    }
    int reusable = keys.reusableBlocks();
    int words = snapshot.lookable.length;
    long[] alive = match.alive;
    long[] aliveCpu = match.aliveCpu;
    long[] aliveAny = match.aliveAnyTier;
    boolean hasOffload = false;
    for (int w = 0; w < words; w++) {
      aliveAny[w] = alive[w] & snapshot.offloading[w];
      aliveCpu[w] = aliveAny[w];
      hasOffload |= aliveAny[w] != 0;
    }
    boolean isAlive = true;
    boolean isAnyAlive = hasOffload;
    boolean isUniform = snapshot.strides.length == 1;
    int step = snapshot.step;
    int settled = 0;
    int lastId = NO_SET;
    long[] names = keys.raw();
    int blocks = reusable / step;
    int batchBlocks = FIRST_BATCH;
    KeyTable.Batch batch = KeyTable.Batch.ofThread();
    for (int first = 0; first < blocks && (isAlive || isAnyAlive); ) {
      int count = Math.min(batchBlocks, blocks - first);
      table.read(names, (first + 1) * step - 1, count, step, batch);
      for (int i = 0; i < count && (isAlive || isAnyAlive); i++) {
        if (isUniform && !isAnyAlive) {
          // The blocks of a chain are mostly held by the same workers: the same set drops nobody.
          while (i < count - 1 && batch.ids[i] == lastId) {
            i++;
          }
        }
        int depth = (first + 1 + i) * step;
        int id = batch.ids[i];
        boolean isNews = id != lastId || !isUniform;
        if (isAlive && isNews) {
          long[] gpu = wordsOf(id, match);
          isAlive = keep(snapshot, alive, depth, match.gpuBlocks, gpu, NOBODY, NOBODY);
        }
        if (isAnyAlive) {
          long key = names[depth - 1];
          long[] cpu = setOf(Tier.CPU.plane(), key, match);
          long[] storage = setOf(Tier.STORAGE.plane(), key, match);
          long[] gpu = wordsOf(id, match);
          keep(snapshot, aliveCpu, depth, match.cpuBlocks, gpu, cpu, NOBODY);
          isAnyAlive = keep(snapshot, aliveAny, depth, match.anyTierBlocks, gpu, cpu, storage);
        }
        lastId = id;
        settled = depth;
      }
      first += count;
      batchBlocks = Math.min(KeyTable.Batch.KEYS, batchBlocks * 2);
    }
    finish(snapshot, alive, settled, match.gpuBlocks);
    if (hasOffload) {
      finish(snapshot, aliveCpu, settled, match.cpuBlocks);
      finish(snapshot, aliveAny, settled, match.anyTierBlocks);
    }
    applyVetoes(keys, snapshot, match);
    for (int id = 0; id < snapshot.size(); id++) {
      match.cpuBlocks[id] = Math.max(match.cpuBlocks[id], match.gpuBlocks[id]);
      match.anyTierBlocks[id] = Math.max(match.anyTierBlocks[id], match.cpuBlocks[id]);
      match.expectedBlocks[id] = match.anyTierBlocks[id];
    }
  }

  private static final long[] NOBODY = {};

  /**
   * Whether any rank of the worker holds the block in any tier, whatever its view is trusted with.
   * Any thread.
   */
  boolean holds(Worker worker, long key) {
    for (int id : members.of(worker)) {
      for (Tier tier : Tier.values()) {
        int set = table.read(tier.plane(), key);
        if (set != KeyTable.CONTENDED && sets.contains(set, id)) {
          return true;
        }
      }
    }
    return false;
  }

  /** Whether each rank's view is complete. Any thread. */
  boolean isLive(Worker worker) {
    return areAll(worker, false);
  }

  /** Whether each rank's view misses nothing that came since it was last empty. Any thread. */
  boolean isFollowed(Worker worker) {
    return areAll(worker, true);
  }

  private boolean areAll(Worker worker, boolean orPartial) {
    Members snapshot = members;
    int[] ids = snapshot.of(worker);
    for (int id : ids) {
      Members.Member member = snapshot.get(id);
      if (member == null
          || (member.state() != KvViewState.LIVE
              && !(orPartial && member.state() == KvViewState.PARTIAL))) {
        return false;
      }
    }
    return ids.length > 0;
  }

  /** The worker's own block size in canonical blocks, 0 while unknown. Any thread. */
  int strideBlocks(Worker worker) {
    Members snapshot = members;
    int stride = 0;
    for (int id : snapshot.of(worker)) {
      Members.Member member = snapshot.get(id);
      stride = member == null ? stride : Math.max(stride, member.strideBlocks());
    }
    return stride;
  }

  private long[] setOf(int plane, long key, PrefixMatch match) {
    return wordsOf(table.read(plane, key), match);
  }

  private long[] wordsOf(int id, PrefixMatch match) {
    if (id == KeyTable.CONTENDED) {
      match.setContended();
      return NOBODY;
    }
    return sets.words(id);
  }

  /**
   * Takes out of {@code alive} whoever should have the block at this depth and has not, and notes
   * its depth.
   */
  private static boolean keep(
      Members snapshot, long[] alive, int depth, int[] depths, long[] a, long[] b, long[] c) {
    boolean isAnyone = false;
    for (int w = 0; w < snapshot.lookable.length; w++) {
      long candidates = alive[w];
      if (candidates == 0) {
        continue;
      }
      long holders = word(a, w) | word(b, w) | word(c, w);
      long missing = candidates & ~holders;
      if (missing != 0) {
        for (int s = 0; s < snapshot.strides.length; s++) {
          int stride = snapshot.strides[s];
          long dropped = depth % stride == 0 ? missing & snapshot.byStride[s][w] : 0;
          candidates &= ~dropped;
          for (; dropped != 0; dropped &= dropped - 1) {
            depths[(w << 6) + Long.numberOfTrailingZeros(dropped)] = depth - stride;
          }
        }
        alive[w] = candidates;
      }
      isAnyone |= candidates != 0;
    }
    return isAnyone;
  }

  /** Whoever is left has everything down to {@code depth}, in whole blocks of its own. */
  private static void finish(Members snapshot, long[] alive, int depth, int[] depths) {
    for (int w = 0; w < snapshot.lookable.length; w++) {
      for (int s = 0; s < snapshot.strides.length; s++) {
        int stride = snapshot.strides[s];
        for (long left = alive[w] & snapshot.byStride[s][w]; left != 0; left &= left - 1) {
          depths[(w << 6) + Long.numberOfTrailingZeros(left)] = depth - depth % stride;
        }
      }
    }
  }

  private static long word(long[] set, int w) {
    return w < set.length ? set[w] : 0;
  }

  private void applyVetoes(BlockKeys keys, Members snapshot, PrefixMatch match) {
    for (int w = 0; w < snapshot.hybrid.length; w++) {
      for (long left = snapshot.hybrid[w]; left != 0; left &= left - 1) {
        Members.Member member = snapshot.get((w << 6) + Long.numberOfTrailingZeros(left));
        if (member != null && match.gpuBlocks[member.id()] > 0) {
          match.gpuBlocks[member.id()] = vetoed(keys, member, match.gpuBlocks[member.id()], match);
        }
      }
    }
  }

  /** The longest prefix within {@code depth} whose end every group of the worker still has. */
  private int vetoed(BlockKeys keys, Members.Member member, int depth, PrefixMatch match) {
    int length = depth;
    boolean isSettled = false;
    while (length > 0 && !isSettled) {
      isSettled = true;
      for (Members.Veto veto : member.vetoes()) {
        int shorter = vetoed(keys, member, veto, length, match);
        if (shorter < length) {
          length = shorter;
          isSettled = false;
        }
      }
    }
    return length;
  }

  /**
   * The longest prefix within {@code depth} that one group allows: its last {@code needBlocks}
   * blocks are there, or all of them when it has fewer. Goes from the end to the start once,
   * counting the run.
   */
  private int vetoed(
      BlockKeys keys, Members.Member member, Members.Veto veto, int depth, PrefixMatch match) {
    int stride = veto.strideBlocks();
    int end = depth - depth % stride;
    int run = 0;
    for (int at = end; at > 0; at -= stride) {
      long[] holders = setOf(veto.plane(), keys.key(at - 1), match);
      boolean has = (word(holders, member.id() >>> 6) >>> member.id() & 1) != 0;
      if (!has) {
        run = 0;
        end = at - stride;
      } else if (++run == veto.needBlocks()) {
        break;
      }
    }
    // The prefix must also be whole blocks of the main group.
    int rest = end % member.strideBlocks();
    return rest == 0 ? end : vetoed(keys, member, veto, end - rest, match);
  }

  /** Takes a worker's life into the index, without blocks; its slot must be free. Writer thread. */
  public WorkerBlocks open(Worker worker, KvViewState state, KvCacheListener listener) {
    return open(worker, 0, state, listener);
  }

  /**
   * The same for one data-parallel rank of a worker. Ranks of one life share its slot; their order
   * of opening is of no importance.
   */
  WorkerBlocks open(Worker worker, int rank, KvViewState state, KvCacheListener listener) {
    for (int id : members.atSlot(worker.slot())) {
      Members.Member earlier = members.get(id);
      if (earlier != null && (earlier.worker().life() != worker.life() || earlier.rank() == rank)) {
        throw new IllegalStateException(
            "slot " + worker.slot() + " is still used by " + earlier.worker().name());
      }
    }
    WorkerBlocks opened = new WorkerBlocks(this, worker, rank, newId(), state, listener);
    publish(opened.member());
    return opened;
  }

  /**
   * Clears away up to {@code slots} slots of contents that were emptied or whose worker is gone;
   * true while there is more to do. Writer thread, between batches.
   */
  public boolean sweep(int slots) {
    int left = slots;
    while (left > 0 && !sweeps.isEmpty()) {
      Sweep sweep = sweeps.getFirst();
      left -= sweep.step(left);
      if (sweep.isDone()) {
        sweeps.removeFirst();
        freeIds.addLast(sweep.id);
        if (freeIds.size() > LATELY_FREED) {
          lowIds.add(freeIds.removeFirst());
        }
      }
    }
    return !sweeps.isEmpty();
  }

  /**
   * (block, worker) entries over all workers and tiers, blocks without a place and contents not yet
   * swept included. Writer thread.
   */
  public long blocks() {
    return blocks;
  }

  /** Distinct block keys. Writer thread. */
  public long keys() {
    return table.size();
  }

  /**
   * Memory of the shared table and the worker sets; {@link WorkerBlocks#bytes} comes on top. Writer
   * thread.
   */
  public long sharedBytes() {
    return table.bytes() + sets.bytes();
  }

  int newId() {
    Integer low = lowIds.poll();
    Integer free = low != null ? low : freeIds.pollFirst();
    return free != null ? free : nextId++;
  }

  /** Racy when not called by the writer thread. */
  boolean isFull() {
    return blocks >= maxBlocks;
  }

  /** One more block in a worker's tables. */
  void remember() {
    blocks++;
  }

  boolean add(int plane, long key, int member) {
    return table.add(plane, key, member);
  }

  void forget() {
    blocks--;
  }

  void forget(int count) {
    blocks -= count;
  }

  void remove(int plane, long key, int member) {
    table.remove(plane, key, member);
  }

  void publish(Members.Member member) {
    members = members.with(member.id(), member);
  }

  /** From now on nobody finds this content; its bits go with later sweeps. */
  void retire(int id, @Nullable EngineTable[] planes, Members.@Nullable Member replacement) {
    Members next = members.with(id, null);
    members = replacement == null ? next : next.with(replacement.id(), replacement);
    sweeps.addLast(new Sweep(id, planes));
  }

  /** Takes one emptied content out of the table, step by step. */
  private final class Sweep {
    final int id;
    private final @Nullable EngineTable[] planes;
    private int plane;
    private int slot;

    Sweep(int id, @Nullable EngineTable[] planes) {
      this.id = id;
      this.planes = planes;
    }

    int step(int slots) {
      EngineTable current = planes[plane];
      if (current == null) {
        plane++;
        return 0;
      }
      int from = slot;
      int at = plane;
      slot = current.sweep(from, slots, key -> table.remove(at, key, id));
      if (slot < 0) {
        blocks -= current.size();
        plane++;
        slot = 0;
      }
      return Math.max(1, slots);
    }

    boolean isDone() {
      return plane == planes.length;
    }
  }
}
