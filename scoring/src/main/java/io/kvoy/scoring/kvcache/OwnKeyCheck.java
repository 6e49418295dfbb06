// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Compares what we thought a worker would cache with what its events say it cached: a standing
 * proof, on live traffic, that our template, tokenizer and keys agree with the worker's.
 *
 * <p>A worker whose answer is complete has read the whole prompt, and the events of that are out
 * (vLLM 0.32 publishes at the end of each engine step). So a moment later the index must show all
 * of the prompt's blocks there. If it shows none of them, prompt after prompt, our ids are not the
 * worker's.
 *
 * <p>{@link #answered} may be called by any thread; {@link #doWork} by one housekeeping thread.
 * Bounded: prompts beyond the queue are not checked.
 */
public final class OwnKeyCheck {

  private static final int QUEUE = 1024;

  private final PrefixIndex index;
  private final LongSupplier nanoClock;
  private final long delayNanos;
  private final BlockingQueue<Due> queue = new ArrayBlockingQueue<>(QUEUE);
  private final Map<Worker, Parity> results = new ConcurrentHashMap<>();
  private final PrefixMatch match = new PrefixMatch();
  private @Nullable Due next;

  private record Due(Worker worker, BlockKeys keys, long nanos) {}

  /**
   * What was found so far.
   *
   * @param whole prompts of which every block was there
   * @param partial prompts of which the beginning was there: eviction, or a difference within the
   *     prompt
   * @param absent prompts of which nothing was there
   */
  public record Parity(long whole, long partial, long absent) {
    static final Parity NONE = new Parity(0, 0, 0);

    /** Share of prompts with nothing there, 0 without prompts. */
    public double absentShare() {
      long all = whole + partial + absent;
      return all == 0 ? 0 : (double) absent / all;
    }
  }

  /**
   * A delay of half a second leaves the events time to arrive and the blocks none to be evicted.
   */
  public OwnKeyCheck(PrefixIndex index, LongSupplier nanoClock, long delayNanos) {
    this.index = index;
    this.nanoClock = nanoClock;
    this.delayNanos = delayNanos;
  }

  /** The worker has answered the prompt completely. */
  public void answered(Worker worker, BlockKeys keys) {
    if (keys.reusableBlocks() > 0) {
      // A full queue only means fewer samples.
      boolean _ = queue.offer(new Due(worker, keys, nanoClock.getAsLong() + delayNanos));
    }
  }

  /** Checks the prompts that are due; returns their number. */
  public int doWork() {
    long now = nanoClock.getAsLong();
    int checked = 0;
    while (true) {
      Due due = next == null ? queue.poll() : next;
      if (due == null || due.nanos() - now > 0) {
        next = due;
        return checked;
      }
      next = null;
      check(due);
      checked++;
    }
  }

  private void check(Due due) {
    index.lookup(due.keys(), match);
    if (match.view(due.worker()) != KvViewState.LIVE) {
      return;
    }
    int blockTokens = match.blockTokens(due.worker());
    int there = match.cachedTokensAnyTier(due.worker());
    int reusable = due.keys().promptTokens() - 1;
    int whole = blockTokens == 0 ? reusable : reusable - reusable % blockTokens;
    if (whole == 0) {
      return;
    }
    results.merge(
        due.worker(),
        new Parity(there == whole ? 1 : 0, there > 0 && there < whole ? 1 : 0, there == 0 ? 1 : 0),
        (a, b) ->
            new Parity(a.whole() + b.whole(), a.partial() + b.partial(), a.absent() + b.absent()));
  }

  /** What was found for the worker. Any thread. */
  public Parity parity(Worker worker) {
    return results.getOrDefault(worker, Parity.NONE);
  }

  /** Forgets workers that are not in the fleet any more. Any thread. */
  public void retain(Collection<Worker> fleet) {
    results.keySet().retainAll(fleet);
  }
}
