// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import io.kvoy.scoring.latency.ErrorStats;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Timer;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import org.jspecify.annotations.Nullable;

/**
 * Meters of one worker. Made when the worker joins the fleet, closed when it leaves. Any thread.
 */
public final class WorkerMeters implements AutoCloseable {
  private final Meters meters;
  private final Runnable onClose;
  private final Counter picks;
  private final Timer ttftError;
  private final Counter scrapeFailures;
  private final Counter kvGaps;
  private final Counter kvRestarts;
  private final Counter kvDropped;
  private final EnumCounters kvEvents;
  private final EnumCounters kvSkipped;
  private final EnumCounters kvReplays;
  private final EnumCounters kvDecodeErrors;
  private final EnumGauge ownKeys;
  private final EnumCounters ownKeysChecked;
  private final EnumGauge kvViewState;
  private final EnumGauge health;
  // Replaced when the worker comes back, read by the thread that renders the page.
  private volatile @Nullable Figures figures;

  private record Figures(
      DoubleSupplier inFlightRequests,
      DoubleSupplier scrapeAgeSeconds,
      Supplier<ErrorStats> predictions) {}

  /** Whether a worker may be picked. */
  public enum Health {
    READY,
    /** Not yet probed, not ready by its own word, or not reachable. */
    UNREADY,
    /** Finishes what it has. */
    DRAINING,
    /** Answered real requests with failures; tried now and then. */
    EJECTED
  }

  /** What a worker's event stream brings. */
  public enum KvEventKind {
    /** Blocks put into the view. */
    STORED,
    /** Blocks taken out. */
    REMOVED,
    /** The whole cache emptied. */
    CLEARED,
    /** An event already applied came again. */
    DUPLICATE
  }

  WorkerMeters(Meters meters, Runnable onClose) {
    this.meters = meters;
    this.onClose = onClose;
    this.picks = meters.counter(Metric.PICKS);
    this.ttftError = meters.timer(Metric.WORKER_TTFT_ERROR);
    this.scrapeFailures = meters.counter(Metric.SCRAPE_FAILURES);
    this.kvGaps = meters.counter(Metric.KV_GAPS);
    this.kvRestarts = meters.counter(Metric.KV_RESTARTS);
    this.kvDropped = meters.counter(Metric.KV_DROPPED);
    this.kvEvents = new EnumCounters(meters, Metric.KV_EVENTS);
    this.kvSkipped = new EnumCounters(meters, Metric.KV_SKIPPED);
    this.kvReplays = new EnumCounters(meters, Metric.KV_REPLAYS);
    this.kvDecodeErrors = new EnumCounters(meters, Metric.KV_DECODE_ERRORS);
    this.ownKeys = new EnumGauge(meters, Metric.OWN_KEYS);
    this.ownKeysChecked = new EnumCounters(meters, Metric.OWN_KEYS_CHECKED);
    this.kvViewState = new EnumGauge(meters, Metric.KV_VIEW_STATE);
    this.health = new EnumGauge(meters, Metric.HEALTH);
  }

  /**
   * Shows figures that others keep; called when the page is rendered. A later call, by the next
   * life of the worker, replaces those of an earlier one.
   *
   * @param scrapeAgeSeconds NaN before the first scrape
   * @param predictions how well they came true
   */
  public synchronized void bind(
      DoubleSupplier inFlightRequests,
      DoubleSupplier scrapeAgeSeconds,
      Supplier<ErrorStats> predictions) {
    boolean isFirst = figures == null;
    figures = new Figures(inFlightRequests, scrapeAgeSeconds, predictions);
    if (isFirst) {
      meters.gauge(Metric.IN_FLIGHT, () -> figure(Figures::inFlightRequests));
      meters.gauge(Metric.SCRAPE_AGE, () -> figure(Figures::scrapeAgeSeconds));
      meters.gauge(Metric.WORKER_TTFT_ERROR_MEDIAN, () -> error(ErrorStats::medianShare));
      meters.gauge(Metric.WORKER_TTFT_ERROR_P90, () -> error(ErrorStats::p90Share));
      meters.gauge(Metric.WORKER_TTFT_DRIFTING, () -> error(stats -> stats.isDrifting() ? 1 : 0));
    }
  }

  /** NaN before the first lesson: no error is not an error of zero. */
  private double error(ToDoubleFunction<ErrorStats> which) {
    Figures bound = figures;
    ErrorStats stats = bound == null ? ErrorStats.NONE : bound.predictions().get();
    return stats.lessons() == 0 ? Double.NaN : which.applyAsDouble(stats);
  }

  private double figure(Function<Figures, DoubleSupplier> which) {
    Figures bound = figures;
    return bound == null ? Double.NaN : which.apply(bound).getAsDouble();
  }

  public void picked() {
    picks.increment();
  }

  /** Distance between a predicted and the observed time to first token. */
  public void ttftError(double predictedMillis, double actualMillis) {
    ttftError.record(
        Math.round(Math.abs(predictedMillis - actualMillis) * 1e6), TimeUnit.NANOSECONDS);
  }

  public void scrapeFailed() {
    scrapeFailures.increment();
  }

  /** Blocks (stored, removed) or events (cleared, duplicate) applied. */
  public void kvEvents(KvEventKind kind, int amount) {
    kvEvents.increment(kind, amount);
  }

  /** Blocks that could not be placed. */
  public void kvSkipped(Enum<?> reason, int blocks) {
    kvSkipped.increment(reason, blocks);
  }

  public void kvGap() {
    kvGaps.increment();
  }

  public void kvRestarted() {
    kvRestarts.increment();
  }

  /** A replay ended. */
  public void kvReplay(Enum<?> result) {
    kvReplays.increment(result);
  }

  /** A message could not be read. */
  public void kvDecodeError(Enum<?> kind) {
    kvDecodeErrors.increment(kind);
  }

  /** A message was dropped. */
  public void kvDropped() {
    kvDropped.increment();
  }

  /** How well the worker's cache is known. */
  public void kvView(Enum<?> state) {
    kvViewState.set(state);
  }

  /** Whether the worker's blocks are those that we compute. */
  public void ownKeys(Enum<?> state) {
    ownKeys.set(state);
  }

  /** A prompt was looked for among its blocks. */
  public void ownKeysChecked(Enum<?> finding) {
    ownKeysChecked.increment(finding);
  }

  /** Whether the worker may be picked. */
  public void health(Health state) {
    health.set(state);
  }

  /** Takes the worker off the page unless another holder remains. */
  @Override
  public void close() {
    onClose.run();
  }

  void remove() {
    meters.close();
  }
}
