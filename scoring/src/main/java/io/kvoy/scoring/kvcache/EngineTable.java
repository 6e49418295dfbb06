// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * One worker's names for its blocks in one plane: engine hash to own key, with the number of
 * physical copies.
 *
 * <p>Sorted open addressing as in {@link KeyTable}, but keyed by a 32-bit tag of the engine hash:
 * twelve bytes a slot, seven eighths of them in use. Two hashes with one tag (expected once in a
 * worker of 100,000 blocks) are told apart by their keys when they come in; the second then goes to
 * a map by its whole hash, which is asked first. So every hash that was announced is found exactly;
 * a hash that was never announced is taken for another one with odds of blocks / 2^32.
 *
 * <p>The tag is secret ({@link Scatter}), so a worker cannot choose hashes that lie together. Were
 * it known all the same, time and memory would stay bounded: beyond a run of {@link #MAX_RUN} slots
 * a hash goes to the map, and the array is never longer than its homes and two such runs.
 *
 * <p>Copies beyond the first are counted aside: few blocks have any.
 *
 * <p>Writer thread only.
 */
final class EngineTable {

  /** No such hash. */
  static final long ABSENT = 0;

  /** Key of a block that exists but has no place in the index. */
  static final long UNPLACED = 1;

  /** Free slots behind the last home, at first; a run that reaches the end gets more. */
  private static final int SLACK = 16;

  private static final int MIN_HOMES = 16;

  /**
   * Longest way from a hash's home to the end of its run. With hashes that lie anywhere the longest
   * run of a table of a million is some hundred slots.
   */
  private static final int MAX_RUN = 4_096;

  private final Scatter scatter;
  private int homes = MIN_HOMES;
  private int[] tags = new int[MIN_HOMES + SLACK];
  private long[] keys = new long[MIN_HOMES + SLACK];
  private int inSlots;
  private int unplaced;
  private final Map<Long, Long> clashing = new HashMap<>();
  private final LongCounts copies = new LongCounts();

  EngineTable() {
    this(Scatter.SECRET);
  }

  EngineTable(Scatter scatter) {
    this.scatter = scatter;
  }

  /** Number of hashes. */
  int size() {
    return inSlots + clashing.size();
  }

  /** Number of physical copies, at least {@link #size}. */
  long references() {
    return size() + copies.total();
  }

  /** Number of hashes whose key is {@link #UNPLACED}. */
  int unplaced() {
    return unplaced;
  }

  long bytes() {
    return 32 + tags.length * 12L + copies.bytes() + clashing.size() * 96L;
  }

  /** The hash's key, {@link #UNPLACED} or {@link #ABSENT}. */
  long key(long hash) {
    if (!clashing.isEmpty()) {
      Long key = clashing.get(hash);
      if (key != null) {
        return key;
      }
    }
    int slot = find(tag(hash));
    return slot < 0 ? ABSENT : keys[slot];
  }

  /** Whether the hash is known whole, so that another key under it is no other hash's. */
  boolean isToldApart(long hash) {
    return !clashing.isEmpty() && clashing.containsKey(hash);
  }

  /** The hash was announced again: one more copy. */
  void addCopy(long hash) {
    copies.increment(hash);
  }

  /** Takes a copy beyond the first away; false when there is none. */
  boolean removeCopy(long hash) {
    return copies.decrement(hash);
  }

  /**
   * Adds a hash for which {@link #key} gave {@link #ABSENT}, or one that shares a tag with another.
   */
  void put(long hash, long key) {
    if (key == UNPLACED) {
      unplaced++;
    }
    int tag = tag(hash);
    if (find(tag) >= 0) {
      clashing.put(hash, key);
      return;
    }
    if (inSlots >= homes * 7L / 8) {
      resize(homes + (homes >>> 4) + 1);
    }
    int slot = ~find(tag);
    int end = runEnd(slot);
    if (end - home(tag) > MAX_RUN) {
      clashing.put(hash, key);
      return;
    }
    if (end == keys.length - 1) {
      lengthen();
    }
    System.arraycopy(keys, slot, keys, slot + 1, end - slot);
    System.arraycopy(tags, slot, tags, slot + 1, end - slot);
    keys[slot] = key;
    tags[slot] = tag;
    inSlots++;
  }

  /** Gives an {@link #UNPLACED} hash its key. */
  void place(long hash, long key) {
    unplaced--;
    if (clashing.replace(hash, key) == null) {
      keys[find(tag(hash))] = key;
    }
  }

  /** Removes the hash; its key, or {@link #ABSENT}. */
  long remove(long hash) {
    long key = removeHash(hash);
    if (key == UNPLACED) {
      unplaced--;
    }
    return key;
  }

  private long removeHash(long hash) {
    if (!clashing.isEmpty()) {
      Long key = clashing.remove(hash);
      if (key != null) {
        return key;
      }
    }
    int slot = find(tag(hash));
    if (slot < 0) {
      return ABSENT;
    }
    long key = keys[slot];
    int end = slot + 1;
    while (keys[end] != 0 && home(tags[end]) < end) {
      end++;
    }
    System.arraycopy(keys, slot + 1, keys, slot, end - slot - 1);
    System.arraycopy(tags, slot + 1, tags, slot, end - slot - 1);
    keys[end - 1] = 0;
    inSlots--;
    if (inSlots < homes / 4 && homes > MIN_HOMES) {
      resize(Math.max(MIN_HOMES, homes / 2));
    }
    return key;
  }

  /**
   * Hands out the placed keys from slot {@code from} on; returns the slot to go on with, or -1 at
   * the end.
   */
  int sweep(int from, int slots, KeySink sink) {
    int to = (int) Math.min(keys.length, (long) from + slots);
    for (int slot = from; slot < to; slot++) {
      if (keys[slot] != 0 && keys[slot] != UNPLACED) {
        sink.accept(keys[slot]);
      }
    }
    if (to < keys.length) {
      return to;
    }
    for (long key : clashing.values()) {
      if (key != UNPLACED) {
        sink.accept(key);
      }
    }
    return -1;
  }

  /** Takes keys without boxing. */
  @FunctionalInterface
  interface KeySink {
    void accept(long key);
  }

  private int tag(long hash) {
    return (int) (scatter.of(hash) >>> 32);
  }

  private int home(int tag) {
    return (int) (((tag & 0xFFFF_FFFFL) * homes) >>> 32);
  }

  private int find(int tag) {
    int slot = home(tag);
    while (keys[slot] != 0 && Integer.compareUnsigned(tags[slot], tag) < 0) {
      slot++;
    }
    return keys[slot] != 0 && tags[slot] == tag ? slot : ~slot;
  }

  private int runEnd(int slot) {
    int end = slot;
    while (keys[end] != 0) {
      end++;
    }
    return end;
  }

  /** More slots behind the last home: the last slot stays free. */
  private void lengthen() {
    int length = keys.length + Math.max(SLACK, keys.length - homes);
    tags = Arrays.copyOf(tags, length);
    keys = Arrays.copyOf(keys, length);
  }

  private void resize(int newHomes) {
    int[] oldTags = tags;
    long[] oldKeys = keys;
    homes = newHomes;
    tags = new int[newHomes + SLACK];
    keys = new long[newHomes + SLACK];
    int next = 0;
    for (int slot = 0; slot < oldKeys.length; slot++) {
      if (oldKeys[slot] == 0) {
        continue;
      }
      int target = Math.max(next, home(oldTags[slot]));
      if (target >= keys.length - 1) {
        lengthen();
      }
      tags[target] = oldTags[slot];
      keys[target] = oldKeys[slot];
      next = target + 1;
    }
  }

  /** Counts by 64-bit name, without boxing; linear probing with removal by moving back. */
  static final class LongCounts {
    private long[] names = new long[8];
    private int[] counts = new int[8];
    private int size;
    private long total;

    long total() {
      return total;
    }

    long bytes() {
      return 32 + names.length * 12L;
    }

    void increment(long name) {
      if ((size + 1) * 4 > names.length * 3) {
        grow();
      }
      int slot = slot(name);
      if (counts[slot] == 0) {
        names[slot] = name;
        size++;
      }
      if (counts[slot] < Integer.MAX_VALUE) {
        counts[slot]++;
        total++;
      }
    }

    boolean decrement(long name) {
      if (size == 0) {
        return false;
      }
      int slot = slot(name);
      if (counts[slot] == 0) {
        return false;
      }
      total--;
      if (--counts[slot] == 0) {
        size--;
        close(slot);
      }
      return true;
    }

    private void close(int hole) {
      int mask = names.length - 1;
      int open = hole;
      for (int i = (open + 1) & mask; counts[i] != 0; i = (i + 1) & mask) {
        int home = home(names[i]) & mask;
        if (((i - home) & mask) >= ((i - open) & mask)) {
          names[open] = names[i];
          counts[open] = counts[i];
          open = i;
        }
      }
      counts[open] = 0;
    }

    private int slot(long name) {
      int mask = names.length - 1;
      int slot = home(name) & mask;
      while (counts[slot] != 0 && names[slot] != name) {
        slot = (slot + 1) & mask;
      }
      return slot;
    }

    private static int home(long name) {
      return (int) (Scatter.SECRET.of(name) >>> 32);
    }

    private void grow() {
      long[] oldNames = names;
      int[] oldCounts = counts;
      names = new long[oldNames.length * 2];
      counts = new int[oldNames.length * 2];
      for (int i = 0; i < oldNames.length; i++) {
        if (oldCounts[i] != 0) {
          int slot = slot(oldNames[i]);
          names[slot] = oldNames[i];
          counts[slot] = oldCounts[i];
        }
      }
    }

    void clear() {
      Arrays.fill(counts, 0);
      size = 0;
      total = 0;
    }
  }
}
