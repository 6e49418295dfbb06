// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import java.time.Duration;
import java.util.Iterator;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Routed requests whose answers are told by another connection than the one that asked for the
 * pick, found by an id.
 *
 * <p>The id travels in the proxy's dynamic metadata, where no client can write, and cannot be
 * guessed: it is a number of this process mixed with two secrets of this process life. An id of an
 * earlier life is unknown here.
 *
 * <p>Any thread. Calls for one request come one at a time: its dispatch is used under its own
 * monitor.
 */
public final class DispatchBook {
  /**
   * Reports of a running answer come several times a second, so a silence of many intervals means
   * that its end was lost, or that its client left before the proxy had read our pick.
   */
  static final Duration SILENCE = Duration.ofSeconds(10);

  private final ConcurrentHashMap<String, Kept> kept = new ConcurrentHashMap<>();
  private final AtomicLong next = new AtomicLong();
  private final long firstSecret;
  private final long secondSecret;
  private final LongSupplier nanoClock;
  private final Supplier<Duration> patience;

  /** When the newest report came, of whatever request; written by any thread, the last counts. */
  private volatile long lastReportNanos;

  private static final class Kept {
    final Dispatch dispatch;
    final long sinceNanos;
    final boolean reported;
    volatile long heardNanos;

    Kept(Dispatch dispatch, long sinceNanos, boolean reported) {
      this.dispatch = dispatch;
      this.sinceNanos = sinceNanos;
      this.reported = reported;
      this.heardNanos = sinceNanos;
    }
  }

  /**
   * @param secrets two random numbers, new for each process
   * @param nanoClock monotonic time
   * @param patience how long to wait for the end of an answer
   */
  public DispatchBook(LongSupplier secrets, LongSupplier nanoClock, Supplier<Duration> patience) {
    this.firstSecret = secrets.getAsLong();
    this.secondSecret = secrets.getAsLong();
    this.nanoClock = nanoClock;
    this.patience = patience;
    this.lastReportNanos = nanoClock.getAsLong() - SILENCE.toNanos();
  }

  /**
   * Keeps a dispatch until its end is told, or for {@code patience}.
   *
   * @param reported whether reports come while the answer runs, so that their silence tells too
   * @return its id
   */
  public String keep(Dispatch dispatch, boolean reported) {
    String id = id(next.getAndIncrement());
    kept.put(id, new Kept(dispatch, nanoClock.getAsLong(), reported));
    return id;
  }

  /**
   * Takes a report.
   *
   * @return false when there is no such request, or none any more
   */
  public boolean report(String id, AnswerReport report) {
    lastReportNanos = nanoClock.getAsLong();
    return tell(id, dispatch -> dispatch.reported(report));
  }

  /**
   * Tells the dispatch with this id something.
   *
   * @return false when there is none, or none any more
   */
  public boolean tell(String id, Consumer<? super Dispatch> what) {
    @Nullable Kept found = kept.get(id);
    if (found == null) {
      return false;
    }
    found.heardNanos = nanoClock.getAsLong();
    Dispatch dispatch = found.dispatch;
    synchronized (dispatch) {
      what.accept(dispatch);
      if (dispatch.isSettled()) {
        kept.remove(id);
      }
    }
    return true;
  }

  /**
   * Gives up on what nobody told the end of; called every second or so by one thread. Silence
   * counts only while reports of other requests come in.
   */
  public int sweep() {
    long now = nanoClock.getAsLong();
    long oldest = now - patience.get().toNanos();
    long quiet = now - SILENCE.toNanos();
    boolean reportsCome = lastReportNanos - (now - SILENCE.toNanos() / 10) > 0;
    int given = 0;
    for (Iterator<Kept> all = kept.values().iterator(); all.hasNext(); ) {
      Kept each = all.next();
      boolean silent = each.reported && reportsCome && each.heardNanos - quiet < 0;
      if (silent || each.sinceNanos - oldest < 0) {
        all.remove();
        given++;
        synchronized (each.dispatch) {
          each.dispatch.expired();
        }
      }
    }
    return given;
  }

  /** Requests whose end is awaited. */
  public int size() {
    return kept.size();
  }

  /** A bijection of the number, so that no two ids are alike. */
  private String id(long number) {
    long mixed = mix(mix(number + firstSecret) ^ secondSecret);
    String hex = Long.toHexString(mixed);
    return "0".repeat(16 - hex.length()) + hex;
  }

  /**
   * Finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom generators, 2014).
   */
  private static long mix(long z) {
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }
}
