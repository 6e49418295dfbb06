// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Live counters of our own work on one life of one worker.
 *
 * <p>Any thread reads without waiting; {@link Reservation} writes, each part exactly once. A reader
 * that wants to reserve on what it read takes {@link #stamp()} first and hands it to {@link
 * InFlightLedger#tryReserve}, which refuses when another request was placed here in between.
 * Numbers of an old life run down to zero in an object that nobody looks at any more.
 */
public final class WorkerLoad {
  /** Odd while a reservation is being written, grows by two with each one. */
  private static final VarHandle STAMP;

  private static final VarHandle IN_FLIGHT;
  private static final VarHandle PREFILLING;
  private static final VarHandle QUEUED;
  private static final VarHandle CONTEXT;
  private static final VarHandle PLACED;
  private static final VarHandle ENDED;
  private static final VarHandle PRIVATE;
  private static final VarHandle RELEASED;
  private static final VarHandle ROOM;
  private static final VarHandle QUEUED_ROOM;

  static {
    try {
      var lookup = MethodHandles.lookup();
      STAMP = lookup.findVarHandle(WorkerLoad.class, "stamp", long.class);
      IN_FLIGHT = lookup.findVarHandle(WorkerLoad.class, "inFlight", int.class);
      PREFILLING = lookup.findVarHandle(WorkerLoad.class, "prefilling", int.class);
      QUEUED = lookup.findVarHandle(WorkerLoad.class, "queuedPrefillTokens", long.class);
      CONTEXT = lookup.findVarHandle(WorkerLoad.class, "contextTokens", long.class);
      PLACED = lookup.findVarHandle(WorkerLoad.class, "placed", long.class);
      ENDED = lookup.findVarHandle(WorkerLoad.class, "ended", long.class);
      PRIVATE = lookup.findVarHandle(WorkerLoad.class, "privateTokens", long.class);
      RELEASED = lookup.findVarHandle(WorkerLoad.class, "releasedTokens", long.class);
      ROOM = lookup.findVarHandle(WorkerLoad.class, "roomTokens", long.class);
      QUEUED_ROOM = lookup.findVarHandle(WorkerLoad.class, "queuedRoomTokens", long.class);
    } catch (ReflectiveOperationException bug) {
      throw new ExceptionInInitializerError(bug);
    }
  }

  /** How often a reader looks again while another thread writes a reservation. */
  private static final int MAX_SPINS = 64;

  /** Memory of the smoothed figures: longer than one answer, shorter than a change of traffic. */
  private static final double MEMORY_SECONDS = 20;

  private final int slot;
  private final long life;

  private volatile long stamp;
  private volatile int inFlight;
  private volatile int prefilling;
  private volatile long queuedPrefillTokens;
  private volatile long contextTokens;
  private volatile long placed;
  private volatile long ended;
  private volatile long privateTokens;
  private volatile long releasedTokens;
  private volatile long roomTokens;
  private volatile long queuedRoomTokens;

  /**
   * Prefixes of requests in flight. Picks read it without a lock; a reservation changes one entry
   * within the map's own bin.
   */
  private final ConcurrentHashMap<Long, Pin> pins = new ConcurrentHashMap<>();

  /**
   * A prefix that requests in flight have in common.
   *
   * @param tokens its length
   * @param owed requests with it whose first token is owed
   * @param decoding requests with it that are past that: while there is one, its blocks are in use
   */
  private record Pin(int tokens, int owed, int decoding) {}

  // Smoothed by the ledger's sweep, one writer; picks read them.
  private volatile double placedPerSecond;
  private volatile double endedPerSecond;
  private volatile double releasedTokensPerSecond;
  private volatile double prefillBusyShare;

  // What the sweep saw last; its own.
  private long sweptPlaced;
  private long sweptEnded;
  private long sweptReleased;

  /** When the last request was placed here. */
  private volatile long lastPickNanos;

  /** Rank of that placement among all; tells apart what the clock cannot. */
  private volatile long lastPickSequence = -1;

  /** When the first request entered an empty prefill queue or the last prefill was done. */
  private volatile long lastProgressNanos;

  WorkerLoad(int slot, long life) {
    this.slot = slot;
    this.life = life;
  }

  /** Slot of the worker. */
  public int slot() {
    return slot;
  }

  /** Life of the worker. */
  public long life() {
    return life;
  }

  /** Taken before the counters are read; see the class. */
  public long stamp() {
    long seen = stamp;
    for (int spins = 0; (seen & 1) != 0 && spins < MAX_SPINS; spins++) {
      Thread.onSpinWait();
      seen = stamp;
    }
    return seen;
  }

  /** Requests placed and not ended. */
  public int inFlight() {
    return inFlight;
  }

  /** Requests whose first token has not been seen. */
  public int prefilling() {
    return prefilling;
  }

  /** Requests between first token and end. */
  public int decoding() {
    return Math.max(0, inFlight - prefilling);
  }

  /** Uncached prompt tokens of requests whose first token has not been seen. */
  public long queuedPrefillTokens() {
    return queuedPrefillTokens;
  }

  /**
   * Prompt and expected output tokens of all requests in flight: what they hold of the KV cache.
   */
  public long contextTokens() {
    return contextTokens;
  }

  /** Prompt tokens of all requests in flight without the prefixes that others share with them. */
  public long privateTokens() {
    return privateTokens;
  }

  /**
   * Room in the KV cache that the prompts of all requests in flight take: cached or not, since a
   * cached block that is in use cannot be evicted; a prefix that several have in common counts
   * once. Output is left out: how long an answer gets is not known (a caller's {@code max_tokens}
   * is no guess), and the scraped usage tells what it has taken.
   */
  public long roomTokens() {
    return roomTokens;
  }

  /** The part of {@link #roomTokens} that only requests without a first token need. */
  public long queuedRoomTokens() {
    return queuedRoomTokens;
  }

  /** Whether a request in flight has this prefix: another one with it needs no room for it. */
  public boolean hasInUse(long prefixKey) {
    return prefixKey != 0 && pins.containsKey(prefixKey);
  }

  /** Whether a request was ever placed on this life. */
  public boolean everPicked() {
    return lastPickSequence >= 0;
  }

  /** Rank of the last placement among all placements of the ledger, -1 before the first. */
  public long lastPickSequence() {
    return lastPickSequence;
  }

  /** Monotonic time of the last placement; meaningless before the first. */
  public long lastPickNanos() {
    return lastPickNanos;
  }

  /**
   * For how long the head of the prefill queue has been worked on: since the last first token, or
   * since the queue was empty. 0 when nothing is queued.
   */
  public long headPrefillNanos(long nowNanos) {
    return prefilling == 0 ? 0 : Math.max(0, nowNanos - lastProgressNanos);
  }

  /** Requests placed here per second, smoothed over {@value #MEMORY_SECONDS} s. */
  public double placedPerSecond() {
    return placedPerSecond;
  }

  /** Requests ended here per second, smoothed alike: what the worker gets done. */
  public double endedPerSecond() {
    return endedPerSecond;
  }

  /** KV tokens that requests gave back at their end, per second, smoothed alike. */
  public double releasedTokensPerSecond() {
    return releasedTokensPerSecond;
  }

  /** Share of the time in which a first token was owed, 0..1, smoothed alike. */
  public double prefillBusyShare() {
    return prefillBusyShare;
  }

  /** Takes a sample for the smoothed figures; called by the ledger's sweep only. */
  void sample(double seconds) {
    double weight = 1 - Math.exp(-seconds / MEMORY_SECONDS);
    long placedNow = placed;
    long endedNow = ended;
    placedPerSecond = mix(placedPerSecond, (placedNow - sweptPlaced) / seconds, weight);
    endedPerSecond = mix(endedPerSecond, (endedNow - sweptEnded) / seconds, weight);
    prefillBusyShare = mix(prefillBusyShare, prefilling > 0 ? 1 : 0, weight);
    sweptPlaced = placedNow;
    sweptEnded = endedNow;
    long releasedNow = releasedTokens;
    releasedTokensPerSecond =
        mix(releasedTokensPerSecond, (releasedNow - sweptReleased) / seconds, weight);
    sweptReleased = releasedNow;
  }

  private static double mix(double old, double sample, double weight) {
    return old + weight * (sample - old);
  }

  /** Adds a request if nobody else did since the stamp was taken. */
  boolean tryAdd(long expectedStamp, Work work, long nowNanos, long sequence) {
    if ((expectedStamp & 1) != 0 || !STAMP.compareAndSet(this, expectedStamp, expectedStamp + 1)) {
      return false;
    }
    enter(work, nowNanos, sequence);
    stamp = expectedStamp + 2;
    return true;
  }

  /** Adds a request whatever others do. */
  void add(Work work, long nowNanos, long sequence) {
    for (int spins = 0; spins < MAX_SPINS; spins++) {
      if (tryAdd(stamp(), work, nowNanos, sequence)) {
        return;
      }
    }
    // A writer was suspended half-way; the counts stay exact, only its readers see less than all.
    enter(work, nowNanos, sequence);
  }

  private void enter(Work work, long nowNanos, long sequence) {
    lastPickNanos = nowNanos;
    lastPickSequence = sequence;
    PLACED.getAndAdd(this, 1L);
    if ((int) PREFILLING.getAndAdd(this, 1) == 0) {
      lastProgressNanos = nowNanos;
    }
    QUEUED.getAndAdd(this, (long) work.uncachedTokens());
    CONTEXT.getAndAdd(this, held(work));
    PRIVATE.getAndAdd(this, own(work));
    ROOM.getAndAdd(this, own(work));
    QUEUED_ROOM.getAndAdd(this, own(work));
    if (work.prefixKey() != 0) {
      pins.compute(
          work.prefixKey(),
          (_, pin) -> {
            if (pin == null) {
              ROOM.getAndAdd(this, (long) work.prefixTokens());
              QUEUED_ROOM.getAndAdd(this, (long) work.prefixTokens());
              return new Pin(work.prefixTokens(), 1, 0);
            }
            return new Pin(pin.tokens(), pin.owed() + 1, pin.decoding());
          });
    }
    IN_FLIGHT.getAndAdd(this, 1);
  }

  /** Takes a request in that has been prefilled elsewhere in the books: a move after a retry. */
  void enterDecoding(Work work) {
    CONTEXT.getAndAdd(this, held(work));
    PRIVATE.getAndAdd(this, own(work));
    ROOM.getAndAdd(this, own(work));
    if (work.prefixKey() != 0) {
      pins.compute(
          work.prefixKey(),
          (_, pin) -> {
            if (pin == null) {
              ROOM.getAndAdd(this, (long) work.prefixTokens());
              return new Pin(work.prefixTokens(), 0, 1);
            }
            if (pin.decoding() == 0) {
              QUEUED_ROOM.getAndAdd(this, -(long) pin.tokens());
            }
            return new Pin(pin.tokens(), pin.owed(), pin.decoding() + 1);
          });
    }
    IN_FLIGHT.getAndAdd(this, 1);
  }

  void prefillDone(Work work, long nowNanos) {
    lastProgressNanos = nowNanos;
    prefillLeft(work);
    if (work.prefixKey() != 0) {
      pins.computeIfPresent(
          work.prefixKey(),
          (_, pin) -> {
            if (pin.decoding() == 0) {
              QUEUED_ROOM.getAndAdd(this, -(long) pin.tokens());
            }
            return new Pin(pin.tokens(), pin.owed() - 1, pin.decoding() + 1);
          });
    }
  }

  private void prefillLeft(Work work) {
    QUEUED.getAndAdd(this, -(long) work.uncachedTokens());
    QUEUED_ROOM.getAndAdd(this, -own(work));
    PREFILLING.getAndAdd(this, -1);
  }

  /**
   * The request is over here.
   *
   * @param owed whether it ends without a first token
   */
  void finish(Work work, boolean owed) {
    long before = roomOf(work);
    leave(work, owed);
    ENDED.getAndAdd(this, 1L);
    RELEASED.getAndAdd(this, before - roomOf(work) + own(work));
  }

  private long roomOf(Work work) {
    Pin pin = work.prefixKey() == 0 ? null : pins.get(work.prefixKey());
    return pin == null ? 0 : pin.tokens();
  }

  /** The request goes on elsewhere, or is over. */
  void leave(Work work, boolean owed) {
    if (owed) {
      prefillLeft(work);
    }
    IN_FLIGHT.getAndAdd(this, -1);
    CONTEXT.getAndAdd(this, -held(work));
    PRIVATE.getAndAdd(this, -own(work));
    ROOM.getAndAdd(this, -own(work));
    if (work.prefixKey() != 0) {
      pins.computeIfPresent(work.prefixKey(), (_, pin) -> without(pin, owed));
    }
  }

  private @Nullable Pin without(Pin pin, boolean owed) {
    Pin left =
        owed
            ? new Pin(pin.tokens(), pin.owed() - 1, pin.decoding())
            : new Pin(pin.tokens(), pin.owed(), pin.decoding() - 1);
    if (left.owed() + left.decoding() > 0) {
      if (!owed && left.decoding() == 0) {
        // Those that wait will need the blocks, which nobody holds any more.
        QUEUED_ROOM.getAndAdd(this, (long) pin.tokens());
      }
      return left;
    }
    ROOM.getAndAdd(this, -(long) pin.tokens());
    if (owed) {
      QUEUED_ROOM.getAndAdd(this, -(long) pin.tokens());
    }
    return null;
  }

  private static long held(Work work) {
    return (long) work.promptTokens() + work.expectedOutputTokens();
  }

  private static long own(Work work) {
    return work.privateTokens();
  }

  /** Whether every counter is zero. */
  public boolean isIdle() {
    return inFlight == 0
        && prefilling == 0
        && queuedPrefillTokens == 0
        && contextTokens == 0
        && privateTokens == 0
        && roomTokens == 0
        && queuedRoomTokens == 0
        && pins.isEmpty();
  }

  @Override
  public String toString() {
    return "WorkerLoad[slot="
        + slot
        + ", life="
        + life
        + ", inFlight="
        + inFlight
        + ", prefilling="
        + prefilling
        + ", queuedPrefillTokens="
        + queuedPrefillTokens
        + ", contextTokens="
        + contextTokens
        + ", roomTokens="
        + roomTokens
        + ", queuedRoomTokens="
        + queuedRoomTokens
        + "]";
  }
}
