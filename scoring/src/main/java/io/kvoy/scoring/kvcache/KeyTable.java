// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Block key to the members that hold the block, for all workers and tiers: the body of {@link
 * PrefixIndex}.
 *
 * <h2>Layout</h2>
 *
 * 256 segments by the key's top byte, so that growing one moves a small part. In a segment,
 * parallel primitive arrays: keys, and per plane (tier or group) the id of a {@link WorkerSets}
 * set. Open addressing with linear probing in <em>key order</em>: a key's home is its place in
 * proportion to its value, so the whole array stays sorted. A search ends at the first greater key,
 * hit or miss, which allows five sixths of the slots to be full; growing copies from left to right
 * without hashing, so it can go in small steps.
 *
 * <h2>Threads</h2>
 *
 * One writer. Readers take no lock: a segment's version is odd while entries are being moved, and a
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
  private static final int SEGMENTS = 256;
  private static final int SEGMENT_SHIFT = 56;

  /**
   * Free slots behind the last home; a run that would reach the end makes the segment grow instead.
   */
  private static final int SLACK = 32;

  private static final int MIN_HOMES = 32;
  private static final VarHandle VERSION;

  static {
    try {
      VERSION = MethodHandles.lookup().findVarHandle(Segment.class, "version", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final WorkerSets sets;
  private final Segment[] segments = new Segment[SEGMENTS];
  private long keyCount;
  private long bytes;

  KeyTable(WorkerSets sets) {
    this.sets = sets;
    for (int i = 0; i < SEGMENTS; i++) {
      segments[i] = new Segment(new Table(MIN_HOMES, new int[MAX_PLANES][]));
      bytes += segments[i].table.bytes();
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
    Segment segment = segments[(int) (key >>> SEGMENT_SHIFT)];
    for (int attempt = 0; attempt < PATIENCE; attempt++) {
      int version = (int) VERSION.getAcquire(segment);
      if ((version & 1) == 0) {
        Table table = segment.table;
        int[] ids = table.planes[plane];
        int id = WorkerSets.EMPTY;
        if (ids != null) {
          int slot = table.find(key);
          id = slot < 0 ? WorkerSets.EMPTY : ids[slot];
        }
        VarHandle.acquireFence();
        if ((int) VERSION.getOpaque(segment) == version) {
          return id;
        }
      }
      Thread.onSpinWait();
    }
    return CONTENDED;
  }

  /**
   * Any thread: loads the cache lines in which the keys {@code [from, to)} are expected, all at
   * once instead of one after the other. Returns a value that depends on them, so that the loads
   * are not dropped.
   */
  int touch(int plane, long[] keys, int from, int to) {
    long seen = 0;
    for (int i = from; i < to; i++) {
      long key = keys[i];
      Table table = segments[(int) (key >>> SEGMENT_SHIFT)].table;
      int home = table.home(key);
      int[] ids = table.planes[plane];
      seen ^= table.keys[home] ^ (ids == null ? 0 : ids[home]);
    }
    return (int) seen;
  }

  /** Adds the member; false when it was there already. */
  boolean add(int plane, long key, int member) {
    Segment segment = segments[(int) (key >>> SEGMENT_SHIFT)];
    int slot = segment.table.find(key);
    if (slot < 0) {
      slot = insert(segment, key);
    }
    int[] ids = segment.table.planes[plane];
    if (ids == null) {
      ids = addPlane(segment, plane);
    }
    int old = ids[slot];
    if (old != WorkerSets.EMPTY && sets.contains(old, member)) {
      return false;
    }
    int id = sets.toggled(old, member);
    // Release: whoever sees the id sees the words behind it.
    VarHandle.releaseFence();
    ids[slot] = id;
    if (old != WorkerSets.EMPTY) {
      sets.release(old);
    }
    return true;
  }

  /** Removes the member; false when it was not there. */
  boolean remove(int plane, long key, int member) {
    Segment segment = segments[(int) (key >>> SEGMENT_SHIFT)];
    Table table = segment.table;
    int[] ids = table.planes[plane];
    int slot = ids == null ? -1 : table.find(key);
    if (ids == null || slot < 0 || !sets.contains(ids[slot], member)) {
      return false;
    }
    int old = ids[slot];
    int id = sets.toggled(old, member);
    if (id == WorkerSets.EMPTY) {
      sets.release(id);
    }
    VarHandle.releaseFence();
    ids[slot] = id;
    sets.release(old);
    if (id == WorkerSets.EMPTY && table.isUnused(slot)) {
      delete(segment, slot);
    }
    return true;
  }

  private int insert(Segment segment, long key) {
    if (segment.size >= segment.table.maxSize) {
      resize(segment, segment.table.homes + (segment.table.homes >>> 3) + 1);
    }
    int slot = ~segment.table.find(key);
    int end = segment.table.runEnd(slot);
    while (end >= segment.table.keys.length - 1) {
      resize(segment, segment.table.homes + (segment.table.homes >>> 3) + 1);
      slot = ~segment.table.find(key);
      end = segment.table.runEnd(slot);
    }
    int version = segment.version;
    VERSION.setOpaque(segment, version + 1);
    VarHandle.storeStoreFence();
    segment.table.shiftRight(slot, end);
    segment.table.keys[slot] = key;
    VERSION.setRelease(segment, version + 2);
    segment.size++;
    keyCount++;
    return slot;
  }

  private void delete(Segment segment, int slot) {
    Table table = segment.table;
    int end = slot + 1;
    while (table.keys[end] != 0 && table.home(table.keys[end]) < end) {
      end++;
    }
    int version = segment.version;
    VERSION.setOpaque(segment, version + 1);
    VarHandle.storeStoreFence();
    table.shiftLeft(slot, end);
    VERSION.setRelease(segment, version + 2);
    segment.size--;
    keyCount--;
    if (segment.size < table.maxSize / 3 && table.homes > MIN_HOMES) {
      resize(segment, Math.max(MIN_HOMES, table.homes / 2));
    }
  }

  /**
   * Builds the new arrays beside the old ones; readers of the old ones find a changed version and
   * look again.
   */
  private void resize(Segment segment, int homes) {
    Table old = segment.table;
    Table table = old.resized(homes);
    while (table == null) {
      homes += (homes >>> 3) + 1;
      table = old.resized(homes);
    }
    publish(segment, table);
  }

  private int[] addPlane(Segment segment, int plane) {
    Table table = segment.table.withPlane(plane);
    publish(segment, table);
    return java.util.Objects.requireNonNull(table.planes[plane]);
  }

  private void publish(Segment segment, Table table) {
    bytes += table.bytes() - segment.table.bytes();
    int version = segment.version;
    VERSION.setOpaque(segment, version + 1);
    VarHandle.storeStoreFence();
    segment.table = table;
    VERSION.setRelease(segment, version + 2);
  }

  private static final class Segment {
    int version;
    Table table;
    int size;

    Segment(Table table) {
      this.table = table;
    }
  }

  /** The arrays of a segment; their contents change in place, their lengths do not. */
  private static final class Table {
    final int homes;
    final int maxSize;
    final long[] keys;
    final int[] @Nullable [] planes;

    Table(int homes, int[] @Nullable [] planes) {
      this(homes, new long[homes + SLACK], planes);
    }

    private Table(int homes, long[] keys, int[] @Nullable [] planes) {
      this.homes = homes;
      this.maxSize = (int) (homes * 5L / 6);
      this.keys = keys;
      this.planes = planes;
    }

    int home(long key) {
      return (int) Math.unsignedMultiplyHigh(key << (64 - SEGMENT_SHIFT), homes);
    }

    /**
     * The key's slot, or the complement of the slot where it would go. The last slot is always
     * free.
     */
    int find(long key) {
      long[] sorted = keys;
      int slot = home(key);
      long seen = sorted[slot];
      while (seen != 0 && seen + Long.MIN_VALUE < key + Long.MIN_VALUE) {
        seen = sorted[++slot];
      }
      return seen == key ? slot : ~slot;
    }

    int runEnd(int slot) {
      int end = slot;
      while (keys[end] != 0) {
        end++;
      }
      return end;
    }

    boolean isUnused(int slot) {
      for (int[] ids : planes) {
        if (ids != null && ids[slot] != WorkerSets.EMPTY) {
          return false;
        }
      }
      return true;
    }

    void shiftRight(int slot, int end) {
      System.arraycopy(keys, slot, keys, slot + 1, end - slot);
      for (int[] ids : planes) {
        if (ids != null) {
          System.arraycopy(ids, slot, ids, slot + 1, end - slot);
          ids[slot] = WorkerSets.EMPTY;
        }
      }
    }

    void shiftLeft(int slot, int end) {
      System.arraycopy(keys, slot + 1, keys, slot, end - slot - 1);
      keys[end - 1] = 0;
      for (int[] ids : planes) {
        if (ids != null) {
          System.arraycopy(ids, slot + 1, ids, slot, end - slot - 1);
          ids[end - 1] = WorkerSets.EMPTY;
        }
      }
    }

    Table withPlane(int plane) {
      int[] @Nullable [] more = Arrays.copyOf(planes, planes.length);
      more[plane] = new int[keys.length];
      return new Table(homes, keys, more);
    }

    /** A copy with another number of homes; null when the last run would not fit. */
    @Nullable Table resized(int newHomes) {
      int[] @Nullable [] newPlanes = new int[MAX_PLANES][];
      for (int p = 0; p < MAX_PLANES; p++) {
        if (planes[p] != null) {
          newPlanes[p] = new int[newHomes + SLACK];
        }
      }
      Table table = new Table(newHomes, newPlanes);
      int next = 0;
      for (int slot = 0; slot < keys.length; slot++) {
        long key = keys[slot];
        if (key == 0) {
          continue;
        }
        int target = Math.max(next, table.home(key));
        if (target >= table.keys.length - 1) {
          return null;
        }
        table.keys[target] = key;
        for (int p = 0; p < MAX_PLANES; p++) {
          int[] ids = planes[p];
          int[] newIds = newPlanes[p];
          if (ids != null && newIds != null) {
            newIds[target] = ids[slot];
          }
        }
        next = target + 1;
      }
      return table;
    }

    long bytes() {
      long total = 16 + keys.length * 8L;
      for (int[] ids : planes) {
        total += ids == null ? 0 : 16 + ids.length * 4L;
      }
      return total;
    }
  }
}
