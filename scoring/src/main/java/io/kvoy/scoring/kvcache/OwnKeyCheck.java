// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Compares what we thought a worker would store with what its events say it stored: a standing
 * proof, on live traffic, that our template, tokenizer, salts and adapters are the worker's.
 *
 * <h2>How</h2>
 *
 * When a prompt is routed, the keys of its first and its last whole block are put on a watch list.
 * A worker that has read the prompt has announced both (or had them already), since vLLM 0.32
 * stores every full block of a prompt and publishes at the end of each engine step. A while after
 * the end of the prefill:
 *
 * <ul>
 *   <li>the last block was seen, or is there: the prompt is <em>whole</em>. Its key depends on
 *       every token before it, so all of them agree.
 *   <li>only the first one: <em>partial</em>, a difference within the prompt.
 *   <li>neither: <em>absent</em>.
 * </ul>
 *
 * <h2>What proves nothing</h2>
 *
 * A prompt that is found whole always counts. One that is not counts only if nothing else explains
 * it: the view was followed, not emptied since the routing (reset, restart) and not full, the watch
 * was not displaced, the worker stored something meanwhile (it may have hit everything in its own
 * cache, and hits are silent), and the events have had {@link #PATIENCE_NANOS} to come. Watches see
 * blocks that are evicted at once. Prompts below one block, failed and moved requests and those
 * aborted before their first token are not asked for. What other routers send to the worker adds
 * blocks, and takes none from the watch list.
 *
 * <p>In a partial view a prompt may be absent because the worker hit it in blocks from before our
 * time. Such blocks begin few prompts and serve them again and again, while a wrong template, salt
 * or adapter misses all prompts alike. So there a prompt counts as absent only if none before it
 * began with the same block, and a run is three times as long. One prompt that is found whole
 * begins the run anew.
 *
 * <p>One finding says little; {@link OwnKeys.Mismatch} takes a run without a whole prompt in
 * between, counted for plain, salted and adapter prompts apart, since each can go wrong alone.
 *
 * <h2>Threads</h2>
 *
 * {@link #routed}, {@link #read}, {@link #discount} and {@link #of} may be called by any thread,
 * {@link #doWork} by one housekeeping thread; the index writer reports what it places. No locks.
 * Bounded: prompts beyond the queue are not checked, watches beyond the table displace others.
 */
public final class OwnKeyCheck implements Placements {

  /** Time for events to arrive before a prompt is looked for the first time. */
  private static final long FIRST_LOOK_NANOS = 1_000_000_000L;

  /** And before it is given up. vLLM publishes within milliseconds; a gap takes a replay or two. */
  private static final long PATIENCE_NANOS = 5_000_000_000L;

  /** Findings in a row that make a mismatch, before and after the worker was verified. */
  private static final int ABSENT_RUN = 3;

  private static final int PARTIAL_RUN = 6;

  /** For workers that were verified, and for views that are partial. */
  private static final int DOUBTFUL_FACTOR = 3;

  private static final int QUEUE = 1_024;

  /** Watched keys, 256 KB: a few seconds of a thousand requests a second. */
  private static final int WATCHES = 1 << 15;

  private final LongSupplier nanoClock;
  private final BlockingQueue<Due> fresh = new ArrayBlockingQueue<>(QUEUE);
  private final BlockingQueue<Due> late = new ArrayBlockingQueue<>(QUEUE);

  /** A key's mark, its lowest bit set once the block was placed; 0 is free. */
  private final AtomicLongArray watches = new AtomicLongArray(WATCHES);

  private final Map<Worker, Standing> standings = new ConcurrentHashMap<>();

  /** By slot, for the index writer. Grown by it alone. */
  private volatile @Nullable Standing[] bySlot = new @Nullable Standing[0];

  private final Verdicts verdicts;

  /** Whether any worker is mismatched: lets look-ups pass without a search. */
  private volatile boolean hasMismatch;

  private @Nullable Due nextFresh;
  private @Nullable Due nextLate;

  private record Due(Worker worker, BlockKeys keys, String model, long routedNanos, long nanos) {}

  /** What kind of prompt it was; each can be right or wrong for itself. */
  enum Kind {
    PLAIN,
    SALTED,
    ADAPTER;

    static Kind of(CacheIdentity identity) {
      return identity.lora() != null ? ADAPTER : identity.cacheSalt() != null ? SALTED : PLAIN;
    }
  }

  /** What was found of one prompt. */
  public enum Finding {
    /** Every block. */
    WHOLE,
    /** The beginning only. */
    PARTIAL,
    /** Nothing. */
    ABSENT,
    /** Not found whole, but something else may be the reason. */
    INCONCLUSIVE
  }

  /**
   * How many prompts were found how, since the worker's life began.
   *
   * @param whole every block was there
   * @param partial the beginning was
   * @param absent nothing was
   * @param inconclusive not whole, but nothing can be concluded
   */
  public record Tally(long whole, long partial, long absent, long inconclusive) {
    static final Tally NONE = new Tally(0, 0, 0, 0);

    Tally with(Finding finding) {
      return switch (finding) {
        case WHOLE -> new Tally(whole + 1, partial, absent, inconclusive);
        case PARTIAL -> new Tally(whole, partial + 1, absent, inconclusive);
        case ABSENT -> new Tally(whole, partial, absent + 1, inconclusive);
        case INCONCLUSIVE -> new Tally(whole, partial, absent, inconclusive + 1);
      };
    }
  }

  /** Hears what is found; on the housekeeping thread. */
  public interface Verdicts {
    /** Hears nothing. */
    Verdicts UNHEARD = new Verdicts() {};

    /** A prompt was looked for. */
    default void found(Worker worker, Finding finding) {}

    /** The worker's state changed. */
    default void changed(Worker worker, OwnKeys keys) {}
  }

  /** A run of findings of one kind of prompts. Housekeeping thread. */
  private static final class Run {
    boolean isVerified;
    int absent;
    int notWhole;

    /**
     * First blocks of the prompts that were absent from a partial view since the last whole one;
     * emptied when they make a mismatch, so never many.
     */
    final Set<Long> beginnings = new HashSet<>();

    OwnKeys.@Nullable Mismatch mismatch;
  }

  /** What is known of one life of a worker. */
  private static final class Standing {
    final long life;

    /** Index writer only. */
    long placed;

    /** Index writer only. */
    long placedAtTick;

    /** Written by the index writer, read by the housekeeping thread. */
    volatile long placedNanos;

    volatile boolean hasPlaced;
    volatile long emptiedNanos;
    volatile boolean wasEmptied;

    /** How often the view was emptied: what was seen before says nothing about what comes after. */
    final AtomicInteger epoch = new AtomicInteger();

    /** Housekeeping thread only. */
    final Map<Kind, Run> runs = new EnumMap<>(Kind.class);

    /** Written by the housekeeping thread, read by any. */
    volatile OwnKeys keys = new OwnKeys.Unverified();

    volatile Tally tally = Tally.NONE;

    /** Kinds of prompts that are mismatched, and those that are verified. */
    volatile Set<Kind> wrongKinds = Set.of();

    volatile Set<Kind> rightKinds = Set.of();

    /** A block size of the worker that cannot be indexed, 0 for none. */
    volatile int refusedBlockTokens;

    /** Asks the housekeeping thread to start anew. */
    volatile boolean mustForget;

    Standing(long life) {
      this.life = life;
    }
  }

  public OwnKeyCheck(LongSupplier nanoClock, Verdicts verdicts) {
    this.nanoClock = nanoClock;
    this.verdicts = verdicts;
  }

  // ---- requests: any thread ----

  /** The prompt goes to the worker, of which {@code match} is known. */
  public void routed(Worker worker, BlockKeys keys, PrefixMatch match) {
    int stride = match.blockTokens(worker) / keys.blockSize();
    int last = lastBlock(keys, stride);
    if (last >= 0) {
      watch(worker, keys.key(stride - 1));
      watch(worker, keys.key(last));
    }
  }

  /**
   * The worker has read the whole prompt: its first token has come, or its answer.
   *
   * @param model the name that the request asked for, for the diagnosis
   * @param routedNanos when {@link #routed} was called, or a little before
   */
  public void read(Worker worker, BlockKeys keys, String model, long routedNanos) {
    if (keys.blocks() > 0) {
      long now = nanoClock.getAsLong();
      // A full queue only means fewer samples.
      boolean _ = fresh.offer(new Due(worker, keys, model, routedNanos, now));
    }
  }

  /** Takes what mismatched workers hold out of a look-up's result. */
  public void discount(BlockKeys keys, Iterable<Worker> candidates, PrefixMatch match) {
    if (!hasMismatch) {
      return;
    }
    Kind kind = Kind.of(keys.identity());
    for (Worker worker : candidates) {
      Standing standing = standings.get(worker);
      if (standing != null && isMismatched(standing, kind)) {
        match.distrust(worker);
      }
    }
  }

  /** What is known of the worker's keys. */
  public OwnKeys of(Worker worker) {
    Standing standing = standings.get(worker);
    return standing == null ? new OwnKeys.Unverified() : standing.keys;
  }

  /** How many prompts were found how. */
  public Tally tally(Worker worker) {
    Standing standing = standings.get(worker);
    return standing == null ? Tally.NONE : standing.tally;
  }

  /**
   * Every worker is unverified again: its pool's tokenizer, template or names may be others now.
   */
  public void forgetAll() {
    standings.values().forEach(standing -> standing.mustForget = true);
  }

  /** The worker's process was started anew: perhaps with other options. */
  public void forget(Worker worker) {
    standing(worker).mustForget = true;
  }

  /** The worker announced blocks of this size, which cannot be indexed. */
  public void refusedBlockSize(Worker worker, int blockTokens) {
    standing(worker).refusedBlockTokens = blockTokens;
  }

  /** Forgets workers that are not in the fleet any more. */
  public void retain(Collection<Worker> fleet) {
    standings.keySet().retainAll(fleet);
  }

  // ---- events: index writer ----

  @Override
  public void placed(Worker worker, long key) {
    Standing standing = slotStanding(worker);
    standing.placed++;
    long mark = mark(worker, standing.epoch.get(), key);
    int at = at(mark);
    if (watches.getOpaque(at) == mark) {
      watches.setOpaque(at, mark | 1);
    }
  }

  @Override
  public void tick() {
    long now = nanoClock.getAsLong();
    for (Standing standing : bySlot) {
      if (standing != null && standing.placed != standing.placedAtTick) {
        standing.placedAtTick = standing.placed;
        standing.placedNanos = now;
        standing.hasPlaced = true;
      }
    }
  }

  @Override
  public void emptied(Worker worker) {
    Standing standing = slotStanding(worker);
    standing.emptiedNanos = nanoClock.getAsLong();
    standing.wasEmptied = true;
    standing.epoch.incrementAndGet();
  }

  private Standing slotStanding(Worker worker) {
    @Nullable Standing[] table = bySlot;
    int slot = worker.slot();
    Standing known = slot < table.length ? table[slot] : null;
    if (known != null && known.life == worker.life()) {
      return known;
    }
    Standing standing = standing(worker);
    table = Arrays.copyOf(table, Math.max(table.length, slot + 1));
    table[slot] = standing;
    bySlot = table;
    return standing;
  }

  private Standing standing(Worker worker) {
    Standing known = standings.get(worker); // unlike the next one never waits
    return known != null
        ? known
        : standings.computeIfAbsent(worker, born -> new Standing(born.life()));
  }

  // ---- the watch list ----

  private void watch(Worker worker, long key) {
    long mark = mark(worker, key);
    int at = at(mark);
    // One that waits already, or was seen for another request with the same prompt, stays.
    if ((watches.getOpaque(at) & ~1L) != mark) {
      watches.setOpaque(at, mark);
    }
  }

  private boolean wasSeen(Worker worker, long key) {
    long mark = mark(worker, key);
    return watches.getOpaque(at(mark)) == (mark | 1);
  }

  private boolean isWatched(Worker worker, long key) {
    long mark = mark(worker, key);
    return (watches.getOpaque(at(mark)) & ~1L) == mark;
  }

  private long mark(Worker worker, long key) {
    return mark(worker, standing(worker).epoch.get(), key);
  }

  private static long mark(Worker worker, int epoch, long key) {
    long life = worker.life() * 0x9E3779B97F4A7C15L ^ (long) epoch << 32 ^ worker.slot();
    long mark = KeyChain.mum(key ^ 0xA0761D65D478BD64L, life ^ 0xE7037ED1A0B428DBL);
    return mark == 0 || mark == 1 ? 2 : mark & ~1L;
  }

  private static int at(long mark) {
    return (int) (mark >>> 33) & (WATCHES - 1);
  }

  /** The worker's last whole block within the prompt, as a canonical one; -1 when there is none. */
  private static int lastBlock(BlockKeys keys, int stride) {
    return stride == 0 ? -1 : keys.blocks() / stride * stride - 1;
  }

  // ---- findings: housekeeping thread ----

  /** Looks for the prompts that are due; returns how many were settled. */
  public int doWork(PrefixIndex index) {
    standings.forEach(this::renew);
    long now = nanoClock.getAsLong();
    int settled = 0;
    while ((nextFresh = due(nextFresh, fresh, now, FIRST_LOOK_NANOS)) != null) {
      Due due = Objects.requireNonNull(nextFresh);
      nextFresh = null;
      Finding finding = look(index, due);
      if (finding == Finding.WHOLE) {
        settle(index, due, finding);
        settled++;
      } else {
        boolean _ = late.offer(due);
      }
    }
    nextFresh = peeked;
    while ((nextLate = due(nextLate, late, now, PATIENCE_NANOS)) != null) {
      Due due = Objects.requireNonNull(nextLate);
      nextLate = null;
      settle(index, due, look(index, due));
      settled++;
    }
    nextLate = peeked;
    return settled;
  }

  /** What {@link #due} took out too early. */
  private @Nullable Due peeked;

  private @Nullable Due due(
      @Nullable Due first, BlockingQueue<Due> queue, long now, long delayNanos) {
    Due due = first == null ? queue.poll() : first;
    boolean isDue = due != null && now - due.nanos() >= delayNanos;
    peeked = isDue ? null : due;
    return isDue ? due : null;
  }

  private void renew(Worker worker, Standing standing) {
    if (standing.mustForget) {
      standing.mustForget = false;
      standing.runs.clear();
      standing.refusedBlockTokens = 0;
      change(worker, standing, new OwnKeys.Unverified());
    } else if (standing.refusedBlockTokens > 0 && !(standing.keys instanceof OwnKeys.Mismatch)) {
      change(
          worker,
          standing,
          new OwnKeys.Mismatch(
              OwnKeys.Cause.BLOCK_SIZE,
              "the worker's blocks of "
                  + standing.refusedBlockTokens
                  + " tokens are no multiple of the index's; set blockSize of its pool"));
    }
  }

  private Finding look(PrefixIndex index, Due due) {
    Worker worker = due.worker();
    BlockKeys keys = due.keys();
    int stride = index.strideBlocks(worker);
    int last = lastBlock(keys, stride);
    if (last < 0) {
      return Finding.INCONCLUSIVE;
    }
    long lastKey = keys.key(last);
    if (wasSeen(worker, lastKey) || index.holds(worker, lastKey)) {
      return Finding.WHOLE;
    }
    Standing standing = standing(worker);
    boolean mayBeExplained =
        !index.isFollowed(worker)
            || index.isFull()
            || (standing.wasEmptied && standing.emptiedNanos - due.routedNanos() >= 0)
            || !standing.hasPlaced
            || standing.placedNanos - due.routedNanos() < 0
            || !isWatched(worker, lastKey);
    if (mayBeExplained) {
      return Finding.INCONCLUSIVE;
    }
    long firstKey = keys.key(stride - 1);
    if (wasSeen(worker, firstKey) || index.holds(worker, firstKey)) {
      return Finding.PARTIAL;
    }
    return isWatched(worker, firstKey) ? Finding.ABSENT : Finding.INCONCLUSIVE;
  }

  private void settle(PrefixIndex index, Due due, Finding finding) {
    Worker worker = due.worker();
    int stride = index.strideBlocks(worker);
    if (stride > 0 && lastBlock(due.keys(), stride) < 0) {
      return; // shorter than a block: nothing was to be found
    }
    Standing standing = standing(worker);
    Run run = standing.runs.computeIfAbsent(Kind.of(due.keys().identity()), _ -> new Run());
    boolean isPartialView = !index.isLive(worker);
    Finding counted = finding;
    if (finding == Finding.ABSENT
        && isPartialView
        && !run.beginnings.add(due.keys().key(stride - 1))) {
      counted = Finding.INCONCLUSIVE; // its beginning may be an old block that is hit every time
    }
    standing.tally = standing.tally.with(counted);
    verdicts.found(worker, counted);
    switch (counted) {
      case WHOLE -> {
        run.isVerified = true;
        run.absent = 0;
        run.notWhole = 0;
        run.beginnings.clear();
        run.mismatch = null;
      }
      case PARTIAL -> {
        run.absent = 0;
        run.notWhole++;
      }
      case ABSENT -> {
        run.absent++;
        run.notWhole++;
      }
      case INCONCLUSIVE -> {
        return;
      }
    }
    int factor = run.isVerified || isPartialView ? DOUBTFUL_FACTOR : 1;
    if (run.absent >= ABSENT_RUN * factor || run.notWhole >= PARTIAL_RUN * factor) {
      run.mismatch = diagnosed(index, due, stride, counted);
      run.beginnings.clear();
    }
    change(worker, standing, summary(standing));
  }

  /** The plain prompts decide; others only tell where they differ from them. */
  private static OwnKeys summary(Standing standing) {
    boolean isVerified = false;
    for (Run run : standing.runs.values()) {
      if (run.mismatch != null) {
        return run.mismatch;
      }
      isVerified |= run.isVerified;
    }
    return isVerified ? new OwnKeys.Verified() : new OwnKeys.Unverified();
  }

  /**
   * Whether prompts of this kind are to be scored without the worker's cache: their own kind is
   * wrong, or nothing is known to be right.
   */
  private static boolean isMismatched(Standing standing, Kind kind) {
    if (!(standing.keys instanceof OwnKeys.Mismatch)) {
      return false;
    }
    return standing.wrongKinds.contains(kind) || standing.rightKinds.isEmpty();
  }

  private OwnKeys.Mismatch diagnosed(PrefixIndex index, Due due, int stride, Finding finding) {
    BlockKeys keys = due.keys();
    Worker worker = due.worker();
    if (finding == Finding.PARTIAL) {
      return new OwnKeys.Mismatch(
          OwnKeys.Cause.TEMPLATE,
          "prompts agree up to token "
              + agreement(index, worker, keys, stride)
              + " or so and differ after it; compare chat template and its options");
    }
    CacheIdentity own = keys.identity();
    int first = stride - 1;
    String lora = own.lora();
    if (own.cacheSalt() != null
        && holdsAs(index, worker, keys, CacheIdentity.of(lora, null), first)) {
      return new OwnKeys.Mismatch(
          OwnKeys.Cause.SALT, "the worker stores salted prompts without their cache_salt");
    }
    if (lora != null
        && (holdsAs(index, worker, keys, CacheIdentity.of(null, own.cacheSalt()), first)
            || holdsAs(index, worker, keys, CacheIdentity.of(null, null), first))) {
      return new OwnKeys.Mismatch(
          OwnKeys.Cause.ADAPTER,
          "the worker stores prompts for adapter " + lora + " as its base model's");
    }
    if (lora == null
        && holdsAs(index, worker, keys, CacheIdentity.of(due.model(), own.cacheSalt()), first)) {
      return new OwnKeys.Mismatch(
          OwnKeys.Cause.ADAPTER,
          "the worker serves "
              + due.model()
              + " as an adapter; list it under adapters of the pool, not under models");
    }
    return new OwnKeys.Mismatch(
        OwnKeys.Cause.TEMPLATE,
        "no block of the prompts is among those that the worker stores; compare tokenizer and chat"
            + " template");
  }

  private static boolean holdsAs(
      PrefixIndex index, Worker worker, BlockKeys keys, CacheIdentity other, int block) {
    long key = keys.keyAs(other, block);
    return key != 0 && index.holds(worker, key);
  }

  private static int agreement(PrefixIndex index, Worker worker, BlockKeys keys, int stride) {
    int depth = 0;
    while (depth + stride <= keys.blocks() && index.holds(worker, keys.key(depth + stride - 1))) {
      depth += stride;
    }
    return depth * keys.blockSize();
  }

  private void change(Worker worker, Standing standing, OwnKeys now) {
    Set<Kind> wrong = EnumSet.noneOf(Kind.class);
    Set<Kind> right = EnumSet.noneOf(Kind.class);
    standing.runs.forEach(
        (kind, run) -> {
          if (run.mismatch != null) {
            wrong.add(kind);
          } else if (run.isVerified) {
            right.add(kind);
          }
        });
    standing.wrongKinds = Set.copyOf(wrong);
    standing.rightKinds = Set.copyOf(right);
    if (!now.equals(standing.keys)) {
      standing.keys = now;
      hasMismatch =
          standings.values().stream().anyMatch(other -> other.keys instanceof OwnKeys.Mismatch);
      verdicts.changed(worker, now);
    }
  }
}
