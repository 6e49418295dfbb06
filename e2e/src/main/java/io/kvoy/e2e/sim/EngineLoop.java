// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * Gives a {@link SimEngine} a thread and lets time pass between the two halves of a step.
 *
 * <p>All access to the engine goes through commands that the thread runs between steps, as vLLM's
 * engine core takes its input queue between steps. Steps follow each other on the simulated time
 * line: when the thread wakes late, the next step begins where the last one ended, so that a busy
 * host does not slow the simulation down (up to {@link #MOST_LAG_NANOS}).
 *
 * <p>One platform thread per worker life. Every public method may be called from any thread.
 */
final class EngineLoop implements AutoCloseable {
  /**
   * Lag of the simulated machine behind its clock that is given up rather than made good: a quarter
   * second.
   */
  private static final long MOST_LAG_NANOS = 250_000_000;

  private final SimEngine engine;
  private final SimClock clock;
  private final Consumer<List<KvEvent>> publish;
  private final ConcurrentLinkedQueue<Runnable> commands = new ConcurrentLinkedQueue<>();
  private final Thread thread;
  // Volatile: set by control calls, read by the loop before every step.
  private volatile boolean paused;
  private volatile boolean closed;
  private volatile double slowdown = 1;

  EngineLoop(String name, SimEngine engine, SimClock clock, Consumer<List<KvEvent>> publish) {
    this.engine = engine;
    this.clock = clock;
    this.publish = publish;
    thread = Thread.ofPlatform().daemon().name("sim-engine-" + name).unstarted(this::run);
  }

  void start() {
    thread.start();
  }

  void submit(EngineRequest request) {
    long arrivedNanos = clock.nowNanos();
    command(() -> engine.add(request, arrivedNanos));
  }

  void abort(String requestId) {
    command(() -> engine.abort(requestId));
  }

  boolean resetPrefixCache() {
    return ask(engine::resetPrefixCache);
  }

  /** Blocks whose content can be found, for tests and the control page. */
  int cachedBlocks() {
    return ask(() -> engine.pool().cached());
  }

  void pause() {
    paused = true;
  }

  void resume() {
    paused = false;
    LockSupport.unpark(thread);
  }

  boolean paused() {
    return paused;
  }

  /** Every step takes this many times as long from the next one on. */
  void slowdown(double factor) {
    if (!(factor > 0)) {
      throw new IllegalArgumentException("factor must be positive, was " + factor);
    }
    slowdown = factor;
  }

  double slowdown() {
    return slowdown;
  }

  /** Ends the thread; every request in flight hears that it is gone. */
  @Override
  public void close() {
    closed = true;
    if (thread.getState() == Thread.State.NEW) {
      return;
    }
    LockSupport.unpark(thread);
    try {
      thread.join();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void command(Runnable command) {
    commands.add(command);
    LockSupport.unpark(thread);
  }

  private <T> T ask(Supplier<T> question) {
    CompletableFuture<T> answer = new CompletableFuture<>();
    command(() -> answer.complete(question.get()));
    if (closed) {
      // The loop may have ended before it saw the command.
      answer.completeExceptionally(new IllegalStateException("the worker is down"));
    }
    return answer.join();
  }

  private void run() {
    boolean idle = true;
    long freeAtNanos = 0;
    while (!closed) {
      drain();
      if (!engine.hasWork()) {
        idle = true;
        LockSupport.park(this);
        continue;
      }
      if (paused) {
        LockSupport.park(this);
        continue;
      }
      long now = clock.nowNanos();
      long begin = idle || now - freeAtNanos > MOST_LAG_NANOS ? now : freeAtNanos;
      idle = false;
      SimEngine.Step step = engine.schedule(begin);
      if (step.isEmpty()) {
        throw new IllegalStateException(
            "engine holds %d waiting requests and can schedule none"
                .formatted(engine.waitingCount()));
      }
      long end = begin + (long) (step.durationNanos() * slowdown);
      while (!closed && (paused || clock.nowNanos() < end)) {
        if (paused) {
          LockSupport.park(this);
        } else {
          clock.parkUntil(end);
        }
      }
      if (!closed) {
        engine.complete(step, end, publish);
        freeAtNanos = end;
      }
    }
    drain();
    for (EngineRequest request : engine.liveRequests()) {
      request.sink().accept(new EngineOutput.Gone(request.id()));
    }
  }

  private void drain() {
    for (Runnable command = commands.poll(); command != null; command = commands.poll()) {
      command.run();
    }
  }
}
