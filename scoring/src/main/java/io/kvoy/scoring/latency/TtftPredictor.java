// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.latency.Prediction.Source;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Predicts the time to first token per worker and learns from what happened.
 *
 * <p>The model is physics with six unknowns ({@link Coefficients}): few enough to be learned from
 * tens of requests, each with a unit and a bound, so that a wrong one can be seen by eye. A worker
 * starts with what its pool has learned, a pool with the prior; a new life of a worker starts over,
 * because it may be another GPU or another model. A belief without fresh lessons goes back to the
 * pool's by halves: a worker that seemed slow gets no traffic that could show otherwise.
 *
 * <p>Predictions read an immutable snapshot (two volatile reads, no lock). Lessons come from the
 * response path, one per first token, and serialise on their worker's monitor. Only first tokens of
 * requests that the predicted worker really served are lessons: failures and retries teach nothing.
 */
public final class TtftPredictor {
  private final class Model {
    private final long life;
    private final String pool;

    @GuardedBy("this")
    private final CoefficientFilter filter;

    @GuardedBy("this")
    private final ErrorWindow errors = new ErrorWindow();

    @GuardedBy("this")
    private int lessonsSkipped;

    /** Written under the monitor, read by every pick. */
    private volatile Coefficients current;

    /** When the latest lesson came; written under the monitor. */
    private volatile long learnedNanos;

    /** What {@link #drifted} made of {@link #current} last; replaced by whoever finds it old. */
    private volatile @Nullable Drifted drifted;

    Model(long life, String pool, Coefficients from) {
      this.life = life;
      this.pool = pool;
      this.filter = new CoefficientFilter(settings, from);
      this.current = from;
      this.learnedNanos = nanoClock.getAsLong();
    }

    /** What is believed at present: a worker that is not heard of goes back to its pool's. */
    Coefficients present(long now) {
      Coefficients own = current;
      if (life == POOL_LIFE) {
        return own;
      }
      double ageSeconds = (now - learnedNanos) / 1e9;
      if (ageSeconds < settings.freshSeconds()) {
        return own;
      }
      Drifted known = drifted;
      if (known != null && known.isOf(own) && now - known.atNanos() < DRIFT_STEP_NANOS) {
        return known.coefficients();
      }
      double share =
          Math.pow(0.5, (ageSeconds - settings.freshSeconds()) / settings.halfLifeSeconds());
      Coefficients mixed = own.towards(poolCoefficients(pool), 1 - share);
      drifted = new Drifted(own, mixed, now);
      return mixed;
    }

    synchronized boolean learn(Lesson lesson, Source own) {
      if (!isPossible(lesson.actualMillis())) {
        return false;
      }
      learnedNanos = nanoClock.getAsLong();
      if (lessonsSkipped < WARM_UP_LESSONS
          && filter.lessons() <= WARM_UP_LESSONS
          && lesson.actualMillis() > WARM_UP_FACTOR * lesson.predictedMillis()) {
        // An engine's first requests compile and allocate; that is not its speed.
        lessonsSkipped++;
        return false;
      }
      if (lesson.waitedForRoom()) {
        filter.learnRoom(lesson.features(), lesson.actualMillis());
      } else {
        filter.learn(lesson.features(), lesson.actualMillis());
      }
      errors.add(lesson.errorShare());
      current =
          filter.coefficients(
              filter.lessons() >= settings.workerAfterLessons() ? own : current.source());
      return true;
    }

    synchronized ErrorStats stats() {
      return errors.stats();
    }

    synchronized long lessons() {
      return filter.lessons();
    }
  }

  /** Nobody waits longer; what does is a mistake of some clock. */
  private static final double LONGEST_MILLIS = 3_600_000;

  /** First requests of a life that may be slow for reasons of their own (vLLM: about a second). */
  private static final int WARM_UP_LESSONS = 2;

  /** And by how much they exceed the prediction. */
  private static final double WARM_UP_FACTOR = 5;

