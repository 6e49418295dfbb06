// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import io.kvoy.inference.ApiKind;
import io.kvoy.scoring.latency.ErrorCause;
import io.kvoy.server.queue.WaitingRoom;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.Timer;
import java.util.Collection;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongSupplier;

/**
 * Meters of one pool. Made when the pool appears, kept in the routing snapshot, closed when the
 * pool goes. Any thread, no locks, no look-ups by text except where said.
 */
public final class PoolMeters implements AutoCloseable, WaitingRoom.Meter {
  private final Meters meters;
  private final Runnable onClose;
  private final Map<ApiKind, EnumCounters> requestsByApi = new EnumMap<>(ApiKind.class);
  private final EnumCounters decisions;
  private final WordCounters degraded;
  private final EnumCounters responses;
  private final Timer decisionDuration;
  private final Timer tokenizeDuration;
  private final Timer lookupDuration;
  private final Counter hits;
  private final Counter misses;
  private final EnumCounters hitTokens;
  private final DistributionSummary cachedOver;
  private final DistributionSummary cachedUnder;
  private final DistributionSummary cachedExact;
  private final Timer ttftPredicted;
  private final Timer ttftActual;
  private final Timer ttftOver;
  private final Timer ttftUnder;
  private final Map<ErrorCause, Timer> ttftErrorByCause = new EnumMap<>(ErrorCause.class);
  private final Counter overTargetPredicted;
  private final Counter overTargetActual;
  private final EnumGauge tokenizerState;
  private final WordCounters tokenizerLoads;
  private final WordCounters tokenizerFallbacks;
  private final EnumCounters parityChecks;
  private final WordCounters paritySkipped;
  private final EnumGauge parityState;
  private final EnumCounters responseHomes;
  private final WordCounters usageInjected;
  private final AtomicInteger waiting = new AtomicInteger();
  private final Map<WaitingRoom.End, Timer> queueWait = new EnumMap<>(WaitingRoom.End.class);
  private final ModelMeters otherModel;
  // Set by the wiring, read by the thread that renders the page.
  private volatile LongSupplier tokenizerBytes = () -> 0;
  // Replaced by a configuration reload, read by requests.
  private volatile Map<String, ModelMeters> models = Map.of();

  PoolMeters(Meters meters, Runnable onClose) {
    this.meters = meters;
    this.onClose = onClose;
    for (ApiKind api : ApiKind.values()) {
      requestsByApi.put(api, new EnumCounters(meters, Metric.REQUESTS, EnumCounters.word(api)));
    }
    this.decisions = new EnumCounters(meters, Metric.DECISIONS);
    this.degraded = new WordCounters(meters, Metric.DEGRADED);
    this.responses = new EnumCounters(meters, Metric.RESPONSES);
    this.decisionDuration = meters.timer(Metric.DECISION_DURATION);
    this.tokenizeDuration = meters.timer(Metric.TOKENIZE_DURATION);
    this.hits = meters.counter(Metric.LOOKUPS, "hit");
    this.misses = meters.counter(Metric.LOOKUPS, "miss");
    this.hitTokens = new EnumCounters(meters, Metric.HIT_TOKENS);
    this.lookupDuration = meters.timer(Metric.LOOKUP_DURATION);
    this.cachedOver = meters.summary(Metric.CACHED_TOKENS_ERROR, "over");
    this.cachedUnder = meters.summary(Metric.CACHED_TOKENS_ERROR, "under");
    this.cachedExact = meters.summary(Metric.CACHED_TOKENS_ERROR, "exact");
    this.ttftPredicted = meters.timer(Metric.TTFT_PREDICTED);
    this.ttftActual = meters.timer(Metric.TTFT_ACTUAL);
    this.ttftOver = meters.timer(Metric.TTFT_ERROR, "over");
    this.ttftUnder = meters.timer(Metric.TTFT_ERROR, "under");
    for (ErrorCause cause : ErrorCause.values()) {
      ttftErrorByCause.put(
          cause, meters.timer(Metric.TTFT_ERROR_BY_CAUSE, EnumCounters.word(cause)));
    }
    this.overTargetPredicted = meters.counter(Metric.TTFT_OVER_TARGET, "predicted");
    this.overTargetActual = meters.counter(Metric.TTFT_OVER_TARGET, "actual");
    this.tokenizerState = new EnumGauge(meters, Metric.TOKENIZER_STATE);
    this.tokenizerLoads = new WordCounters(meters, Metric.TOKENIZER_LOADS);
    this.tokenizerFallbacks = new WordCounters(meters, Metric.TOKENIZER_FALLBACKS);
    meters.gauge(Metric.TOKENIZER_BYTES, () -> tokenizerBytes.getAsLong());
    this.parityChecks = new EnumCounters(meters, Metric.PARITY_CHECKS);
    this.paritySkipped = new WordCounters(meters, Metric.PARITY_SKIPPED);
    this.parityState = new EnumGauge(meters, Metric.PARITY_STATE);
    meters.gauge(Metric.QUEUE_LENGTH, this::waiting);
    for (WaitingRoom.End end : WaitingRoom.End.values()) {
      queueWait.put(end, meters.timer(Metric.QUEUE_WAIT, EnumCounters.word(end)));
    }
    this.responseHomes = new EnumCounters(meters, Metric.RESPONSE_HOMES);
    this.usageInjected = new WordCounters(meters, Metric.USAGE_INJECTED);
    this.otherModel = new ModelMeters(meters.alike(), KvoyMetrics.OTHER);
  }

