// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Block key to the members that hold the block, for all workers and tiers: the body of {@link
 * PrefixIndex}.
 *
 * <h2>Layout</h2>
 *
 * 128 segments by the key's top 7 bits, so that growing one moves a small part. A segment is one
 * array of longs, a slot each: the next 40 bits of the key and the 23-bit id of the {@link
 * WorkerSets} set that holds the block on the GPU. The ids of the other planes (tiers, groups of
 * hybrid models) lie in arrays beside it, made when first used.
 *
 * <p>Slots come in lines of eight, each a cache line. A key's home is the line in proportion to its
 * value, and the keys of a segment lie in <em>descending</em> order, each at or behind the start of
 * its home: a sorted hash table with buckets. Free slots are 0, and so less than every key. Thus
 * three comparisons without a branch find a key within its line, hit or miss, and 98 % of the keys
 * lie in their home. Growing copies from left to right without hashing, so it goes in small steps
 * and 53 to 56 % of the slots stay in use: at 65 to 69 % the table would be a sixth smaller and a
 * look-up 4 % slower, since more keys lie outside their home.
 *
 * <p>Keys are laid out by their image under a secret bijection ({@link Scatter}); "key" below means
 * that image. So nobody can choose prompts or blocks that lie together. Memory does not depend on
 * the secret: slots are at most the homes and twice the keys.
 *
 * <p>The last 17 bits of a key are dropped: two keys that differ only there are one entry. Among 14
 * million keys that is expected of one pair, and a match is only wrong if the worker with the other
 * block also holds everything before it in this prompt. A slot of 12 bytes with the whole key would
 * take 3 to 4 bytes more per entry and a tenth more time.
 *
 * <h2>Look-ups</h2>
 *
 * A prompt has thousands of keys, each in a cache line of its own that is in no cache, and a core
 * waits for a dozen such lines at once at the most. So they are read by {@link Batch}es of up to
 * {@value Batch#KEYS}: first all their lines are asked for, and then they are read without a branch
 * that depends on what is in them, which would be mispredicted half of the time.
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
  private static final int PART_BITS = 40;
  private static final int ID_BITS = WorkerSets.ID_BITS;
  private static final int ID_MASK = (1 << ID_BITS) - 1;

  /** Slots of a line: 64 bytes. */
  private static final int LINE = 8;

  /** The last slot of a line's first half. */
  private static final int HALF = 3;

  /**
   * First slot of the first line. Collectors align large arrays to pages or regions, and with the
   * 16 bytes before the first element this makes a line one line of the cache. If not, it is two.
   */
  private static final int FIRST = 6;

  /** Free slots behind the last line, at first; a run that reaches the end gets more. */
  private static final int SLACK = 32;

  private static final int MIN_LINES = 4;

  /** Distance of two states in longs: a cache line each, so that writing one disturbs no other. */
  private static final int STATE_STEP = 8;

  private static final VarHandle STATE = MethodHandles.arrayElementVarHandle(long[].class);

  /** A state's version is its upper half. */
  private static final long ONE_VERSION = 1L << 32;

  private final Scatter scatter;
  private final WorkerSets sets;

  /** In {@link #states}: the version of the whole table. */
  private static final int MOVES = SEGMENTS * STATE_STEP;

  /** By segment: its version, odd while slots are being moved, and its number of lines. */
  private final long[] states = new long[(SEGMENTS + 1) * STATE_STEP];

  private final long[][] segments = new long[SEGMENTS][];

  /** Set ids of the planes beside the GPU's, by plane and segment. */
  private final int[][] @Nullable [] beside = new int[MAX_PLANES][SEGMENTS][];

  /** Keys by segment; writer only, as everything below. */
  private final int[] sizes = new int[SEGMENTS];

  private long keyCount;
  private long bytes;

  KeyTable(WorkerSets sets) {
    this(sets, Scatter.SECRET);
  }

  KeyTable(WorkerSets sets, Scatter scatter) {
    this.sets = sets;
    this.scatter = scatter;
    for (int i = 0; i < SEGMENTS; i++) {
      states[i * STATE_STEP] = MIN_LINES;
      segments[i] = new long[FIRST + MIN_LINES * LINE + SLACK];
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
  int read(int plane, long name) {
    long key = scatter.of(name);
    int segment = segmentOf(key);
    long part = partOf(key);
    for (int attempt = 0; attempt < PATIENCE; attempt++) {
      long state = (long) STATE.getAcquire(states, segment * STATE_STEP);
      if ((state & ONE_VERSION) == 0) {
        long[] slots = segments[segment];
        int slot = find(slots, (int) state, part);
        int id = slot < 0 ? WorkerSets.EMPTY : setAt(plane, segment, slots, slot);
        VarHandle.acquireFence();
        if ((long) STATE.getOpaque(states, segment * STATE_STEP) == state) {
          return id;
        }
      }
      Thread.onSpinWait();
    }
    return CONTENDED;
  }

  /**
   * Some keys of a look-up that are read together; one per thread, since it is too large to be made
   * anew for each request.
   */
  static final class Batch {
    private static final ThreadLocal<Batch> OF_THREAD = ThreadLocal.withInitial(Batch::new);

    /**
     * Most keys: several times as many as a core has loads under way, since it waits for the last
     * ones of a batch, and for the few that lie outside their home.
     */
    static final int KEYS = 256;

    private final int[] segments = new int[KEYS];
    private final int[] homes = new int[KEYS];

    /** First the keys, then the greatest slot that each may have. */
    private final long[] keys = new long[KEYS];

    private final long[] states = new long[KEYS];
    private final long[] slots = new long[KEYS];
    private final int[] places = new int[KEYS];
    private final int[] further = new int[KEYS];

    /** After {@link KeyTable#read}: the set ids of plane 0, or {@link #CONTENDED}. */
    final int[] ids = new int[KEYS];

    /** This thread's. */
    static Batch ofThread() {
      return OF_THREAD.get();
    }
  }

  /**
   * Any thread: {@link #read} of plane 0 for {@code count} names from {@code from} on, each {@code
   * step}-th, at most {@link Batch#KEYS}.
   *
   * <p>One short loop after the other, without a branch that depends on what is in the table: so
   * the core sees the loads of a dozen rounds ahead and has them all under way at once.
   */
  void read(long[] names, int from, int count, int step, Batch batch) {
    long moves = (long) STATE.getAcquire(states, MOVES);
    locate(names, from, count, step, batch);
    // These loads not before the states, nor the states' next ones before these.
    VarHandle.acquireFence();
    touch(count, batch);
    int left = find(count, batch);
    while (left > 0) {
      left = findFurther(left, batch);
    }
    VarHandle.acquireFence();
    if ((moves & ONE_VERSION) != 0 || (long) STATE.getOpaque(states, MOVES) != moves) {
      for (int i = 0; i < count; i++) {
        long state = batch.states[i];
        if (states[batch.segments[i] * STATE_STEP] != state || (state & ONE_VERSION) != 0) {
          batch.ids[i] = read(0, names[from + i * step]);
        }
      }
    }
  }

  /** Finds out where the keys are expected. */
  private void locate(long[] names, int from, int count, int step, Batch batch) {
    long[] keys = batch.keys;
    if (step == 1) {
      System.arraycopy(names, from, keys, 0, count);
    } else {
      for (int i = 0; i < count; i++) {
        keys[i] = names[from + i * step];
      }
    }
    // In place, in loops of their own: the compiler does eight at once.
    Scatter scattered = scatter;
    for (int i = 0; i < count; i++) {
      keys[i] = scattered.of(keys[i]);
    }
    int[] segmentAt = batch.segments;
    for (int i = 0; i < count; i++) {
      segmentAt[i] = (int) (keys[i] >>> (64 - SEGMENT_BITS));
    }
    for (int i = 0; i < count; i++) {
      keys[i] = partOf(keys[i]) << ID_BITS | ID_MASK;
    }
    int[] homes = batch.homes;
    long[] stateAt = batch.states;
    long[] now = states;
    for (int i = 0; i < count; i++) {
      long state = now[segmentAt[i] * STATE_STEP];
      stateAt[i] = state;
      homes[i] = home(keys[i] >>> ID_BITS, (int) state);
    }
  }

  /** Loads the lines, and finds out in which half of its line each key is. */
  private void touch(int count, Batch batch) {
    int[] segmentAt = batch.segments;
    int[] homes = batch.homes;
    int[] halves = batch.places;
    long[] keys = batch.keys;
    long[][] slotsOf = segments;
    for (int i = 0; i < count; i++) {
      long[] slots = slotsOf[segmentAt[i]];
      // The segment may have shrunk meanwhile.
      int at = Math.min(homes[i], slots.length - LINE);
      halves[i] = at + (above(slots[at + HALF], keys[i]) << 2);
    }
  }

  /** Looks into the lines; notes and counts those that have only greater keys. */
  private int find(int count, Batch batch) {
    int[] segmentAt = batch.segments;
    int[] halves = batch.places;
    long[] keys = batch.keys;
    long[] found = batch.slots;
    long[][] slotsOf = segments;
    for (int i = 0; i < count; i++) {
      long[] slots = slotsOf[segmentAt[i]];
      long greatest = keys[i];
      int at = Math.min(halves[i], slots.length - LINE);
      at += above(slots[at + 1], greatest) << 1;
      at += above(slots[at], greatest);
      found[i] = slots[at];
    }
    int[] ids = batch.ids;
    for (int i = 0; i < count; i++) {
      ids[i] = idIn(found[i], keys[i]);
    }
    int[] above = batch.places;
    for (int i = 0; i < count; i++) {
      above[i] = above(found[i], keys[i]);
    }
    int[] further = batch.further;
    int left = 0;
    for (int i = 0; i < count; i++) {
      further[left] = i;
      left += above[i];
    }
    return left;
  }

  /** The same one line further for those that {@link #find} has noted. */
  private int findFurther(int count, Batch batch) {
    int left = 0;
    for (int j = 0; j < count; j++) {
      int i = batch.further[j];
      long[] slots = segments[batch.segments[i]];
      long greatest = batch.keys[i];
      int next = batch.homes[i] + LINE;
      batch.homes[i] = next;
      int last = slots.length - LINE;
      int at = Math.min(next, last);
      at += above(slots[at + HALF], greatest) << 2;
      at += above(slots[at + 1], greatest) << 1;
      at += above(slots[at], greatest);
      long slot = slots[at];
      batch.ids[i] = idIn(slot, greatest);
      batch.further[left] = i;
      // The last slot is free, unless the segment has been moved.
      left += next < last ? above(slot, greatest) : 0;
    }
    return left;
  }

  private static int idIn(long slot, long greatest) {
    long difference = (slot ^ greatest) >>> ID_BITS;
    return (int) (slot & ((difference - 1) >> 63)) & ID_MASK;
  }

  /** 1 if the slot is greater, else 0, without a branch; neither is negative. */
  private static int above(long slot, long greatest) {
    return (int) ((greatest - slot) >>> 63);
  }

  /** Adds the member; false when it was there already. */
  boolean add(int plane, long name, int member) {
    long key = scatter.of(name);
    int segment = segmentOf(key);
    int slot = find(segments[segment], lines(segment), partOf(key));
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
  boolean remove(int plane, long name, int member) {
    long key = scatter.of(name);
    int segment = segmentOf(key);
    int slot = find(segments[segment], lines(segment), partOf(key));
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
    return Math.max(1, key << SEGMENT_BITS >>> (64 - PART_BITS));
  }

  private int lines(int segment) {
    return (int) states[segment * STATE_STEP];
  }

  /** First slot of the key's line; greater keys lie before less ones. */
  private static int home(long part, int lines) {
    return FIRST + (lines - 1 - (int) ((part * lines) >>> PART_BITS)) * LINE;
  }

  /**
   * The slot, or the complement of the slot where it would go. The last slot is free. A reader
   * between two steps of a resize may have more lines than slots, and looks again.
   */
  private static int find(long[] slots, int lines, long part) {
    int slot = Math.min(home(part, lines), slots.length - 1);
    long greatest = part << ID_BITS | ID_MASK;
    long seen = slots[slot];
    while (seen > greatest && slot < slots.length - 1) {
      seen = slots[++slot];
    }
    return seen >>> ID_BITS == part ? slot : ~slot;
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
    if (sizes[segment] >= lines(segment) * (long) LINE * 9 / 16) {
      resize(segment, larger(lines(segment)));
      slot = ~find(segments[segment], lines(segment), part);
    }
    int free = freeFrom(segments[segment], slot);
    if (free == segments[segment].length - 1) {
      lengthen(segment);
    }
    long[] slots = segments[segment];
    begin(segment);
    System.arraycopy(slots, slot, slots, slot + 1, free - slot);
    slots[slot] = part << ID_BITS;
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
    int lines = lines(segment);
    int end = slot + 1;
    while (slots[end] != 0 && home(slots[end] >>> ID_BITS, lines) < end) {
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
    if (sizes[segment] < lines * (LINE / 4) && lines > MIN_LINES) {
      resize(segment, Math.max(MIN_LINES, lines / 2));
    }
  }

  private static int freeFrom(long[] slots, int slot) {
    int free = slot;
    while (slots[free] != 0) {
      free++;
    }
    return free;
  }

  private static int larger(int lines) {
    return lines + (lines >>> 4) + 1;
  }

  /** More slots behind the last line: the last slot stays free. */
  private void lengthen(int segment) {
    int length = segments[segment].length;
    length += Math.max(SLACK, length - FIRST - lines(segment) * LINE);
    int[] @Nullable [] ids = new int[MAX_PLANES][];
    for (int plane = 1; plane < MAX_PLANES; plane++) {
      int[] from = beside[plane][segment];
      ids[plane] = from == null ? null : Arrays.copyOf(from, length);
    }
    replace(segment, lines(segment), Arrays.copyOf(segments[segment], length), ids);
  }

  /** Fills new arrays beside the old ones, then swaps them. */
  private void resize(int segment, int lines) {
    long[] old = segments[segment];
    // The last key may lie as far behind the lines as there are keys before it.
    long[] slots = new long[length(old, lines)];
    int[] @Nullable [] ids = new int[MAX_PLANES][];
    for (int plane = 1; plane < MAX_PLANES; plane++) {
      ids[plane] = beside[plane][segment] == null ? null : new int[slots.length];
    }
    int next = 0;
    for (int slot = 0; slot < old.length; slot++) {
      if (old[slot] == 0) {
        continue;
      }
      int target = Math.max(next, home(old[slot] >>> ID_BITS, lines));
      slots[target] = old[slot];
      for (int plane = 1; plane < MAX_PLANES; plane++) {
        int[] to = ids[plane];
        if (to != null) {
          to[target] = Objects.requireNonNull(beside[plane][segment])[slot];
        }
      }
      next = target + 1;
    }
    replace(segment, lines, slots, ids);
  }

  /** Slots that these keys take with so many lines, free ones behind the last included. */
  private static int length(long[] old, int lines) {
    int next = 0;
    for (long slot : old) {
      if (slot != 0) {
        next = Math.max(next, home(slot >>> ID_BITS, lines)) + 1;
      }
    }
    return Math.max(FIRST + lines * LINE, next) + SLACK;
  }

  private void replace(int segment, int lines, long[] slots, int[] @Nullable [] ids) {
    begin(segment);
    bytes += 8L * (slots.length - segments[segment].length);
    segments[segment] = slots;
    states[segment * STATE_STEP] = (states[segment * STATE_STEP] & -ONE_VERSION) | lines;
    for (int plane = 1; plane < MAX_PLANES; plane++) {
      int[] to = ids[plane];
      if (to != null) {
        bytes += 4L * (to.length - Objects.requireNonNull(beside[plane][segment]).length);
        beside[plane][segment] = to;
      }
    }
    end(segment);
  }

  private void begin(int segment) {
    step(MOVES);
    step(segment * STATE_STEP);
    VarHandle.storeStoreFence();
  }

  private void end(int segment) {
    VarHandle.releaseFence();
    step(segment * STATE_STEP);
    step(MOVES);
  }

  private void step(int state) {
    STATE.setOpaque(states, state, states[state] + ONE_VERSION);
  }
}
