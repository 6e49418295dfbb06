// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Block key to the members that hold the block, for all workers and tiers: the body of {@link
 * PrefixIndex}.
 *
 * <h2>Layout</h2>
 *
 * 128 segments by the key's top 7 bits, so that growing one moves a small part. A segment is one
 * array of longs, a slot each: the next 40 bits of the key and the 24-bit id of the {@link
 * WorkerSets} set that holds the block on the GPU. The ids of the other planes (tiers, groups of
 * hybrid models) lie in arrays beside it, made when first used.
 *
 * <p>Open addressing with linear probing in <em>key order</em>: a key's home is its place in
 * proportion to its value, so the whole array stays sorted. A search ends at the first greater key,
 * hit or miss, and rarely leaves its cache line; growing copies from left to right without hashing,
 * so it goes in small steps and at least 70 % of the slots stay in use.
 *
 * <p>The last 17 bits of a key are dropped: two keys that differ only there are one entry. Among 14
 * million keys that is expected of one pair, and a match is only wrong if the worker with the other
 * block also holds everything before it in this prompt. A slot of 12 bytes with the whole key would
 * take 3 to 4 bytes more per entry and a tenth more time.
 *
 * <h2>Threads</h2>
 *
 * One writer. Readers take no lock: a segment's version is odd while slots are being moved, and a
 * reader that sees it odd or changed looks again. A reader that is unlucky {@link #PATIENCE} times
 * answers {@link #CONTENDED}, so no reader ever waits for a writer that was put to sleep in the
 * middle of a move.
 */
final class KeyTable {

  /** Instead of a set id: could not be read now. */
  static final int CONTENDED = -1;

  /** Most planes: three tiers and the groups of hybrid models. */
  static final int MAX_PLANES = 16;

  private static final int PATIENCE = 1000;
  private static final int SEGMENT_BITS = 7;
  private static final int SEGMENTS = 1 << SEGMENT_BITS;
  private static final int PART_BITS = 64 - WorkerSets.ID_BITS;
  private static final int ID_MASK = (1 << WorkerSets.ID_BITS) - 1;

  /** Free slots behind the last home; a run that would reach the end makes the segment grow. */
  private static final int SLACK = 32;

  private static final int MIN_HOMES = 32;

  /** Distance of two versions in ints: a cache line each, so that writing one disturbs no other. */
  private static final int VERSION_STEP = 16;

  private static final VarHandle VERSION = MethodHandles.arrayElementVarHandle(int[].class);

  private final WorkerSets sets;
  private final int[] versions = new int[SEGMENTS * VERSION_STEP];
  private final long[][] segments = new long[SEGMENTS][];

  /** Set ids of the planes beside the GPU's, by plane and segment. */
  private final int[][] @Nullable [] beside = new int[MAX_PLANES][SEGMENTS][];

  /** Keys by segment; writer only, as everything below. */
  private final int[] sizes = new int[SEGMENTS];

  private long keyCount;
  private long bytes;

  KeyTable(WorkerSets sets) {
    this.sets = sets;
    for (int i = 0; i < SEGMENTS; i++) {
      segments[i] = new long[MIN_HOMES + SLACK];
      bytes += 8L * segments[i].length;
    }
  }

  /** Keys with at least one member in any plane. */
  long size() {
    return keyCount;
  }

  /** Memory of the arrays. */
  long bytes() {
    return bytes;
  }

  /** Any thread: the id of the members that hold the block in the plane, or {@link #CONTENDED}. */
  int read(int plane, long key) {
    int segment = segmentOf(key);
    long part = partOf(key);
    for (int attempt = 0; attempt < PATIENCE; attempt++) {
      int version = (int) VERSION.getAcquire(versions, segment * VERSION_STEP);
      if ((version & 1) == 0) {
        long[] slots = segments[segment];
        int slot = find(slots, part);
        int id = slot < 0 ? WorkerSets.EMPTY : setAt(plane, segment, slots, slot);
        VarHandle.acquireFence();
        if ((int) VERSION.getOpaque(versions, segment * VERSION_STEP) == version) {
          return id;
        }
      }
      Thread.onSpinWait();
    }
    return CONTENDED;
  }

  /**
   * Any thread: loads the cache lines in which every {@code step}-th of the keys {@code [from, to)}
   * is expected, all at once instead of one after the other. Returns a value that depends on them,
   * so that the loads are not dropped.
   */
  int touch(long[] keys, int from, int to, int step) {
    long seen = 0;
    for (int i = from; i < to; i += step) {
      long[] slots = segments[segmentOf(keys[i])];
      int home = home(partOf(keys[i]), homes(slots));
      // A search goes one or two slots far on average.
      seen += slots[home] + slots[home + 2];
    }
    return (int) seen;
  }

  /** Adds the member; false when it was there already. */
  boolean add(int plane, long key, int member) {
    int segment = segmentOf(key);
    int slot = find(segments[segment], partOf(key));
    if (slot < 0) {
      slot = insert(segment, partOf(key), ~slot);
    }
    int old = setAt(plane, segment, segments[segment], slot);
    if (old != WorkerSets.EMPTY && sets.contains(old, member)) {
      return false;
    }
    int id = sets.toggled(old, member);
    set(plane, segment, slot, id);
    sets.release(old);
    if (id == WorkerSets.EMPTY && isUnused(segment, slot)) {
      delete(segment, slot);
    }
    return true;
  }

  /** Removes the member; false when it was not there. */
  boolean remove(int plane, long key, int member) {
    int segment = segmentOf(key);
    int slot = find(segments[segment], partOf(key));
    if (slot < 0) {
      return false;
    }
    int old = setAt(plane, segment, segments[segment], slot);
    if (!sets.contains(old, member)) {
      return false;
    }
    int id = sets.toggled(old, member);
    set(plane, segment, slot, id);
    sets.release(old);
    if (id == WorkerSets.EMPTY && isUnused(segment, slot)) {
      delete(segment, slot);
    }
    return true;
  }

  private static int segmentOf(long key) {
    return (int) (key >>> (64 - SEGMENT_BITS));
  }

  /** The bits of the key that its slot shows; never 0, since a slot of 0 is free. */
  private static long partOf(long key) {
    long part = key << SEGMENT_BITS >>> WorkerSets.ID_BITS;
    return part == 0 ? 1 : part;
  }

  private static int homes(long[] slots) {
    return slots.length - SLACK;
  }

  private static int home(long part, int homes) {
    return (int) ((part * homes) >>> PART_BITS);
  }

  /** The slot, or the complement of the slot where it would go. The last slot is free. */
  private static int find(long[] slots, long part) {
    int slot = home(part, homes(slots));
    long seen = slots[slot];
    while (seen != 0 && seen >>> WorkerSets.ID_BITS < part) {
      seen = slots[++slot];
    }
    return seen >>> WorkerSets.ID_BITS == part ? slot : ~slot;
  }

  private int setAt(int plane, int segment, long[] slots, int slot) {
    if (plane == 0) {
      return (int) slots[slot] & ID_MASK;
    }
    int[] ids = beside[plane][segment];
    // Shorter than the segment only for a reader between two steps of a resize, who looks again.
    return ids == null || slot >= ids.length ? WorkerSets.EMPTY : ids[slot];
  }

  /** In place and in one piece; whoever sees the id sees the words behind it. */
  private void set(int plane, int segment, int slot, int id) {
    VarHandle.releaseFence();
    if (plane == 0) {
      long[] slots = segments[segment];
      slots[slot] = (slots[slot] & ~(long) ID_MASK) | id;
    } else {
      besideOf(plane, segment)[slot] = id;
    }
  }

  private int[] besideOf(int plane, int segment) {
    int[] ids = beside[plane][segment];
    if (ids == null) {
      ids = new int[segments[segment].length];
      bytes += ids.length * 4L;
      begin(segment);
      beside[plane][segment] = ids;
      end(segment);
    }
    return ids;
  }

  private boolean isUnused(int segment, int slot) {
    for (int plane = 0; plane < MAX_PLANES; plane++) {
      if (setAt(plane, segment, segments[segment], slot) != WorkerSets.EMPTY) {
        return false;
      }
    }
    return true;
  }

  private int insert(int segment, long part, int wanted) {
    int slot = wanted;
    if (sizes[segment] >= homes(segments[segment]) * 3L / 4) {
      resize(segment, larger(homes(segments[segment])));
      slot = ~find(segments[segment], part);
    }
    int free = freeFrom(segments[segment], slot);
    while (free >= segments[segment].length - 1) {
      resize(segment, larger(homes(segments[segment])));
      slot = ~find(segments[segment], part);
      free = freeFrom(segments[segment], slot);
    }
    long[] slots = segments[segment];
    begin(segment);
    System.arraycopy(slots, slot, slots, slot + 1, free - slot);
    slots[slot] = part << WorkerSets.ID_BITS;
    for (int plane = 1; plane < MAX_PLANES; plane++) {
      int[] ids = beside[plane][segment];
      if (ids != null) {
        System.arraycopy(ids, slot, ids, slot + 1, free - slot);
        ids[slot] = WorkerSets.EMPTY;
      }
    }
    end(segment);
    sizes[segment]++;
    keyCount++;
    return slot;
  }

  private void delete(int segment, int slot) {
    long[] slots = segments[segment];
    int homes = homes(slots);
    int end = slot + 1;
    while (slots[end] != 0 && home(slots[end] >>> WorkerSets.ID_BITS, homes) < end) {
      end++;
    }
    begin(segment);
    System.arraycopy(slots, slot + 1, slots, slot, end - slot - 1);
    slots[end - 1] = 0;
    for (int plane = 1; plane < MAX_PLANES; plane++) {
      int[] ids = beside[plane][segment];
      if (ids != null) {
        System.arraycopy(ids, slot + 1, ids, slot, end - slot - 1);
        ids[end - 1] = WorkerSets.EMPTY;
      }
    }
    end(segment);
    sizes[segment]--;
    keyCount--;
    if (sizes[segment] < homes / 4 && homes > MIN_HOMES) {
      resize(segment, Math.max(MIN_HOMES, homes / 2));
    }
  }

  private static int freeFrom(long[] slots, int slot) {
    int free = slot;
    while (slots[free] != 0) {
      free++;
    }
    return free;
  }

  private static int larger(int homes) {
    return homes + (homes >>> 4) + 1;
  }

  /** Fills new arrays beside the old ones, then swaps them. */
  private void resize(int segment, int wantedHomes) {
    int homes = wantedHomes;
    while (!refill(segment, homes)) {
      homes = larger(homes);
    }
  }

  /** False when the last run does not fit. */
  private boolean refill(int segment, int homes) {
    long[] old = segments[segment];
    long[] slots = new long[homes + SLACK];
    int[] @Nullable [] ids = new int[MAX_PLANES][];
    for (int plane = 1; plane < MAX_PLANES; plane++) {
      ids[plane] = beside[plane][segment] == null ? null : new int[slots.length];
    }
    int next = 0;
    for (int slot = 0; slot < old.length; slot++) {
      if (old[slot] == 0) {
        continue;
      }
      int target = Math.max(next, home(old[slot] >>> WorkerSets.ID_BITS, homes));
      if (target >= slots.length - 1) {
        return false;
      }
      slots[target] = old[slot];
      for (int plane = 1; plane < MAX_PLANES; plane++) {
        int[] to = ids[plane];
        if (to != null) {
          to[target] = Objects.requireNonNull(beside[plane][segment])[slot];
        }
      }
      next = target + 1;
    }
    begin(segment);
    segments[segment] = slots;
    bytes += 8L * (slots.length - old.length);
    for (int plane = 1; plane < MAX_PLANES; plane++) {
      int[] to = ids[plane];
      if (to != null) {
        bytes += 4L * (to.length - old.length);
        beside[plane][segment] = to;
      }
    }
    end(segment);
    return true;
  }

  private void begin(int segment) {
    VERSION.setOpaque(versions, segment * VERSION_STEP, versions[segment * VERSION_STEP] + 1);
    VarHandle.storeStoreFence();
  }

  private void end(int segment) {
    VERSION.setRelease(versions, segment * VERSION_STEP, versions[segment * VERSION_STEP] + 1);
  }
}