  /** Shows exactly these models, besides {@code other}. */
  synchronized void declare(Collection<String> names) {
    Map<String, ModelMeters> next = new HashMap<>();
    for (String name : names) {
      if (!name.equals(KvoyMetrics.OTHER)) {
        ModelMeters known = models.get(name);
        next.put(name, known == null ? new ModelMeters(meters.alike(), name) : known);
      }
    }
    models.forEach(
        (name, model) -> {
          if (!next.containsKey(name)) {
            model.meters.close();
          }
        });
    models = Map.copyOf(next);
  }

  /** Counts a request of {@code api}. */
  public void request(ApiKind api, RequestOutcome outcome) {
    Objects.requireNonNull(requestsByApi.get(api)).increment(outcome);
  }

  /** Requests that wait for a worker now. */
  public int waiting() {
    return waiting.get();
  }

  @Override
  public void entered() {
    waiting.incrementAndGet();
  }

  @Override
  public void ended(WaitingRoom.End end, long nanos) {
    Objects.requireNonNull(queueWait.get(end)).record(nanos, TimeUnit.NANOSECONDS);
    waiting.decrementAndGet();
  }

  /** Counts a pick. */
  public void decision(DecisionMode mode) {
    decisions.increment(mode);
  }

  /**
   * Counts what a pick had to do without.
   *
   * @param reason word of ours; a look-up by text
   */
  public void degraded(String reason) {
    degraded.increment(reason);
  }

  /** Counts the end of a response. */
  public void response(ResponseEnd end) {
    responses.increment(end);
  }

  public void decisionDuration(long nanos) {
    decisionDuration.record(nanos, TimeUnit.NANOSECONDS);
  }

  public void tokenizeDuration(long nanos) {
    tokenizeDuration.record(nanos, TimeUnit.NANOSECONDS);
  }

  public void lookupDuration(long nanos) {
    lookupDuration.record(nanos, TimeUnit.NANOSECONDS);
  }

  /** A prompt was looked up; {@code isHit} when any candidate has a beginning of it. */
  public void lookup(boolean isHit) {
    (isHit ? hits : misses).increment();
  }

  /** The picked worker holds so many tokens of a prompt in the tier. */
  public void hitTokens(Enum<?> tier, int tokens) {
    hitTokens.increment(tier, tokens);
  }

