// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Arrays;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.LongSupplier;

/**
 * Prefixes that workers will hold soon, since we have just routed them there.
 *
 * <p>Events come when a prompt has been read. Until then the index does not know about it, and a
 * burst of requests with one new prefix would be scattered over the fleet, each worker reading it
 * anew. So a pick leaves its block keys here for a while; they count as {@link
 * PrefixMatch#expectedTokens}. An entry ends when the worker's events confirm it, when they
 * contradict it (block removed, cache emptied, life over), when the request is withdrawn, or by
 * time.
 *
 * <p>Not every block is entered: the first eight, every eighth after them, and the last whole one
 * of the worker's own blocks, so a look-up may see up to seven blocks too few of a longer prompt.
 * Bounded: a new entry takes the place of the one nearest to its end.
 *
 * <p>A look-up asks for hundreds of blocks, of which mostly none or a few are entered, and then for
 * the same workers from one block to the next. So each place has a <em>signature</em>, the sum of a
 * secret number of each entry's worker: 0 for none, and the same again for the same workers, whose
 * entries then need not be read if none was overdue. Two sets of entries have one signature with
 * odds of 1 in 2 billion; a worker's match may then be too short. Where an entry lies is secret
 * ({@link Scatter}).
 *
 * <p>Any thread. Writers lock one of 64 stripes for some nanoseconds; {@link #merge} takes no lock.
 */
public final class SpeculativePrefixes implements Placements {

  private static final int STRIPES = 64;
  private static final int DENSE = 8;

  /** An entry lies within so many slots from its home: two cache lines of keys. */
  private static final int WINDOW = 16;

  private static final int PATIENCE = 100;

  /**
   * Places of signatures for each entry: in a full table four of five places that a look-up asks
   * for then have nobody else's entry.
   */
  private static final int SPARSE = 4;

  /** Slots of workers that fit an entry: more than any fleet has. */
  private static final int SLOT_BITS = 20;

  private static final long NOBODY = 0;

  private static final ThreadLocal<Scratch> SCRATCH = ThreadLocal.withInitial(Scratch::new);
  private static final VarHandle VERSION;

