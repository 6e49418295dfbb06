// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Block key to the members that hold the block, for all workers and tiers: the body of {@link
 * PrefixIndex}.
 *
 * <h2>Layout</h2>
 *
 * 64 segments by the key's top bits, so that growing one moves a small part. A segment is one byte
 * array of slots, each a key (8 bytes) and the id of the {@link WorkerSets} set that holds it on
 * the GPU (4 bytes): a look-up touches one cache line per key. The ids of the other planes (tiers,
 * groups of hybrid models) lie in arrays beside it, made when first used.
 *
 * <p>Open addressing with linear probing in <em>key order</em>: a key's home is its place in
 * proportion to its value, so the whole array stays sorted. A search ends at the first greater key,
 * hit or miss. At most seven tenths of the slots are full, which keeps searches within two cache
 * lines; growing copies from left to right without hashing, so it goes in small steps and at least
 * two thirds stay full.
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
  private static final int SEGMENT_BITS = 6;
  private static final int SEGMENTS = 1 << SEGMENT_BITS;
  private static final int SLOT_BYTES = 12;
  private static final int SET_AT = 8;

  /** Free slots behind the last home; a run that would reach the end makes the segment grow. */
  private static final int SLACK = 32;

  private static final int MIN_HOMES = 32;

  /** Distance of two versions in ints: a cache line each, so that writing one disturbs no other. */
  private static final int VERSION_STEP = 16;

  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.nativeOrder());
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.nativeOrder());
  private static final VarHandle VERSION = MethodHandles.arrayElementVarHandle(int[].class);

  private final WorkerSets sets;
  private final int[] versions = new int[SEGMENTS * VERSION_STEP];
  private final byte[][] segments = new byte[SEGMENTS][];

  /** Set ids of the planes beside the GPU's, by plane and segment. */
  private final int[][] @Nullable [] beside = new int[MAX_PLANES][SEGMENTS][];

  /** Keys by segment; writer only, as everything below. */
  private final int[] sizes = new int[SEGMENTS];

  private long keyCount;
  private long bytes;

  KeyTable(WorkerSets sets) {
    this.sets = sets;
    for (int i = 0; i < SEGMENTS; i++) {
      segments[i] = new byte[(MIN_HOMES + SLACK) * SLOT_BYTES];
      bytes += segments[i].length;
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
    for (int attempt = 0; attempt < PATIENCE; attempt++) {
      int version = (int) VERSION.getAcquire(versions, segment * VERSION_STEP);
      if ((version & 1) == 0) {
        byte[] slots = segments[segment];
        int slot = find(slots, key);
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
    int seen = 0;
    for (int i = from; i < to; i += step) {
      byte[] slots = segments[segmentOf(keys[i])];
      int at = home(keys[i], homes(slots)) * SLOT_BYTES;
      // A search goes two slots far on average: one in two ends in the next line.
      seen += slots[at] + slots[at + 3 * SLOT_BYTES];
    }
    return seen;
  }

  /** Adds the member; false when it was there already. */
  boolean add(int plane, long key, int member) {
    int segment = segmentOf(key);
    int slot = find(segments[segment], key);
    if (slot < 0) {
      slot = insert(segment, key, ~slot);
    }
    int old = setAt(plane, segment, segments[segment], slot);
    if (old != WorkerSets.EMPTY && sets.contains(old, member)) {
      return false;
    }
    set(plane, segment, slot, sets.toggled(old, member));
    if (old != WorkerSets.EMPTY) {
      sets.release(old);
    }
    return true;
  }

  /** Removes the member; false when it was not there. */
  boolean remove(int plane, long key, int member) {
    int segment = segmentOf(key);
    int slot = find(segments[segment], key);
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
    if (id == WorkerSets.EMPTY) {
      sets.release(id);
      if (isUnused(segment, slot)) {
        delete(segment, slot);
      }
    }
    return true;
  }

  private static int segmentOf(long key) {
    return (int) (key >>> (64 - SEGMENT_BITS));
  }

  private static int homes(byte[] slots) {
    return slots.length / SLOT_BYTES - SLACK;
  }

  private static int home(long key, int homes) {
    return (int) Math.unsignedMultiplyHigh(key << SEGMENT_BITS, homes);
  }

  private static long keyAt(byte[] slots, int slot) {
    return (long) LONG.get(slots, slot * SLOT_BYTES);
  }

  /** The key's slot, or the complement of the slot where it would go. The last slot is free. */
  private static int find(byte[] slots, long key) {
    int slot = home(key, homes(slots));
    long seen = keyAt(slots, slot);
    while (seen != 0 && seen + Long.MIN_VALUE < key + Long.MIN_VALUE) {
      seen = keyAt(slots, ++slot);
    }
    return seen == key ? slot : ~slot;
  }

  private int setAt(int plane, int segment, byte[] slots, int slot) {
    if (plane == 0) {
      return (int) INT.get(slots, slot * SLOT_BYTES + SET_AT);
    }
    int[] ids = beside[plane][segment];
    // Shorter than the segment only for a reader between two steps of a resize, who will look
    // again.
    return ids == null || slot >= ids.length ? WorkerSets.EMPTY : ids[slot];
  }

  /** In place and in one piece; whoever sees the id sees the words behind it. */
  private void set(int plane, int segment, int slot, int id) {
    VarHandle.releaseFence();
    if (plane == 0) {
      INT.set(segments[segment], slot * SLOT_BYTES + SET_AT, id);
    } else {
      besideOf(plane, segment)[slot] = id;
    }
  }

  private int[] besideOf(int plane, int segment) {
    int[] ids = beside[plane][segment];
    if (ids == null) {
      ids = new int[segments[segment].length / SLOT_BYTES];
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

  private int insert(int segment, long key, int wanted) {
    int slot = wanted;
    if (sizes[segment] >= homes(segments[segment]) * 7L / 10) {
      resize(segment, larger(homes(segments[segment])));
      slot = ~find(segments[segment], key);
    }
    int free = freeFrom(segments[segment], slot);
    while (free >= segments[segment].length / SLOT_BYTES - 1) {
      resize(segment, larger(homes(segments[segment])));
      slot = ~find(segments[segment], key);
      free = freeFrom(segments[segment], slot);
    }
    byte[] slots = segments[segment];
    begin(segment);
    move(slots, slot, slot + 1, free - slot);
    LONG.set(slots, slot * SLOT_BYTES, key);
    INT.set(slots, slot * SLOT_BYTES + SET_AT, WorkerSets.EMPTY);
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
    byte[] slots = segments[segment];
    int homes = homes(slots);
    int end = slot + 1;
    for (long next = keyAt(slots, end);
        next != 0 && home(next, homes) < end;
        next = keyAt(slots, end)) {
      end++;
    }
    begin(segment);
    move(slots, slot + 1, slot, end - slot - 1);
    LONG.set(slots, (end - 1) * SLOT_BYTES, 0L);
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

  private static void move(byte[] slots, int from, int to, int count) {
    System.arraycopy(slots, from * SLOT_BYTES, slots, to * SLOT_BYTES, count * SLOT_BYTES);
  }

  private static int freeFrom(byte[] slots, int slot) {
    int free = slot;
    while (keyAt(slots, free) != 0) {
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
    byte[] old = segments[segment];
    byte[] slots = new byte[(homes + SLACK) * SLOT_BYTES];
    int[] @Nullable [] ids = new int[MAX_PLANES][];
    for (int plane = 1; plane < MAX_PLANES; plane++) {
      ids[plane] = beside[plane][segment] == null ? null : new int[homes + SLACK];
    }
    int next = 0;
    int count = old.length / SLOT_BYTES;
    for (int slot = 0; slot < count; slot++) {
      long key = keyAt(old, slot);
      if (key == 0) {
        continue;
      }
      int target = Math.max(next, home(key, homes));
      if (target >= homes + SLACK - 1) {
        return false;
      }
      System.arraycopy(old, slot * SLOT_BYTES, slots, target * SLOT_BYTES, SLOT_BYTES);
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
    bytes += slots.length - old.length;
    for (int plane = 1; plane < MAX_PLANES; plane++) {
      int[] to = ids[plane];
      if (to != null) {
        bytes += 4L * (to.length - count);
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
