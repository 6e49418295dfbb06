// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.queue;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Requests that no worker can take yet, in one line for each pool.
 *
 * <p>Higher priorities come first, always; within a priority the flows take turns; within a flow
 * whoever came first. Every {@link #PASS} those in front try again, and at once when all who tried
 * were placed. Somebody behind may be served before somebody in front who asks for more than there
 * is, but not before {@link #MAX_MISSES} in front have tried: a line whose first request is the
 * hardest to place would stand still.
 *
 * <p>Threads: any. Attempts, and what follows from them, run on one thread of its own and under no
 * lock. {@link #isBehind} takes no lock while nobody waits anywhere.
 *
 * @param <T> what guests wait for
 */
public final class WaitingRoom<T> implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(WaitingRoom.class);

  /** Between two attempts: short beside any first token. */
  static final Duration PASS = Duration.ofMillis(20);

  /** An attempt costs as much as a decision; so many of a line may fail in one pass. */
  static final int MAX_MISSES = 16;

  private final LongSupplier nanoClock;
  private final ScheduledThreadPoolExecutor thread;
  private final ReentrantLock lock = new ReentrantLock();

  @GuardedBy("lock")
  private final Map<String, Line<T>> lines = new HashMap<>();

  @GuardedBy("lock")
  private boolean isScheduled;

  @GuardedBy("lock")
  private boolean isClosed;

  /** In all lines together; changed under the lock. */
  private final AtomicInteger waiting = new AtomicInteger();

  /** How a wait ended. */
  public enum End {
    /** It got what it waited for. */
    PLACED,
    /** Its time ran out, or that of the server. */
    EXPIRED,
    /** By a fault of ours. */
    FAILED,
    /** It went away. */
    LEFT
  }

  /** Told who comes and goes, on any thread. */
  public interface Meter {
    void entered();

    void ended(End end, long nanos);
  }

  /**
   * Who waits.
   *
   * @param priority higher ones come first
   * @param flow who takes turns with whom
   * @param attempt tries to get it; null when there is still none
   * @param expired what it gets when its time is over
   * @param failed what it gets when an attempt fails by a fault
   * @param later told what it got, once, unless it has left; false when it does not take it
   * @param undo gives back what it got when it has left meanwhile or does not take it
   * @param meter told of its coming and going
   */
  public record Guest<T>(
      int priority,
      String flow,
      Supplier<? extends @Nullable T> attempt,
      Supplier<? extends T> expired,
      Supplier<? extends T> failed,
      Predicate<? super T> later,
      Consumer<? super T> undo,
      Meter meter) {}

  /** A guest's place in the line. */
  public static final class Place<T> {
    private final WaitingRoom<T> room;
    private final String pool;
    private final Guest<T> guest;
    private final long sinceNanos;
    private final long deadlineNanos;
    private final AtomicReference<@Nullable End> end = new AtomicReference<>();

    private Place(
        WaitingRoom<T> room, String pool, Guest<T> guest, long sinceNanos, long deadlineNanos) {
      this.room = room;
      this.pool = pool;
      this.guest = guest;
      this.sinceNanos = sinceNanos;
      this.deadlineNanos = deadlineNanos;
    }

    /**
     * The guest waits no longer.
     *
     * @return false when the wait has ended already
     */
    public boolean leave() {
      return room.end(this, End.LEFT);
    }
  }

  private static final class Line<T> {
    /** By priority, highest first, then by flow, the one whose turn it is first. */
    private final NavigableMap<Integer, Map<String, Set<Place<T>>>> byPriority =
        new TreeMap<>(Collections.reverseOrder());

    private int size;

    void add(Place<T> place) {
      byPriority
          .computeIfAbsent(place.guest.priority, _ -> new LinkedHashMap<>())
          .computeIfAbsent(place.guest.flow, _ -> new LinkedHashSet<>())
          .add(place);
      size++;
    }

    void remove(Place<T> place, boolean isTurn) {
      Map<String, Set<Place<T>>> flows = byPriority.get(place.guest.priority);
      Set<Place<T>> flow = flows == null ? null : flows.get(place.guest.flow);
      if (flows == null || flow == null || !flow.remove(place)) {
        return;
      }
      size--;
      if (flow.isEmpty() || isTurn) {
        flows.remove(place.guest.flow);
      }
      if (!flow.isEmpty() && isTurn) {
        // It has had its turn.
        flows.put(place.guest.flow, flow);
      }
      if (flows.isEmpty()) {
        byPriority.remove(place.guest.priority);
      }
    }

    void addInOrder(Collection<? super Place<T>> to) {
      for (Map<String, Set<Place<T>>> flows : byPriority.values()) {
        List<Iterator<Place<T>>> turns = new ArrayList<>();
        flows.values().forEach(flow -> turns.add(flow.iterator()));
        while (!turns.isEmpty()) {
          for (Iterator<Iterator<Place<T>>> turn = turns.iterator(); turn.hasNext(); ) {
            Iterator<Place<T>> flow = turn.next();
            if (flow.hasNext()) {
              to.add(flow.next());
            } else {
              turn.remove();
            }
          }
        }
      }
    }
  }

  public WaitingRoom(LongSupplier nanoClock) {
    this.nanoClock = nanoClock;
    thread =
        new ScheduledThreadPoolExecutor(
            1, task -> Thread.ofPlatform().name("kvoy-queue").daemon().unstarted(task));
  }

  /**
   * Whether somebody of that priority or a higher one waits already.
   *
   * @param pool or another name of a line
   */
  public boolean isBehind(String pool, int priority) {
    if (waiting.get() == 0) {
      return false;
    }
    lock.lock();
    try {
      Line<T> line = lines.get(pool);
      return line != null && line.byPriority.firstKey() >= priority;
    } finally {
      lock.unlock();
    }
  }

  /**
   * Takes a place at the end of the guest's flow.
   *
   * @param pool or another name of a line
   * @param max most guests of the line
   * @param patience longest wait
   * @return null when there is no room
   */
  public @Nullable Place<T> enter(String pool, Guest<T> guest, int max, Duration patience) {
    long now = nanoClock.getAsLong();
    Place<T> place = new Place<>(this, pool, guest, now, now + patience.toNanos());
    lock.lock();
    try {
      Line<T> line = lines.computeIfAbsent(pool, _ -> new Line<>());
      if (line.size >= max || !schedule(PASS)) {
        dropIfEmpty(pool, line);
        return null;
      }
      line.add(place);
      waiting.incrementAndGet();
    } finally {
      lock.unlock();
    }
    guest.meter.entered();
    return place;
  }

  @GuardedBy("lock")
  private void dropIfEmpty(String pool, Line<T> line) {
    if (line.size == 0) {
      lines.remove(pool);
    }
  }

  /** Makes sure that a pass follows; false after the end. */
  @GuardedBy("lock")
  private boolean schedule(Duration delay) {
    if (isClosed) {
      return false;
    }
    if (!isScheduled) {
      var _ = thread.schedule(this::pass, delay.toMillis(), TimeUnit.MILLISECONDS);
      isScheduled = true;
    }
    return true;
  }

  private void pass() {
    boolean isAllPlaced = false;
    try {
      isAllPlaced = tryAll();
    } finally {
      lock.lock();
      try {
        isScheduled = false;
        if (waiting.get() > 0) {
          var _ = schedule(isAllPlaced ? Duration.ZERO : PASS);
        }
      } finally {
        lock.unlock();
      }
    }
  }

  /**
   * @return whether all who tried were placed
   */
  private boolean tryAll() {
    Map<String, Integer> misses = new HashMap<>();
    for (Place<T> place : inOrder()) {
      if (nanoClock.getAsLong() - place.deadlineNanos >= 0) {
        settle(place, End.EXPIRED, place.guest.expired.get());
      } else if (place.end.get() == null
          && misses.getOrDefault(place.pool, 0) < MAX_MISSES
          && !attempt(place)) {
        misses.merge(place.pool, 1, Integer::sum);
      }
    }
    return misses.isEmpty();
  }

  private List<Place<T>> inOrder() {
    List<Place<T>> order = new ArrayList<>(waiting.get());
    lock.lock();
    try {
      lines.values().forEach(line -> line.addInOrder(order));
    } finally {
      lock.unlock();
    }
    return order;
  }

  private boolean attempt(Place<T> place) {
    T got;
    try {
      got = place.guest.attempt.get();
    } catch (RuntimeException | StackOverflowError bug) {
      // Once is enough, for the log and for whatever was booked before it failed.
      LOG.error("queued_request_failed", bug);
      settle(place, End.FAILED, place.guest.failed.get());
      return true;
    }
    if (got == null) {
      return false;
    }
    settle(place, End.PLACED, got);
    return true;
  }

  private void settle(Place<T> place, End how, T got) {
    try {
      if (!end(place, how) || !place.guest.later.test(got)) {
        place.guest.undo.accept(got);
      }
    } catch (RuntimeException bug) {
      // The others are not to wait for ever because of it.
      LOG.error("queued_answer_failed", bug);
    }
  }

  /** Ends a wait; false when it has ended already. */
  private boolean end(Place<T> place, End how) {
    if (!place.end.compareAndSet(null, how)) {
      return false;
    }
    lock.lock();
    try {
      Line<T> line = lines.get(place.pool);
      if (line != null) {
        line.remove(place, how == End.PLACED);
        dropIfEmpty(place.pool, line);
        waiting.decrementAndGet();
      }
    } finally {
      lock.unlock();
    }
    place.guest.meter.ended(how, nanoClock.getAsLong() - place.sinceNanos);
    return true;
  }

  /** Nobody enters any more, and who waits has waited long enough. */
  @Override
  public void close() {
    lock.lock();
    try {
      isClosed = true;
    } finally {
      lock.unlock();
    }
    thread.shutdownNow();
    inOrder().forEach(place -> settle(place, End.EXPIRED, place.guest.expired.get()));
  }
}
