// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
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
 * <p>Not every block is entered: the first eight, every eighth after them, and the last, so a
 * look-up may see up to seven blocks too few of a longer prompt. Bounded: a new entry takes the
 * place of the one nearest to its end.
 *
 * <p>Any thread. Writers lock one of 64 stripes for some nanoseconds; {@link #merge} takes no lock.
 */
public final class SpeculativePrefixes implements Placements {

  private static final int STRIPES = 64;
  private static final int DENSE = 8;

  /** An entry lies within so many slots from its home: two cache lines of keys. */
  private static final int WINDOW = 16;

  private static final int PATIENCE = 100;
  private static final VarHandle VERSION;

  static {
    try {
      VERSION = MethodHandles.lookup().findVarHandle(Stripe.class, "version", int.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final Stripe[] stripes = new Stripe[STRIPES];
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
    this.nanoClock = nanoClock;
  }

  /**
   * The prompt was routed to the worker, of which it had (or expected) {@code match}.
   *
   * @param ttlNanos after which time without confirmation the worker will not have it; the
   *     predicted time to the first token and a margin, or long for workers without events
   */
  public void routed(Worker worker, BlockKeys keys, PrefixMatch match, long ttlNanos) {
    long now = nanoClock.getAsLong();
    int known = match.expectedTokens(worker) / keys.blockSize();
    for (int depth = known + 1; depth <= keys.blocks(); depth++) {
      if (isCheckpoint(depth, keys)) {
        long key = keys.key(depth - 1);
        stripe(key).add(key, worker.slot(), worker.life(), now + ttlNanos, now);
      }
    }
  }

  /** The prompt will not be read there after all (aborted before its first token, failed). */
  public void withdraw(Worker worker, BlockKeys keys) {
    if (isEmpty()) {
      return;
    }
    for (int depth = 1; depth <= keys.blocks(); depth++) {
      if (isCheckpoint(depth, keys)) {
        long key = keys.key(depth - 1);
        stripe(key).remove(key, worker.slot(), worker.life(), false, withdrawn);
      }
    }
  }

  /** Adds what is expected to a look-up's result. */
  public void merge(BlockKeys keys, PrefixMatch match) {
    if (isEmpty()) {
      return;
    }
    long now = nanoClock.getAsLong();
    for (int depth = 1; depth <= keys.reusableBlocks(); depth++) {
      if (isCheckpoint(depth, keys)) {
        long key = keys.key(depth - 1);
        stripe(key).expect(key, depth, match, now);
      }
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
      stripe(key).remove(key, worker.slot(), worker.life(), true, confirmed);
    }
  }

  @Override
  public void removed(Worker worker, long key) {
    if (!isEmpty()) {
      stripe(key).remove(key, worker.slot(), worker.life(), true, contradicted);
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
      stripe.removeAll(worker.slot(), worker.life());
    }
  }

  private boolean isEmpty() {
    return live.sum() == 0;
  }

  private static boolean isCheckpoint(int depth, BlockKeys keys) {
    return depth <= DENSE
        || depth % DENSE == 0
        || depth == keys.reusableBlocks()
        || depth == keys.blocks();
  }

  private Stripe stripe(long key) {
    return stripes[(int) (key >>> 58)];
  }

  private final class Stripe {
    int version;
    private final long[] keys;
    private final int[] slots;
    private final long[] lives;
    private final long[] deadlines;

    /** Requests that expect the block; 0 is a free slot. */
    private final int[] uses;

    Stripe(int capacity) {
      keys = new long[capacity];
      slots = new int[capacity];
      lives = new long[capacity];
      deadlines = new long[capacity];
      uses = new int[capacity];
    }

    synchronized void add(long key, int slot, long life, long deadline, long now) {
      int mask = keys.length - 1;
      int target = -1;
      for (int i = 0; i < WINDOW; i++) {
        int at = (int) key + i & mask;
        if (uses[at] > 0 && deadlines[at] - now <= 0) {
          free(at, expired);
        }
        if (uses[at] == 0) {
          target = target >= 0 && uses[target] == 0 ? target : at;
        } else if (keys[at] == key && slots[at] == slot && lives[at] == life) {
          begin();
          uses[at]++;
          deadlines[at] = Math.max(deadlines[at], deadline);
          end();
          return;
        } else if (target < 0 || (uses[target] > 0 && deadlines[at] - deadlines[target] < 0)) {
          target = at;
        }
      }
      if (uses[target] > 0) {
        free(target, displaced);
      }
      begin();
      keys[target] = key;
      slots[target] = slot;
      lives[target] = life;
      deadlines[target] = deadline;
      uses[target] = 1;
      end();
      live.increment();
    }

    synchronized void remove(long key, int slot, long life, boolean forAll, LongAdder reason) {
      int mask = keys.length - 1;
      for (int i = 0; i < WINDOW; i++) {
        int at = (int) key + i & mask;
        if (uses[at] > 0 && keys[at] == key && slots[at] == slot && lives[at] == life) {
          if (forAll || uses[at] == 1) {
            free(at, reason);
          } else {
            uses[at]--;
          }
          return;
        }
      }
    }

    synchronized void removeAll(int slot, long life) {
      for (int at = 0; at < keys.length; at++) {
        if (uses[at] > 0 && slots[at] == slot && lives[at] == life) {
          free(at, contradicted);
        }
      }
    }

    synchronized void expire(long now) {
      for (int at = 0; at < keys.length; at++) {
        if (uses[at] > 0 && deadlines[at] - now <= 0) {
          free(at, expired);
        }
      }
    }

    private void free(int at, LongAdder reason) {
      begin();
      uses[at] = 0;
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
     */
    void expect(long key, int depth, PrefixMatch match, long now) {
      int mask = keys.length - 1;
      for (int i = 0; i < WINDOW; i++) {
        int at = (int) key + i & mask;
        for (int attempt = 0; attempt < PATIENCE; attempt++) {
          int before = (int) VERSION.getAcquire(this);
          boolean isLive = keys[at] == key && uses[at] > 0 && deadlines[at] - now > 0;
          int slot = slots[at];
          long life = lives[at];
          VarHandle.acquireFence();
          if ((before & 1) == 0 && (int) VERSION.getOpaque(this) == before) {
            if (isLive) {
              match.expect(slot, life, depth);
            }
            break;
          }
          Thread.onSpinWait();
        }
      }
    }
  }
}
