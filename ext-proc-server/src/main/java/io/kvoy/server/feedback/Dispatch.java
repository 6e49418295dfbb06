// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.stream.BodyForm;
import io.kvoy.inference.stream.Ending;
import io.kvoy.inference.stream.ResponseWatcher;
import io.kvoy.inference.stream.TokenUsage;
import io.kvoy.inference.stream.UsageChunkFilter;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.Outcome;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.OwnKeyCheck;
import io.kvoy.scoring.kvcache.SpeculativePrefixes;
import io.kvoy.scoring.latency.ErrorCause;
import io.kvoy.scoring.latency.Prediction;
import io.kvoy.scoring.pick.Flight;
import io.kvoy.scoring.pick.Pick;
import io.kvoy.server.GatewayHeaders;
import io.kvoy.server.Understanding;
import io.kvoy.server.feedback.AnswerReport.Progress;
import io.kvoy.server.metrics.PoolMeters;
import io.kvoy.server.metrics.ResponseEnd;
import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * One routed request from its pick to its end: watches the answer pass by and reports first token,
 * usage and outcome, each once.
 *
 * <p>Called by the door that owns the exchange, one call at a time. Of {@link #ended} and {@link
 * #aborted} the first one counts. If neither ever comes the ledger's expiry sweep releases the
 * reservation.
 */
public final class Dispatch {
  private static final double NOT_SEEN = Double.NaN;

  private final PoolMeters meters;
  private final double targetTtftMillis;

  /** Whether the request's body was read: its model and prompt are known. */
  private final boolean isRead;

  /** What shape the answer has, by the path alone where the body was not read; null for no API. */
  private final @Nullable ApiKind api;

  private final boolean asksForStream;
  private final String model;
  private final Flight flight;
  private final Worker picked;
  private final List<Worker> fallbacks;
  private final Prediction prediction;
  private final double predictedMillis;
  private final int predictedCachedTokens;
  private final DecisionLog.Entry entry;
  private final Supplier<Fleet> fleet;
  private final WorkerMeterBook workerMeters;
  private final SpeculativePrefixes speculative;
  private final OwnKeyCheck ownKeys;
  private final LongSupplier nanoClock;
  private final boolean explains;
  private final ResponseHomes homes;

  /** Whether the answer's usage was asked for by us and is to be hidden. */
  private final boolean hidesUsage;

  private @Nullable UsageChunkFilter filter;
  private List<BlockKeys> prompts;
  private boolean moved;
  private @Nullable ResponseWatcher watcher;
  private boolean streams;
  private int status;
  private boolean reachedWorker;

  /** Whose answer passes by: RUNNING for a worker's, else what kept the proxy from having one. */
  private Progress answered = Progress.RUNNING;

  private double ttftMillis = NOT_SEEN;
  private boolean settled;

  Dispatch(
      Understanding.Routable request,
      Pick.Picked pick,
      int predictedCachedTokens,
      DecisionLog.Entry entry,
      Supplier<Fleet> fleet,
      WorkerMeterBook workerMeters,
      SpeculativePrefixes speculative,
      OwnKeyCheck ownKeys,
      LongSupplier nanoClock,
      ResponseHomes homes,
      boolean explains) {
    InferenceRequest parsed = request.request();
    this.meters = request.pool().meters();
    this.targetTtftMillis = request.targetTtftMillis();
    this.isRead = parsed != null;
    this.api =
        parsed != null
            ? parsed.api()
            : request.head().api() == ApiKind.OTHER ? null : request.head().api();
    this.asksForStream = parsed != null && parsed.stream();
    this.model = parsed == null ? "" : parsed.model();
    this.prompts = request.prompts();
    this.flight = pick.flight();
    this.picked = pick.worker();
    this.fallbacks = pick.fallbacks();
    this.prediction = pick.prediction();
    this.predictedMillis = prediction.totalMillis();
    this.predictedCachedTokens = predictedCachedTokens;
    this.entry = entry;
    this.fleet = fleet;
    this.workerMeters = workerMeters;
    this.speculative = speculative;
    this.ownKeys = ownKeys;
    this.nanoClock = nanoClock;
    this.explains = explains;
    this.homes = homes;
    this.hidesUsage = request.edited() != null;
  }

  /** Where the request is to go. */
  public Endpoint destination() {
    return picked.endpoint();
  }

  /** Where it is to go if that does not connect, best first. */
  public List<Endpoint> fallbacks() {
    return fallbacks.stream().map(Worker::endpoint).toList();
  }

  /** All of them, in the order to try them, as proxies take them: separated by commas. */
  public String destinations() {
    if (fallbacks.isEmpty()) {
      return destination().toString();
    }
    StringBuilder all = new StringBuilder(destination().toString());
    fallbacks.forEach(worker -> all.append(',').append(worker.endpoint()));
    return all.toString();
  }

  /** The decision's record. */
  public DecisionRecord decision() {
    return entry.decision();
  }

  /** Predicted time to the first token, in milliseconds. */
  public double predictedMillis() {
    return predictedMillis;
  }

  /** Prompt tokens that the picked worker was expected to have in its cache. */
  public int predictedCachedTokens() {
    return predictedCachedTokens;
  }

  /** Time since the pick. */
  public long microsSincePick() {
    return Math.max(1, (nanoClock.getAsLong() - flight.reservation().takenAtNanos()) / 1_000);
  }

  /** Headers that explain the decision to the caller; empty unless configured. */
  public Map<String, String> explainHeaders() {
    if (!explains) {
      return Map.of();
    }
    DecisionRecord decision = entry.decision();
    Map<String, String> headers = new LinkedHashMap<>();
    headers.put(GatewayHeaders.DECISION_ID, decision.id());
    headers.put(GatewayHeaders.TARGET, flight.worker().name());
    headers.put(GatewayHeaders.POLICY, decision.policy());
    if (!decision.degraded().isEmpty()) {
      headers.put(GatewayHeaders.DEGRADED, decision.degraded());
    }
    headers.put(GatewayHeaders.WHY, decision.why());
    headers.put(GatewayHeaders.PREDICTED_CACHED, Integer.toString(predictedCachedTokens));
    headers.put(GatewayHeaders.PREDICTED_TTFT, String.format(Locale.ROOT, "%.1f", predictedMillis));
    return headers;
  }

  /**
   * The answer's headers passed by. vLLM sends them before the first token: they say nothing about
   * it.
   *
   * @param httpStatus 100..599, 0 when unreadable
   * @param served who really served or, when nobody did, was tried last; null when the proxy did
   *     not say
   * @param answerer {@link Progress#RUNNING} when the answer is a worker's, else why the proxy
   *     wrote it
   */
  public void responseHeaders(
      int httpStatus,
      @Nullable String contentType,
      @Nullable String contentEncoding,
      @Nullable Endpoint served,
      Progress answerer) {
    status = httpStatus;
    answered = answerer;
    if (answerer != Progress.NOT_TRIED) {
      servedBy(served);
    }
    ApiKind known = api;
    if (known != null && httpStatus == 200) {
      BodyForm form = BodyForm.of(contentType, contentEncoding);
      streams = form == BodyForm.EVENT_STREAM;
      watcher = new ResponseWatcher(known, form);
      filter = hidesUsage && streams ? new UsageChunkFilter() : null;
    }
  }

  /**
   * What the client is to get of a piece of the answer, after {@link #responseBody} has seen it.
   * The given buffer itself where nothing is to be taken out.
   */
  public ByteBuffer forClient(ByteBuffer chunk, boolean isLast) {
    UsageChunkFilter hiding = filter;
    if (hiding == null) {
      return chunk;
    }
    ByteBuffer shown = hiding.filter(chunk);
    return isLast ? joined(shown, restForClient()) : shown;
  }

  /** What was held back of an answer that ends without a last piece; mostly nothing. */
  public ByteBuffer restForClient() {
    UsageChunkFilter hiding = filter;
    if (hiding == null) {
      return ByteBuffer.allocate(0);
    }
    filter = null;
    ByteBuffer rest = hiding.end();
    meters.usageInjected(hiding.removedEvents() > 0);
    return rest;
  }

  private static ByteBuffer joined(ByteBuffer first, ByteBuffer second) {
    return second.hasRemaining()
        ? ByteBuffer.allocate(first.remaining() + second.remaining())
            .put(first.duplicate())
            .put(second)
            .flip()
        : first;
  }

  /** Notes where the state of a stored answer is. */
  private void noteHome() {
    ResponseWatcher watching = watcher;
    String id = api == ApiKind.RESPONSES && watching != null ? watching.soFar().responseId() : null;
    if (id != null) {
      homes.produced("", id, flight.worker(), fleet.get());
    }
  }

  private void servedBy(@Nullable Endpoint served) {
    reachedWorker = served != null;
    if (served == null || served.equals(flight.worker().endpoint())) {
      return;
    }
    Worker server = fleet.get().at(served);
    if (server != null) {
      // The proxy retried: what failed there is booked on the worker that failed.
      moved = true;
      forgetExpectation();
      flight.attemptFailed(flight.worker(), Outcome.CONNECT_FAILED);
      flight.servedBy(server, 0);
    }
  }

  /** A piece of the answer passed by, cut anywhere. */
  public void responseBody(ByteBuffer chunk) {
    ResponseWatcher watching = watcher;
    if (watching == null) {
      return;
    }
    if (watching.feed(chunk) && streams) {
      firstTokenAfter(nanoClock.getAsLong() - flight.reservation().takenAtNanos());
    }
  }

  private void firstTokenAfter(long nanos) {
    ttftMillis = nanos / 1e6;
    if (!isRead) {
      // Of a prompt of unknown length nothing is to be learnt.
      noteHome();
      return;
    }
    flight.firstTokenAfter(nanos);
    meters.actualTtft(predictedMillis, ttftMillis, targetTtftMillis);
    if (!moved) {
      workerMeters.of(flight.worker()).ttftError(predictedMillis, ttftMillis);
    }
    noteHome();
    wasRead();
  }

  /**
   * The proxy tells of an answer that did not pass by here, while it runs or at its end. May come
   * more than once and in any order; what is known already is not taken again.
   */
  public void reported(AnswerReport report) {
    if (settled) {
      return;
    }
    status = report.status();
    if (report.progress() != Progress.NOT_TRIED) {
      servedBy(report.served());
    }
    // Of a request that was not read only a stream's usage tells that its answer is one.
    boolean isStream = asksForStream || (!isRead && report.usage().promptTokens().isPresent());
    if (isStream
        && status == 200
        && Double.isNaN(ttftMillis)
        && report.firstByteMicros().isPresent()) {
      firstTokenAfter(report.firstByteMicros().getAsLong() * 1_000);
    }
    if (report.progress() != Progress.RUNNING) {
      settle(report.progress(), report.usage());
    }
  }

  private void settle(Progress progress, TokenUsage usage) {
    switch (progress) {
      case RUNNING, COMPLETE ->
          settle(
              Outcome.ofStatus(status),
              status >= 400 ? ResponseEnd.ERROR_STATUS : ResponseEnd.END,
              usage);
      case CLIENT_LEFT -> settle(Outcome.CLIENT_ABORT, ResponseEnd.ABORT, usage);
      case UNREACHABLE -> settle(Outcome.CONNECT_FAILED, ResponseEnd.RESET, usage);
      // No worker had a part in it.
      case NOT_TRIED -> settle(Outcome.UNKNOWN, ResponseEnd.RESET, usage);
      case BROKEN -> settle(Outcome.FAILURE, ResponseEnd.RESET, usage);
    }
  }

  /** Whether the end was told. */
  public boolean isSettled() {
    return settled;
  }

  /** Nobody told the end in time. */
  public void expired() {
    settle(Outcome.UNKNOWN, ResponseEnd.EXPIRED);
  }

  /** The answer is complete. */
  public void ended() {
    ResponseWatcher watching = watcher;
    if (answered != Progress.RUNNING) {
      settle(answered, TokenUsage.NOT_REPORTED);
    } else if (watching == null && !reachedWorker && status >= 500) {
      // The proxy's own answer, by all signs: it could not reach the worker.
      settle(Outcome.CONNECT_FAILED, ResponseEnd.RESET);
    } else if (watching != null && watching.end().ending() == Ending.ERROR) {
      settle(Outcome.FAILURE, ResponseEnd.ERROR_STATUS);
    } else {
      settle(
          Progress.COMPLETE, watching == null ? TokenUsage.NOT_REPORTED : watching.end().usage());
    }
  }

  /** The stream broke off: the client left, or the proxy did. */
  public void aborted() {
    settle(Outcome.CLIENT_ABORT, ResponseEnd.ABORT);
  }

  /**
   * The worker has computed all of the prompts. Their keys are let go: a long answer should not
   * keep them in memory.
   */
  private void wasRead() {
    prompts.forEach(
        prompt -> ownKeys.read(picked, prompt, model, flight.reservation().takenAtNanos()));
    prompts = List.of();
  }

  private void forgetExpectation() {
    prompts.forEach(prompt -> speculative.withdraw(picked, prompt));
    prompts = List.of();
  }

  private void settle(Outcome outcome, ResponseEnd end) {
    ResponseWatcher watching = watcher;
    settle(outcome, end, watching == null ? TokenUsage.NOT_REPORTED : watching.end().usage());
  }

  private void settle(Outcome outcome, ResponseEnd end, TokenUsage usage) {
    if (settled) {
      return;
    }
    settled = true;
    noteHome();
    if (outcome != Outcome.SUCCESS && Double.isNaN(ttftMillis)) {
      // Not read to the end there, so its blocks are not to be expected.
      forgetExpectation();
    } else if (outcome == Outcome.SUCCESS) {
      wasRead();
    }
    flight.ended(outcome);
    DecisionOutcome seen =
        new DecisionOutcome(
            flight.worker().name(),
            status,
            ttftMillis,
            usage.promptTokens(),
            usage.cachedTokens(),
            usage.completionTokens(),
            end.name().toLowerCase(Locale.ROOT));
    entry.outcome(seen);
    meters.response(end);
    if (isRead && !moved && !Double.isNaN(ttftMillis)) {
      meters.ttftErrorCause(
          ErrorCause.of(
              prediction, flight.promptTokens(), predictedCachedTokens, usage.cachedTokens()),
          predictedMillis,
          ttftMillis);
    }
    if (isRead && usage.cachedTokens().isPresent()) {
      int cached = (int) Math.min(Integer.MAX_VALUE, usage.cachedTokens().getAsLong());
      meters.model(model).reported(cached);
      if (!moved && entry.decision().mode().equals("exact")) {
        meters.actualCachedTokens(predictedCachedTokens, cached);
      }
    }
  }
}
