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
 * three comparisons without a branch find a key within its line, hit or miss. Growing copies from
 * left to right without hashing, so it goes in small steps and 53 to 56 % of the slots stay in use.
 *
 * <p>Keys are laid out by their image under a secret bijection ({@link Scatter}); "key" below means
 * such an image. So nobody can choose prompts or blocks that lie together. The image of a name
 * begins with that of its group ({@link KeyChain}), so the eight blocks of a group lie in one line,
 * or in two if others have it as home. At most {@value #CROWD} names of a group lie together: many
 * prompts may begin with the same block and then part, and a home for all of them would be searched
 * from end to end. Every further one lies <em>apart</em>, at the image of the name alone. Memory
 * does not depend on the secret: slots are at most the homes and twice the keys.
 *
 * <p>The last 17 bits of a key are dropped. Together, two names of a group are one entry if their
 * other 24 bits agree: for a prompt that parts from {@value #CROWD} others in that group 1 in a
 * million. Apart, all 47 bits must agree. Such a match is only wrong if the worker with the other
 * block also holds everything before it in this prompt. A slot of 12 bytes with the whole key would
 * take 3 to 4 bytes more per entry and a tenth more time.
 *
 * <h2>Look-ups</h2>
 *
 * The lines of a prompt's groups are in no cache, and a core waits for a dozen such lines at once
 * at the most. So keys are read by {@link Batch}es of up to {@value Batch#KEYS}: first all their
 * lines are asked for, and then they are read without a branch that depends on what is in them,
 * which would be mispredicted half of the time. Names that are not found together are then looked
 * for apart, if the table has any such entry.
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

  /** Most names of a group that lie together. */
  private static final int CROWD = 24;

  /** The bits that the images of a group have in common: as many as {@link KeyChain} gives it. */
  private static final long SHARED = KeyChain.GROUP_BITS;

  private static final int SHARED_BITS = Long.bitCount(SHARED);

  /** Bits of a part behind those that its group shares. */
  private static final int OWN_BITS = SEGMENT_BITS + PART_BITS - SHARED_BITS;

  /**
   * Most lines of a segment for which homes go by group: more than half as many as there are groups
   * would leave some lines empty.
   */
  private static final int GROUPED_LINES = 1 << (SHARED_BITS - SEGMENT_BITS - 1);

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

  /** In {@link #states}: the number of entries that lie apart. */
  private static final int APART = MOVES + STATE_STEP;

  /** By segment: its version, odd while slots are being moved, and its number of lines. */
  private final long[] states = new long[(SEGMENTS + 2) * STATE_STEP];

  private final long[][] segments = new long[SEGMENTS][];

  /** Set ids of the planes beside the GPU's, by plane and segment. */
  private final int[][] @Nullable [] beside = new int[MAX_PLANES][SEGMENTS][];

  /** Keys by segment; writer only, as everything below. */
  private final int[] sizes = new int[SEGMENTS];

  private long keyCount;
  private long bytes;

  /** What the last {@link #seek} found: segment, part of the key, slot or its complement. */
  private int segment;

  private long part;
  private int slot;
  private boolean isApart;

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
    int id = readKey(plane, together(name));
    return id == WorkerSets.EMPTY && hasApart() ? readKey(plane, scatter.of(name)) : id;
  }

  private int readKey(int plane, long key) {
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

  /** The image that begins like those of the name's group. */
  private long together(long name) {
    return (scatter.of(name & SHARED) & SHARED) | (scatter.of(name) >>> SHARED_BITS);
  }

  private boolean hasApart() {
    return (long) STATE.getOpaque(states, APART) > 0;
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

    private final long[] names = new long[KEYS];
    private final int[] segments = new int[KEYS];
    private final int[] homes = new int[KEYS];

    private final long[] keys = new long[KEYS];

    /** The greatest slot that each key may have. */
    private final long[] greatest = new long[KEYS];

    private final long[] states = new long[KEYS];
    private final long[] slots = new long[KEYS];
    private final int[] places = new int[KEYS];

    /** Nothing of use, but the loads that it comes from are not left out. */
    @SuppressWarnings("UnusedVariable")
    private long touched;

    private final int[] further = new int[KEYS];

    private final int[] missing = new int[KEYS];
    private final int[] found = new int[KEYS];

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
    long[] wanted = batch.names;
    if (step == 1) {
      System.arraycopy(names, from, wanted, 0, count);
    } else {
      for (int i = 0; i < count; i++) {
        wanted[i] = names[from + i * step];
      }
    }
    long[] keys = batch.keys;
    // In loops of their own: the compiler does eight at once.
    for (int i = 0; i < count; i++) {
      keys[i] = together(wanted[i]);
    }
    readKeys(count, batch, batch.ids);
    if (hasApart()) {
      readApart(count, batch);
    }
  }

  /** Looks once more for the names that do not lie with their group. */
  private void readApart(int count, Batch batch) {
    int[] ids = batch.ids;
    int[] missing = batch.missing;
    int left = 0;
    for (int i = 0; i < count; i++) {
      missing[left] = i;
      left += ids[i] == WorkerSets.EMPTY ? 1 : 0;
    }
    for (int j = 0; j < left; j++) {
      batch.keys[j] = scatter.of(batch.names[missing[j]]);
    }
    if (left > 0) {
      readKeys(left, batch, batch.found);
      for (int j = 0; j < left; j++) {
        ids[missing[j]] = batch.found[j];
      }
    }
  }

  private void readKeys(int count, Batch batch, int[] ids) {
    long moves = (long) STATE.getAcquire(states, MOVES);
    locate(count, batch);
    // These loads not before the states, nor the states' next ones before these.
    VarHandle.acquireFence();
    touch(count, batch);
    int left = find(count, batch, ids);
    while (left > 0) {
      left = findFurther(left, batch, ids);
    }
    VarHandle.acquireFence();
    if ((moves & ONE_VERSION) != 0 || (long) STATE.getOpaque(states, MOVES) != moves) {
      for (int i = 0; i < count; i++) {
        long state = batch.states[i];
        if (states[batch.segments[i] * STATE_STEP] != state || (state & ONE_VERSION) != 0) {
          ids[i] = readKey(0, batch.keys[i]);
        }
      }
    }
  }

  /** Finds out where the keys are expected. */
  private void locate(int count, Batch batch) {
    long[] keys = batch.keys;
    int[] segmentAt = batch.segments;
    for (int i = 0; i < count; i++) {
      segmentAt[i] = (int) (keys[i] >>> (64 - SEGMENT_BITS));
    }
    long[] greatest = batch.greatest;
    for (int i = 0; i < count; i++) {
      greatest[i] = partOf(keys[i]) << ID_BITS | ID_MASK;
    }
    int[] homes = batch.homes;
    long[] stateAt = batch.states;
    long[] now = states;
    for (int i = 0; i < count; i++) {
      long state = now[segmentAt[i] * STATE_STEP];
      stateAt[i] = state;
      homes[i] = home(greatest[i] >>> ID_BITS, (int) state);
    }
  }

  /**
   * Loads the keys' lines and those behind them. Only each fourth key's, so that the core has the
   * lines of many groups under way and not those of the few whose keys it can see ahead.
   */
  private void touch(int count, Batch batch) {
    int[] segmentAt = batch.segments;
    int[] homes = batch.homes;
    long[][] slotsOf = segments;
    long all = 0;
    for (int i = 0; i < count; i += KeyChain.GROUP / 2) {
      long[] slots = slotsOf[segmentAt[i]];
      // The segment may have shrunk meanwhile.
      int at = Math.min(homes[i], slots.length - 3 * LINE);
      all |= slots[at] | slots[at + LINE] | slots[at + 2 * LINE];
    }
    batch.touched = all;
  }

  /**
   * Looks into the keys' lines and those behind them, which have all but every sixth key; notes and
   * counts the keys for which there are only greater ones.
   */
  private int find(int count, Batch batch, int[] ids) {
    int[] segmentAt = batch.segments;
    int[] homes = batch.homes;
    int[] places = batch.places;
    long[] greatest = batch.greatest;
    long[] found = batch.slots;
    long[][] slotsOf = segments;
    for (int i = 0; i < count; i++) {
      long[] slots = slotsOf[segmentAt[i]];
      int at = Math.min(homes[i], slots.length - 2 * LINE);
      at += above(slots[at + LINE - 1], greatest[i]) << 3;
      places[i] = at + (above(slots[at + HALF], greatest[i]) << 2);
    }
    for (int i = 0; i < count; i++) {
      long[] slots = slotsOf[segmentAt[i]];
      int at = Math.min(places[i], slots.length - LINE);
      at += above(slots[at + 1], greatest[i]) << 1;
      at += above(slots[at], greatest[i]);
      found[i] = slots[at];
    }
    for (int i = 0; i < count; i++) {
      ids[i] = idIn(found[i], greatest[i]);
    }
    for (int i = 0; i < count; i++) {
      places[i] = above(found[i], greatest[i]);
    }
    int[] further = batch.further;
    int left = 0;
    for (int i = 0; i < count; i++) {
      homes[i] += LINE;
      further[left] = i;
      left += places[i];
    }
    return left;
  }

  /** The same one line further for those that are noted. */
  private int findFurther(int count, Batch batch, int[] ids) {
    int left = 0;
    for (int j = 0; j < count; j++) {
      int i = batch.further[j];
      long[] slots = segments[batch.segments[i]];
      long greatest = batch.greatest[i];
      int next = batch.homes[i] + LINE;
      batch.homes[i] = next;
      int last = slots.length - LINE;
      int at = Math.min(next, last);
      at += above(slots[at + HALF], greatest) << 2;
      at += above(slots[at + 1], greatest) << 1;
      at += above(slots[at], greatest);
      long slot = slots[at];
      ids[i] = idIn(slot, greatest);
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
    seek(name);
    if (slot < 0) {
      slot = insert(segment, part, ~slot);
      countApart(1);
    }
    int old = setAt(plane, segment, segments[segment], slot);
    if (old != WorkerSets.EMPTY && sets.contains(old, member)) {
      return false;
    }
    toggle(plane, old, member);
    return true;
  }

  /** Removes the member; false when it was not there. */
  boolean remove(int plane, long name, int member) {
    seek(name);
    int old = slot < 0 ? WorkerSets.EMPTY : setAt(plane, segment, segments[segment], slot);
    if (!sets.contains(old, member)) {
      return false;
    }
    toggle(plane, old, member);
    return true;
  }

  private void toggle(int plane, int old, int member) {
    int id = sets.toggled(old, member);
    set(plane, segment, slot, id);
    sets.release(old);
    if (id == WorkerSets.EMPTY && isUnused(segment, slot)) {
      delete(segment, slot);
      countApart(-1);
    }
  }

  private void countApart(int more) {
    if (isApart) {
      STATE.setOpaque(states, APART, states[APART] + more);
    }
  }

  /** Where the name is, or would be entered now: to {@link #segment} and the fields after it. */
  private void seek(long name) {
    // First apart, where all of a key tells it from others: one that came into the group since,
    // when there was room, may agree with it in the bits that tell keys of a group apart.
    isApart = hasApart();
    if (isApart) {
      seekKey(scatter.of(name));
    }
    if (!isApart || slot < 0) {
      isApart = false;
      seekKey(together(name));
      if (slot < 0 && isCrowded(segments[segment], ~slot, part)) {
        isApart = true;
        seekKey(scatter.of(name));
      }
    }
  }

  private void seekKey(long key) {
    segment = segmentOf(key);
    part = partOf(key);
    slot = find(segments[segment], lines(segment), part);
  }

  /** Whether as many keys as may lie together share the part's group around the slot. */
  private static boolean isCrowded(long[] slots, int slot, long part) {
    long group = part >>> OWN_BITS;
    int first = slot;
    while (slot - first < CROWD
        && first > FIRST
        && slots[first - 1] >>> (ID_BITS + OWN_BITS) == group
        && slots[first - 1] != 0) {
      first--;
    }
    int last = slot;
    while (last - first < CROWD
        && slots[last] >>> (ID_BITS + OWN_BITS) == group
        && slots[last] != 0) {
      last++;
    }
    return last - first >= CROWD;
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
    // A group's keys have one home while there are groups enough for all lines.
    int own = lines <= GROUPED_LINES ? OWN_BITS : 0;
    return FIRST + (lines - 1 - (int) (((part >>> own) * lines) >>> (PART_BITS - own))) * LINE;
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