  /** Life that no worker has. */
  private static final long POOL_LIFE = 0;

  /** How long a belief on its way back to the pool's is used unchanged. */
  private static final long DRIFT_STEP_NANOS = 1_000_000_000L;

  private record Drifted(Coefficients from, Coefficients coefficients, long atNanos) {
    /** By identity: it is replaced whole, and asked for each worker in each pick. */
    @SuppressWarnings("ReferenceEquality")
    boolean isOf(Coefficients own) {
      return from == own;
    }
  }

  private final LearningSettings settings;
  private final LongSupplier nanoClock;
  private final Map<String, Model> pools = new ConcurrentHashMap<>();
  private final Object growth = new Object();

  /** Index is the slot; replaced whole under {@link #growth}, read without it. */
  private volatile @Nullable Model[] workers = new Model[0];

  /**
   * @param nanoClock monotonic time, for the age of what was learned
   */
  public TtftPredictor(LearningSettings settings, LongSupplier nanoClock) {
    this.settings = settings;
    this.nanoClock = nanoClock;
  }

  /** What is believed of a worker at present: its own experience, its pool's, or the prior. */
  public Coefficients coefficients(Worker worker) {
    return coefficients(worker, nanoClock.getAsLong());
  }

  /** The same for whoever has just read the clock: a pick asks for each of its candidates. */
  public Coefficients coefficients(Worker worker, long nowNanos) {
    @Nullable Model[] table = workers;
    Model model = worker.slot() < table.length ? table[worker.slot()] : null;
    return model != null && model.life == worker.life()
        ? model.present(nowNanos)
        : poolCoefficients(worker.pool());
  }

  /** What is believed of a pool: the start of its new workers. */
  public Coefficients poolCoefficients(String pool) {
    Model model = pools.get(pool);
    return model == null ? settings.prior() : model.current;
  }

  private static boolean isPossible(double actualMillis) {
    return actualMillis > 0 && actualMillis < LONGEST_MILLIS;
  }

  /** Predicts for one worker. */
  public Prediction predict(Worker worker, Features features) {
    return coefficients(worker).predict(features);
  }

  /**
   * Learns from a first token. Values that cannot be (not positive, over an hour) are ignored.
   *
   * @return true when it was used
   */
  public boolean learn(Lesson lesson) {
    Worker worker = lesson.worker();
    Model model = model(worker);
    if (model == null || !model.learn(lesson, Source.WORKER)) {
      return false;
    }
    pools
        .computeIfAbsent(worker.pool(), pool -> new Model(POOL_LIFE, pool, settings.prior()))
        .learn(lesson, Source.POOL);
    return true;
  }

  /** Lessons learned on this life of a worker. */
  public long lessons(Worker worker) {
    Model model = known(worker);
    return model == null ? 0 : model.lessons();
  }

  /** How well predictions for this worker came true. */
  public ErrorStats errors(Worker worker) {
    Model model = known(worker);
    return model == null ? ErrorStats.NONE : model.stats();
  }

  private @Nullable Model known(Worker worker) {
    @Nullable Model[] table = workers;
    Model model = worker.slot() < table.length ? table[worker.slot()] : null;
    return model != null && model.life == worker.life() ? model : null;
  }

  /** The model of this life, made on its first lesson; null when a later life has the slot. */
  private @Nullable Model model(Worker worker) {
    Model known = known(worker);
    if (known != null) {
      return known;
    }
    synchronized (growth) {
      @Nullable Model[] table = workers;
      int slot = worker.slot();
      Model present = slot < table.length ? table[slot] : null;
      if (present != null && present.life >= worker.life()) {
        return present.life == worker.life() && present.pool.equals(worker.pool()) ? present : null;
      }
      var fresh = new Model(worker.life(), worker.pool(), poolCoefficients(worker.pool()));
      @Nullable Model[] copy = Arrays.copyOf(table, Math.max(table.length, slot + 1));
      copy[slot] = fresh;
      workers = copy;
      return fresh;
    }
  }
}
