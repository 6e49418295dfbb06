// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.stream.BodyForm;
import io.kvoy.inference.stream.Ending;
import io.kvoy.inference.stream.ResponseWatcher;
import io.kvoy.inference.stream.TokenUsage;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.Outcome;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.BlockKeys;
import io.kvoy.scoring.kvcache.SpeculativePrefixes;
import io.kvoy.scoring.pick.Flight;
import io.kvoy.server.GatewayHeaders;
import io.kvoy.server.Understanding;
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
  private final @Nullable ApiKind parsedApi;
  private final String model;
  private final Flight flight;
  private final Worker picked;
  private final double predictedMillis;
  private final int predictedCachedTokens;
  private final DecisionLog.Entry entry;
  private final Supplier<Fleet> fleet;
  private final WorkerMeterBook workerMeters;
  private final SpeculativePrefixes speculative;
  private final LongSupplier nanoClock;
  private final boolean explains;

  private List<BlockKeys> prompts;
  private boolean moved;
  private @Nullable ResponseWatcher watcher;
  private boolean streams;
  private int status;
  private boolean reachedWorker;
  private double ttftMillis = NOT_SEEN;
  private boolean settled;

  Dispatch(
      Understanding.Routable request,
      Flight flight,
      double predictedMillis,
      int predictedCachedTokens,
      DecisionLog.Entry entry,
      Supplier<Fleet> fleet,
      WorkerMeterBook workerMeters,
      SpeculativePrefixes speculative,
      LongSupplier nanoClock,
      boolean explains) {
    InferenceRequest parsed = request.request();
    this.meters = request.pool().meters();
    this.targetTtftMillis = (double) request.pool().config().targetTtft().toMillis();
    this.parsedApi = parsed == null ? null : parsed.api();
    this.model = parsed == null ? "" : parsed.model();
    this.prompts = request.prompts();
    this.flight = flight;
    this.picked = flight.worker();
    this.predictedMillis = predictedMillis;
    this.predictedCachedTokens = predictedCachedTokens;
    this.entry = entry;
    this.fleet = fleet;
    this.workerMeters = workerMeters;
    this.speculative = speculative;
    this.nanoClock = nanoClock;
    this.explains = explains;
  }

  /** Where the request is to go. */
  public Endpoint destination() {
    return picked.endpoint();
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
   * @param served who really served, null when the proxy did not say
   */
  public void responseHeaders(
      int httpStatus,
      @Nullable String contentType,
      @Nullable String contentEncoding,
      @Nullable Endpoint served) {
    status = httpStatus;
    reachedWorker = served != null;
    if (served != null && !served.equals(picked.endpoint())) {
      Worker server = fleet.get().at(served);
      if (server != null) {
        // The proxy retried: what failed there is booked on the worker that failed.
        moved = true;
        forgetExpectation();
        flight.attemptFailed(flight.worker(), Outcome.CONNECT_FAILED);
        flight.servedBy(server, 0);
      }
    }
    ApiKind api = parsedApi;
    if (api != null && httpStatus == 200) {
      BodyForm form = BodyForm.of(contentType, contentEncoding);
      streams = form == BodyForm.EVENT_STREAM;
      watcher = new ResponseWatcher(api, form);
    }
  }

  /** A piece of the answer passed by, cut anywhere. */
  public void responseBody(ByteBuffer chunk) {
    ResponseWatcher watching = watcher;
    if (watching == null) {
      return;
    }
    if (watching.feed(chunk) && streams) {
      ttftMillis = (nanoClock.getAsLong() - flight.reservation().takenAtNanos()) / 1e6;
      flight.firstToken();
      meters.actualTtft(predictedMillis, ttftMillis, targetTtftMillis);
      if (!moved) {
        workerMeters.of(flight.worker()).ttftError(predictedMillis, ttftMillis);
      }
      // A long answer should not keep its prompt's keys in memory.
      prompts = List.of();
    }
  }

  /** The answer is complete. */
  public void ended() {
    ResponseWatcher watching = watcher;
    if (watching == null && !reachedWorker && status >= 500) {
      // The proxy's own answer: it could not reach the worker.
      settle(Outcome.CONNECT_FAILED, ResponseEnd.RESET);
    } else if (watching != null && watching.end().ending() == Ending.ERROR) {
      settle(Outcome.FAILURE, ResponseEnd.ERROR_STATUS);
    } else {
      settle(Outcome.ofStatus(status), status >= 400 ? ResponseEnd.ERROR_STATUS : ResponseEnd.END);
    }
  }

  /** The stream broke off: the client left, or the proxy did. */
  public void aborted() {
    settle(Outcome.CLIENT_ABORT, ResponseEnd.ABORT);
  }

  private void forgetExpectation() {
    prompts.forEach(prompt -> speculative.withdraw(picked, prompt));
    prompts = List.of();
  }

  private void settle(Outcome outcome, ResponseEnd end) {
    if (settled) {
      return;
    }
    settled = true;
    if (outcome != Outcome.SUCCESS && Double.isNaN(ttftMillis)) {
      // Not read to the end there, so its blocks are not to be expected.
      forgetExpectation();
    }
    flight.ended(outcome);
    ResponseWatcher watching = watcher;
    TokenUsage usage = watching == null ? TokenUsage.NOT_REPORTED : watching.end().usage();
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
    if (parsedApi != null && usage.cachedTokens().isPresent()) {
      int cached = (int) Math.min(Integer.MAX_VALUE, usage.cachedTokens().getAsLong());
      meters.model(model).reported(cached);
      if (!moved && entry.decision().mode().equals("exact")) {
        meters.actualCachedTokens(predictedCachedTokens, cached);
      }
    }
  }
}
