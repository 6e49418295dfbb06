// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One virtual thread per live worker that repeats a blocking step with a pause: a slow worker
 * delays nobody else's step. Used by {@link HealthProber} and the metrics scraper.
 *
 * <p>A worker's loop ends with its life. A step that throws is logged and repeated. Close stops all
 * loops; a closed object cannot be started again.
 */
public final class WorkerLoops implements AutoCloseable {
  private static final Logger log = LoggerFactory.getLogger(WorkerLoops.class);

  /** What is repeated for one worker; owns that worker's state between steps. */
  @FunctionalInterface
  public interface Step {
    /** Does one round; may block. */
    void run() throws InterruptedException;
  }

  private final String role;
  private final FleetRegistry registry;
  private final Duration interval;
  private final Function<Worker, Step> steps;
  private final Map<Worker, Thread> loops = new ConcurrentHashMap<>();
  private volatile boolean closed;

  /**
   * @param role prefix of the thread names
   * @param registry whose workers are looped over
   * @param interval pause between two steps of a worker
   * @param steps makes the step of a worker, once per life
   */
  public WorkerLoops(
      String role, FleetRegistry registry, Duration interval, Function<Worker, Step> steps) {
    this.role = role;
    this.registry = registry;
    this.interval = interval;
    this.steps = steps;
  }

  /** Starts a loop for each present and future worker. */
  public void start() {
    registry.listen(
        change -> {
          change.removed().forEach(this::stop);
          change.added().forEach(this::watch);
        });
    registry.fleet().workers().forEach(this::watch);
  }

  private void watch(Worker worker) {
    loops.computeIfAbsent(
        worker,
        w -> {
          Step step = steps.apply(w);
          return Thread.ofVirtual().name(role + "-" + w.name()).start(() -> loop(w, step));
        });
    if (closed || !registry.fleet().isLive(worker)) {
      stop(worker);
    }
  }

  private void stop(Worker worker) {
    Thread loop = loops.remove(worker);
    if (loop != null) {
      loop.interrupt();
    }
  }

  private void loop(Worker worker, Step step) {
    while (!closed && registry.fleet().isLive(worker)) {
      try {
        step.run();
        Thread.sleep(interval);
      } catch (InterruptedException _) {
        return;
      } catch (RuntimeException bug) {
        log.error("{} step failed, worker={}", role, worker.name(), bug);
        if (!pause()) {
          return;
        }
      }
    }
  }

  private boolean pause() {
    try {
      Thread.sleep(interval);
      return true;
    } catch (InterruptedException _) {
      return false;
    }
  }

  @Override
  public void close() {
    closed = true;
    loops.keySet().forEach(this::stop);
  }
}