  /** A request was sent with this prediction; {@code targetMillis} is the pool's targetTtft. */
  public void predictedTtft(double millis, double targetMillis) {
    record(ttftPredicted, millis);
    if (millis > targetMillis) {
      overTargetPredicted.increment();
    }
  }

  /** Its first token came. */
  public void actualTtft(double predictedMillis, double actualMillis, double targetMillis) {
    record(ttftActual, actualMillis);
    record(
        predictedMillis > actualMillis ? ttftOver : ttftUnder,
        Math.abs(predictedMillis - actualMillis));
    if (actualMillis > targetMillis) {
      overTargetActual.increment();
    }
  }

  /** What that distance is put down to, told when the answer is complete. */
  public void ttftErrorCause(ErrorCause cause, double predictedMillis, double actualMillis) {
    record(
        Objects.requireNonNull(ttftErrorByCause.get(cause)),
        Math.abs(predictedMillis - actualMillis));
  }

  private static void record(Timer timer, double millis) {
    timer.record(Math.round(millis * 1e6), TimeUnit.NANOSECONDS);
  }

  /** The worker told how many prompt tokens it had cached. */
  public void actualCachedTokens(int predicted, int actual) {
    DistributionSummary side =
        predicted == actual ? cachedExact : predicted > actual ? cachedOver : cachedUnder;
    side.record(Math.abs(predicted - actual));
  }

  /** The pool's tokenizer is in this state. */
  public void tokenizer(TokenizerState state) {
    tokenizerState.set(state);
  }

  /** A request continues a stored answer. */
  public void responseHome(ResponseHome home) {
    responseHomes.increment(home);
  }

  /** A stream that was made to report usage is over. */
  public void usageInjected(boolean hidden) {
    usageInjected.increment(hidden ? "hidden" : "none");
  }

  /** Where the memory of the pool's tokenizer is to be read. */
  public void bindTokenizerBytes(LongSupplier bytes) {
    tokenizerBytes = bytes;
  }

  /** A load of the pool's tokenizer ended; {@code result} is a word of ours. */
  public void tokenizerLoad(String result) {
    tokenizerLoads.increment(result);
  }

  /** A load that did not get the fast encoder; {@code reason} is a word of ours. */
  public void tokenizerFallback(String reason) {
    tokenizerFallbacks.increment(reason);
  }

  /** Token ids were compared with the worker's. */
  public void parity(ParityResult result) {
    parityChecks.increment(result);
  }

  /** A sample could not be compared; {@code reason} is a word of ours. */
  public void paritySkipped(String reason) {
    paritySkipped.increment(reason);
  }

  /** What the comparisons have shown so far. */
  public void parityState(ParityState state) {
    parityState.set(state);
  }

  /**
   * Meters of a model of this pool; those of {@code other} for a name that is not configured. A
   * look-up by text.
   */
  public ModelMeters model(String name) {
    return models.getOrDefault(name, otherModel);
  }

  /** Takes the pool off the page unless another holder remains. */
  @Override
  public void close() {
    onClose.run();
  }

  synchronized void remove() {
    declare(List.of());
    otherModel.meters.close();
    meters.close();
  }

  /** Meters of one configured model name. */
  public static final class ModelMeters {
    private final Meters meters;
    private final Counter promptTokens;
    private final Counter predictedCached;
    private final Counter actualCached;

    ModelMeters(Meters meters, String model) {
      this.meters = meters;
      this.promptTokens = meters.counter(Metric.PROMPT_TOKENS, model);
      this.predictedCached = meters.counter(Metric.CACHED_TOKENS_PREDICTED, model);
      this.actualCached = meters.counter(Metric.CACHED_TOKENS_ACTUAL, model);
    }

    /** A request was routed. */
    public void routed(int promptTokens, int predictedCachedTokens) {
      this.promptTokens.increment(promptTokens);
      predictedCached.increment(predictedCachedTokens);
    }

    /** The worker told how many prompt tokens it had cached. */
    public void reported(int actualCachedTokens) {
      actualCached.increment(actualCachedTokens);
    }
  }
}
