// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.parity;

import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.Prompt;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.server.ModelPoolRuntime;
import io.kvoy.server.RoutedObserver;
import io.kvoy.server.Understanding;
import io.kvoy.server.config.KvoyConfig;
import io.kvoy.server.log.OncePer;
import io.kvoy.server.metrics.ParityResult;
import io.kvoy.server.metrics.ParityState;
import io.kvoy.server.tokens.AskWorker;
import io.kvoy.server.tokens.WorkerAnswer;
import io.kvoy.tokenizer.Tokenization;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Compares a sample of routed requests with what their workers compute.
 *
 * <p>{@link #routed} is called for every request and costs a clock comparison unless a sample is
 * due; a due one is put into a short queue, or dropped when that is full. One virtual thread takes
 * them out, computes the ids once more with the tokenizer in service, asks the worker that was
 * picked, and tells the verdict. {@link #doWork} is one round of it and can be run by hand instead
 * of {@link #start}.
 *
 * <p>A log line names pool, worker, the first position that differs and both lengths, never text or
 * ids.
 */
public final class ParityChecker implements RoutedObserver, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(ParityChecker.class);

  /** Comparisons waiting; each holds a request body. */
  private static final int QUEUE = 8;

  /** While a difference is under suspicion or known, samples are at most this far apart. */
  private static final long SUSPICIOUS_NANOS = Duration.ofSeconds(1).toNanos();

  private final AskWorker ask;
  private final OwnTokens own;
  private final Judge judge;
  private final Supplier<KvoyConfig.Parity> settings;
  private final LongSupplier nanoClock;
  private final OncePer once;
  private final BlockingQueue<Sample> queue = new ArrayBlockingQueue<>(QUEUE);
  private final Map<String, PoolParity> pools = new ConcurrentHashMap<>();
  private volatile @Nullable Thread thread;

  /** The ids of Kvoy's own tokenizer, also of one that is out of service. */
  @FunctionalInterface
  public interface OwnTokens {
    Tokenization tokenize(String pool, Prompt prompt);
  }

  /** Told whether a pool's ids are those of its workers. */
  @FunctionalInterface
  public interface Judge {
    void matches(String pool, boolean matches);
  }

  /**
   * How it stands with a pool, for the debug page.
   *
   * @param checked comparisons made
   * @param mismatched those that differed
   */
  public record Report(ParityState state, long checked, long mismatched) {}

  @SuppressWarnings("ArrayRecordComponent") // compared nowhere
  private record Sample(
      ModelPoolRuntime pool, InferenceRequest request, byte[] body, String worker, Endpoint at) {}

  private static final class PoolParity {
    final AtomicLong nextDue;
    final ParityVerdict verdict = new ParityVerdict();

    PoolParity(long due) {
      nextDue = new AtomicLong(due);
    }
  }

  public ParityChecker(
      AskWorker ask,
      OwnTokens own,
      Judge judge,
      Supplier<KvoyConfig.Parity> settings,
      LongSupplier nanoClock,
      Duration repeatPeriod) {
    this.ask = ask;
    this.own = own;
    this.judge = judge;
    this.settings = settings;
    this.nanoClock = nanoClock;
    this.once = new OncePer(LOG, repeatPeriod, nanoClock);
  }

  /** Forgets pools that are gone. */
  public void retain(Set<String> names) {
    pools.keySet().retainAll(names);
  }

  /** How it stands with a pool. */
  public Report report(String pool) {
    PoolParity parity = pools.get(pool);
    return parity == null
        ? new Report(ParityState.UNKNOWN, 0, 0)
        : new Report(parity.verdict.state(), parity.verdict.checked(), parity.verdict.mismatched());
  }

  // ---- on the deciding thread ----

  @Override
  public void routed(Understanding.Routable routed, Worker worker) {
    InferenceRequest request = routed.request();
    var body = routed.body();
    ModelPoolRuntime pool = routed.pool();
    KvoyConfig.Parity now = settings.get();
    if (request == null
        || body == null
        || pool.workerTokens() != null
        || now.samplesPerMinute() == 0
        || !isDue(pool.name(), now)) {
      return;
    }
    if (body.bytes().length > now.maxBody().bytes()) {
      skipped(pool, "body_size");
    } else if (request.truncation() != null) {
      skipped(pool, "truncation");
    } else {
      switch (request.prompt()) {
        case Prompt.Tokens _ -> skipped(pool, "token_ids");
        case Prompt.Unreadable _ -> skipped(pool, "unreadable");
        case Prompt.Chat _, Prompt.Texts _ -> {
          if (!queue.offer(
              new Sample(pool, request, body.bytes(), worker.name(), worker.endpoint()))) {
            skipped(pool, "busy");
          }
        }
      }
    }
  }

  /** Whether this request is the next sample; true for one caller only. */
  private boolean isDue(String pool, KvoyConfig.Parity settings) {
    long now = nanoClock.getAsLong();
    PoolParity parity = pools.get(pool);
    if (parity == null) {
      parity = pools.computeIfAbsent(pool, _ -> new PoolParity(now));
    }
    long due = parity.nextDue.get();
    long interval = Duration.ofMinutes(1).toNanos() / settings.samplesPerMinute();
    ParityState state = parity.verdict.state();
    boolean isSuspicious = state == ParityState.SUSPECT || state == ParityState.MISMATCHING;
    long pause = isSuspicious ? Math.min(interval, SUSPICIOUS_NANOS) : interval;
    long wait = due - now;
    // A wait longer than the pause was meant for a lower rate that is no longer configured.
    if (wait > 0 && wait <= pause) {
      return false;
    }
    long next = now + pause;
    return parity.nextDue.compareAndSet(due, next);
  }

  private static void skipped(ModelPoolRuntime pool, String reason) {
    pool.meters().paritySkipped(reason);
  }

  // ---- on the comparing thread ----

  /** Starts the comparing thread. Call once. */
  public synchronized void start() {
    if (thread != null) {
      throw new IllegalStateException("already started");
    }
    thread = Thread.ofVirtual().name("kvoy-parity").start(this::run);
  }

  private void run() {
    while (!Thread.currentThread().isInterrupted()) {
      try {
        compare(queue.take());
      } catch (InterruptedException _) {
        return;
      } catch (RuntimeException bug) {
        // Its message may quote a prompt.
        LOG.error("parity_failed bug={}", bug.getClass().getName());
      }
    }
  }

  /** Compares what waits at this moment. */
  public void doWork() {
    for (Sample sample = queue.poll(); sample != null; sample = queue.poll()) {
      compare(sample);
    }
  }

  private void compare(Sample sample) {
    ModelPoolRuntime pool = sample.pool();
    switch (own.tokenize(pool.name(), sample.request().prompt())) {
      case Tokenization.Estimated(int _, String reason, int[] _) -> skipped(pool, reason);
      case Tokenization.Unavailable(String reason) -> skipped(pool, reason);
      case Tokenization.Exact exact -> {
        switch (ask.ask(sample.at(), sample.request(), sample.body(), settings.get().timeout())) {
          case WorkerAnswer.None(WorkerAnswer.Why why) -> skipped(pool, why.word());
          case WorkerAnswer.Ids(List<int[]> theirs) ->
              judge(sample, TokenDiff.of(exact.prompts(), theirs));
        }
      }
    }
  }

  private void judge(Sample sample, @Nullable TokenDiff difference) {
    ModelPoolRuntime pool = sample.pool();
    PoolParity parity = pools.get(pool.name());
    if (parity == null) {
      return;
    }
    ParityState before = parity.verdict.state();
    ParityState after = parity.verdict.record(difference == null, settings.get().threshold());
    pool.meters().parity(difference == null ? ParityResult.MATCH : ParityResult.MISMATCH);
    pool.meters().parityState(after);
    if (difference != null) {
      // Comparisons come at once again, so that a doubt is soon settled.
      parity.nextDue.accumulateAndGet(nanoClock.getAsLong() + SUSPICIOUS_NANOS, Math::min);
      tell(sample, difference);
    }
    if (before != ParityState.MISMATCHING && after == ParityState.MISMATCHING) {
      judge.matches(pool.name(), false);
      LOG.warn("parity_lost pool={} effect=\"load alone until ids agree again\"", pool.name());
    } else if (before == ParityState.MISMATCHING && after == ParityState.MATCHING) {
      judge.matches(pool.name(), true);
      LOG.info("parity_regained pool={}", pool.name());
    }
  }

  private void tell(Sample sample, TokenDiff difference) {
    String model = sample.request().model();
    boolean isOurs =
        sample.pool().config().models().contains(model)
            || sample.pool().config().adapters().contains(model);
    once.warn(
        "token_ids_differ",
        sample.pool().name(),
        "model",
        isOurs ? model : "other",
        "worker",
        sample.worker(),
        "prompt",
        difference.prompt(),
        "position",
        difference.position(),
        "own_tokens",
        difference.ownTokens(),
        "worker_tokens",
        difference.workerTokens());
  }

  @Override
  public void close() {
    Thread comparing = thread;
    if (comparing != null) {
      comparing.interrupt();
    }
  }
}