  static {
    try {
      VERSION = MethodHandles.lookup().findVarHandle(Stripe.class, "version", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final Stripe[] stripes = new Stripe[STRIPES];

  /**
   * By place: the sum of {@link #signature} of its entries, whatever their keys. Written under the
   * stripe's lock, read without.
   */
  private final int[] signatures;

  /** Shift of a key's image to its place. */
  private final int placeShift;

  private final LongSupplier nanoClock;

  /** Index writer only. */
  private int nextSwept;

  private final LongAdder live = new LongAdder();
  private final LongAdder confirmed = new LongAdder();
  private final LongAdder contradicted = new LongAdder();
  private final LongAdder withdrawn = new LongAdder();
  private final LongAdder expired = new LongAdder();
  private final LongAdder displaced = new LongAdder();

  /**
   * How entries ended so far.
   *
   * @param live entries now, expired ones that nobody has met yet included
   * @param confirmed the worker's events brought the block
   * @param contradicted the block was removed, the cache emptied or the worker gone
   * @param withdrawn the request went away before it was read
   * @param expired time ran out: the worker was late, or its blocks have other keys than ours
   * @param displaced the table was full
   */
  public record Counts(
      long live, long confirmed, long contradicted, long withdrawn, long expired, long displaced) {}

  /**
   * @param capacity most blocks remembered; rounded up to a power of two, at least 1024
   * @param nanoClock monotonic clock
   */
  public SpeculativePrefixes(int capacity, LongSupplier nanoClock) {
    int perStripe = Integer.highestOneBit(Math.max(WINDOW, (capacity - 1) / STRIPES)) * 2;
    for (int i = 0; i < STRIPES; i++) {
      stripes[i] = new Stripe(perStripe);
    }
    signatures = new int[SPARSE * STRIPES * perStripe];
    placeShift = 64 - Integer.numberOfTrailingZeros(signatures.length);
    this.nanoClock = nanoClock;
  }

  /**
   * The prompt was routed to the worker, of which it had (or expected) {@code match}.
   *
   * @param ttlNanos after which time without confirmation the worker will not have it; the
   *     predicted time to the first token and a margin, or long for workers without events
   */
  public void routed(Worker worker, BlockKeys keys, PrefixMatch match, long ttlNanos) {
    long who = who(worker.slot(), worker.life());
    if (who == NOBODY) {
      return;
    }
    long now = nanoClock.getAsLong();
    int known = match.expectedTokens(worker) / keys.blockSize();
    // No event will ever confirm or contradict what is not the end of one of its own blocks.
    int stride = Math.max(1, match.blockTokens(worker) / keys.blockSize());
    // Each lock waits for the loads before it: so what they guard is loaded first, all at once.
    long seen = 0;
    for (int depth = keys.blocks(); depth > known; depth = before(depth, keys)) {
      long key = keys.key(depth - 1);
      seen += stripe(key).touch(key);
    }
    SCRATCH.get().touched = seen;
    for (int depth = keys.blocks(); depth > known; depth = before(depth, keys)) {
      if (depth % stride == 0) {
        long key = keys.key(depth - 1);
        stripe(key).add(key, who, now + ttlNanos, now);
      }
    }
  }

  /** The prompt will not be read there after all (aborted before its first token, failed). */
  public void withdraw(Worker worker, BlockKeys keys) {
    if (isEmpty()) {
      return;
    }
    long who = who(worker.slot(), worker.life());
    for (int depth = keys.blocks(); depth > 0; depth = before(depth, keys)) {
      long key = keys.key(depth - 1);
      stripe(key).remove(key, who, false, withdrawn);
    }
  }

  /** Adds what is expected to a look-up's result. */
  public void merge(BlockKeys keys, PrefixMatch match) {
    if (isEmpty()) {
      return;
    }
    long now = nanoClock.getAsLong();
    int reusable = keys.reusableBlocks();
    Scratch scratch = SCRATCH.get();
    scratch.reset(reusable / DENSE + 2 * DENSE, match.members().slots());
    int[] depths = scratch.depths;
    int count = 0;
    int top = isCheckpoint(reusable, keys) ? reusable : before(reusable, keys);
    for (int depth = top; depth > 0; depth = before(depth, keys)) {
      depths[count++] = depth;
    }
    // All loads at once; mostly that is all there is to do.
    int[] seen = scratch.signatures;
    for (int i = 0; i < count; i++) {
      seen[i] = signatures[place(keys.key(depths[i] - 1))];
    }
    // From the deepest: a worker that has been met there has no more to say before.
    // The signature of workers that have all been met.
    int settled = 0;
    for (int i = 0; i < count; i++) {
      if (seen[i] != 0 && seen[i] != settled) {
        long key = keys.key(depths[i] - 1);
        int told = stripe(key).expect(key, depths[i], match, now, scratch);
        settled = told == 0 ? settled : told;
      }
    }
  }

  /** A merge's working space, one per thread. */
  private static final class Scratch {
    int[] depths = {};
    int[] signatures = {};

    /** By slot: who has been met. */
    long[] met = {};

    /** Workers with an entry for one block. */
    final long[] heard = new long[WINDOW];

    /** Keeps loads from being optimised away; its value means nothing. */
    @SuppressWarnings("UnusedVariable")
    long touched;

    void reset(int checkpoints, int slots) {
      if (depths.length < checkpoints) {
        depths = new int[checkpoints];
        signatures = new int[checkpoints];
      }
      if (met.length < slots) {
        met = new long[slots];
      } else {
        Arrays.fill(met, 0);
      }
    }

    /** Whether this worker has been met, or is not known to the index at all. */
    boolean isMet(long who) {
      int slot = slotOf(who);
      return slot >= met.length || met[slot] == who;
    }

    void meet(long who) {
      met[slotOf(who)] = who;
    }
  }

  /** How entries ended so far. */
  public Counts counts() {
    return new Counts(
        live.sum(),
        confirmed.sum(),
        contradicted.sum(),
        withdrawn.sum(),
        expired.sum(),
        displaced.sum());
  }

  @Override
  public void placed(Worker worker, long key) {
    if (!isEmpty()) {
      stripe(key).remove(key, who(worker.slot(), worker.life()), true, confirmed);
    }
  }

  @Override
  public void removed(Worker worker, long key) {
    if (!isEmpty()) {
      stripe(key).remove(key, who(worker.slot(), worker.life()), true, contradicted);
    }
  }

  /**
   * Ends what is overdue in some stripes, so that entries which nobody meets do not count as live
   * for ever.
   */
  @Override
  public void tick() {
    if (!isEmpty()) {
      long now = nanoClock.getAsLong();
      for (int i = 0; i < STRIPES / 8; i++) {
        stripes[nextSwept].expire(now);
        nextSwept = (nextSwept + 1) % STRIPES;
      }
    }
  }

  @Override
  public void emptied(Worker worker) {
    for (Stripe stripe : stripes) {
      stripe.removeAll(who(worker.slot(), worker.life()));
    }
  }

  private boolean isEmpty() {
    return live.sum() == 0;
  }

  private static boolean isCheckpoint(int depth, BlockKeys keys) {
    return depth <= DENSE
        || depth % DENSE == 0
        || isEnd(depth, keys.reusableBlocks())
        || isEnd(depth, keys.blocks());
  }

  /** The last block, counted in blocks of one, two or four canonical ones. */
  private static boolean isEnd(int depth, int last) {
    return depth == last || depth == (last & ~1) || depth == (last & ~3);
  }

  /** The next lower checkpoint; 0 when there is none. */
  private static int before(int depth, BlockKeys keys) {
    int next = depth - 1;
    // The ends of a prompt lie within its last few blocks.
    if (next > DENSE && next < keys.reusableBlocks() - DENSE) {
      return next - next % DENSE;
    }
    while (next > 0 && !isCheckpoint(next, keys)) {
      next--;
    }
    return next;
  }

  private int place(long key) {
    return (int) (Scatter.SECRET.of(key) >>> placeShift);
  }

  private Stripe stripe(long key) {
    return stripes[(int) (Scatter.SECRET.of(key) >>> 58)];
  }

  /** One life of a worker in one number, never 0; {@link #NOBODY} when it does not fit. */
  private static long who(int slot, long life) {
    boolean fits = slot < 1 << SLOT_BITS && life > 0 && life < 1L << (63 - SLOT_BITS);
    return fits ? life << SLOT_BITS | slot : NOBODY;
  }

  private static int slotOf(long who) {
    return (int) who & ((1 << SLOT_BITS) - 1);
  }

  private static long lifeOf(long who) {
    return who >>> SLOT_BITS;
  }

  /** A secret number of one life of a worker, never 0. */
  private static int signature(long who) {
    return (int) (Scatter.SECRET.of(who) >>> 32) | 1;
  }

  private final class Stripe {
    int version;

    /** By slot of the stripe: the block's key, 0 for a free slot. */
    private final long[] keys;

    private final long[] whos;
    private final long[] deadlines;

    /** Requests that expect the block; under the lock only. */
    private final int[] uses;

    Stripe(int capacity) {
      keys = new long[capacity];
      whos = new long[capacity];
      deadlines = new long[capacity];
      uses = new int[capacity];
    }

    private int home(long key) {
      return place(key) / SPARSE & (keys.length - 1);
    }

    /** Loads what {@link #add} will look at; without the lock, since its value means nothing. */
    long touch(long key) {
      int at = home(key);
      int end = (at + WINDOW - 1) & (keys.length - 1);
      return keys[at] + keys[end] + deadlines[at] + whos[at] + uses[at] + signatures[place(key)];
    }

    synchronized void add(long key, long who, long deadline, long now) {
      int mask = keys.length - 1;
      int home = home(key);
      int target = -1;
      for (int i = 0; i < WINDOW; i++) {
        int at = home + i & mask;
        if (keys[at] != 0 && deadlines[at] - now <= 0) {
          free(at, expired);
        }
        if (keys[at] == 0) {
          target = target >= 0 && keys[target] == 0 ? target : at;
        } else if (keys[at] == key && whos[at] == who) {
          uses[at]++;
          if (deadline - deadlines[at] > 0) {
            begin();
            deadlines[at] = deadline;
            end();
          }
          return;
        } else if (target < 0 || (keys[target] != 0 && deadlines[at] - deadlines[target] < 0)) {
          target = at;
        }
      }
      if (keys[target] != 0) {
        free(target, displaced);
      }
      begin();
      keys[target] = key;
      whos[target] = who;
      deadlines[target] = deadline;
      end();
      uses[target] = 1;
      signatures[place(key)] += signature(who);
      live.increment();
    }

    synchronized void remove(long key, long who, boolean forAll, LongAdder reason) {
      int mask = keys.length - 1;
      int home = home(key);
      for (int i = 0; i < WINDOW; i++) {
        int at = home + i & mask;
        if (keys[at] == key && whos[at] == who) {
          if (forAll || uses[at] == 1) {
            free(at, reason);
          } else {
            uses[at]--;
          }
          return;
        }
      }
    }

    synchronized void removeAll(long who) {
      for (int at = 0; at < keys.length; at++) {
        if (keys[at] != 0 && whos[at] == who) {
          free(at, contradicted);
        }
      }
    }

    synchronized void expire(long now) {
      for (int at = 0; at < keys.length; at++) {
        if (keys[at] != 0 && deadlines[at] - now <= 0) {
          free(at, expired);
        }
      }
    }

    private void free(int at, LongAdder reason) {
      signatures[place(keys[at])] -= signature(whos[at]);
      begin();
      keys[at] = 0;
      end();
      live.decrement();
      reason.increment();
    }

    private void begin() {
      VERSION.setOpaque(this, version + 1);
      VarHandle.storeStoreFence();
    }

    private void end() {
      VERSION.setRelease(this, version + 1);
    }

    /**
     * Without the lock: a stripe that changes meanwhile is read again; after too many tries it
     * expects nothing.
     *
     * @return the sum of the signatures of the key's entries; 0 when there is none, or one that is
     *     overdue, whose worker may have a later one further to the front
     */
    int expect(long key, int depth, PrefixMatch match, long now, Scratch scratch) {
      int mask = keys.length - 1;
      int home = home(key);
      for (int attempt = 0; attempt < PATIENCE; attempt++) {
        int before = (int) VERSION.getAcquire(this);
        int told = 0;
        int count = 0;
        boolean isOverdue = false;
        for (int i = 0; i < WINDOW; i++) {
          int at = home + i & mask;
          if (keys[at] == key) {
            long who = whos[at];
            told += signature(who);
            if (deadlines[at] - now <= 0) {
              isOverdue = true;
            } else if (!scratch.isMet(who)) {
              scratch.heard[count++] = who;
            }
          }
        }
        VarHandle.acquireFence();
        if ((before & 1) == 0 && (int) VERSION.getOpaque(this) == before) {
          for (int i = 0; i < count; i++) {
            long who = scratch.heard[i];
            scratch.meet(who);
            match.expect(slotOf(who), lifeOf(who), depth);
          }
          return isOverdue ? 0 : told;
        }
        Thread.onSpinWait();
      }
      return 0;
    }
  }
}
