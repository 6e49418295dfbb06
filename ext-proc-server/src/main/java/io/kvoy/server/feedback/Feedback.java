// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.InferenceRequest;
import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.kvcache.OwnKeyCheck;
import io.kvoy.scoring.kvcache.SpeculativePrefixes;
import io.kvoy.scoring.latency.Prediction;
import io.kvoy.scoring.pick.Considered;
import io.kvoy.scoring.pick.Considered.Standing;
import io.kvoy.scoring.pick.Degradation;
import io.kvoy.scoring.pick.Pick;
import io.kvoy.scoring.pick.PickRequest;
import io.kvoy.server.ModelPoolRuntime;
import io.kvoy.server.Understanding;
import io.kvoy.server.World;
import io.kvoy.server.metrics.DecisionMode;
import io.kvoy.server.metrics.PoolMeters;
import io.kvoy.server.metrics.RequestOutcome;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.List;
import java.util.StringJoiner;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Turns a pick into a {@link Dispatch} with its record, and counts what is not routed. Called from
 * any thread, without a lock.
 */
public final class Feedback {
  /** Policy that applies while none is configured. */
  private static final String NO_POLICY = "default";

  private final Supplier<Fleet> fleet;
  private final DecisionLog log;
  private final WorkerMeterBook workerMeters;
  private final PoolMeters noPool;
  private final SpeculativePrefixes speculative;
  private final OwnKeyCheck ownKeys;
  private final LongSupplier nanoClock;
  private final InstantSource wallClock;
  private final BooleanSupplier explainsToCallers;
  private final ResponseHomes homes;

  /**
   * @param fleet the present fleet, to find who served
   * @param log where decisions are kept for the debug pages
   * @param noPool meters of requests that no pool takes
   * @param speculative told when a routed prompt was not read after all
   * @param ownKeys told when a worker has read a prompt
   * @param wallClock for the records alone; no decision looks at it
   * @param explainsToCallers whether responses carry the decision headers
   * @param homes told which worker made an answer that can be continued
   */
  public Feedback(
      Supplier<Fleet> fleet,
      DecisionLog log,
      WorkerMeterBook workerMeters,
      PoolMeters noPool,
      SpeculativePrefixes speculative,
      OwnKeyCheck ownKeys,
      LongSupplier nanoClock,
      InstantSource wallClock,
      BooleanSupplier explainsToCallers,
      ResponseHomes homes) {
    this.fleet = fleet;
    this.log = log;
    this.workerMeters = workerMeters;
    this.noPool = noPool;
    this.speculative = speculative;
    this.ownKeys = ownKeys;
    this.nanoClock = nanoClock;
    this.wallClock = wallClock;
    this.explainsToCallers = explainsToCallers;
    this.homes = homes;
  }

  /** Whether the first token of this request's answer can be seen when it comes. */
  public static boolean reportsFirstToken(Understanding.Routable request) {
    InferenceRequest parsed = request.request();
    return parsed != null && parsed.stream();
  }

  /** Notes a refusal; {@code pool} is null when none was chosen. */
  public void rejected(@Nullable ModelPoolRuntime pool, ApiKind api, RequestOutcome outcome) {
    (pool == null ? noPool : pool.meters()).request(api, outcome);
  }

  /** A worker was picked and booked: from here on the dispatch settles everything. */
  public Dispatch dispatched(
      Understanding.Routable request, World world, Pick.Picked picked, PickRequest wanted) {
    long decideNanos = nanoClock.getAsLong() - world.nowNanos();
    long sequence = log.nextSequence();
    int cached = wanted.cached().expectedOn(picked.worker());
    DecisionRecord decision =
        new DecisionRecord(
            log.id(sequence),
            wallClock.instant(),
            request.head().requestId(),
            apiWord(request.head().api()),
            modelTag(request.request(), world),
            request.pool().name(),
            NO_POLICY,
            mode(request, wanted),
            degraded(request, picked),
            request.promptTokens(),
            candidates(picked),
            picked.worker().name(),
            picked.why(),
            request.readNanos() / 1000,
            decideNanos / 1000);
    DecisionLog.Entry entry = log.add(sequence, decision);
    count(request, wanted, picked, cached, decideNanos);
    return new Dispatch(
        request,
        picked,
        cached,
        entry,
        fleet,
        workerMeters,
        speculative,
        ownKeys,
        nanoClock,
        homes,
        explainsToCallers.getAsBoolean());
  }

  private void count(
      Understanding.Routable request,
      PickRequest wanted,
      Pick.Picked picked,
      int cached,
      long decideNanos) {
    PoolMeters meters = request.pool().meters();
    meters.request(request.head().api(), RequestOutcome.ROUTED);
    meters.decision(
        picked.degradations().contains(Degradation.ROUND_ROBIN)
            ? DecisionMode.ROUND_ROBIN
            : request.request() == null
                ? DecisionMode.LOAD_ONLY
                : switch (wanted.tokens()) {
                  case EXACT -> DecisionMode.EXACT;
                  case ESTIMATED -> DecisionMode.ESTIMATED;
                  case UNKNOWN -> DecisionMode.LOAD_ONLY;
                });
    meters.decisionDuration(decideNanos);
    if (!request.degraded().isEmpty()) {
      meters.degraded(request.degraded());
    }
    picked.degradations().forEach(degradation -> meters.degraded(degradation.label()));
    InferenceRequest parsed = request.request();
    if (parsed != null) {
      meters.tokenizeDuration(request.readNanos());
      meters.model(parsed.model()).routed(request.promptTokens(), cached);
      meters.predictedTtft(picked.prediction().totalMillis(), request.targetTtftMillis());
    }
    workerMeters.of(picked.worker()).picked();
  }

  private static String mode(Understanding.Routable request, PickRequest wanted) {
    if (request.request() == null) {
      return "untokenized";
    }
    return switch (wanted.tokens()) {
      case EXACT -> "exact";
      case ESTIMATED -> "estimated";
      case UNKNOWN -> "load_only";
    };
  }

  /** Everything that was missing, the request's own reason first. */
  private static String degraded(Understanding.Routable request, Pick.Picked picked) {
    if (request.degraded().isEmpty() && picked.degradations().isEmpty()) {
      return "";
    }
    StringJoiner words = new StringJoiner(",");
    if (!request.degraded().isEmpty()) {
      words.add(request.degraded());
    }
    for (Degradation degradation : picked.degradations()) {
      words.add(degradation.label());
    }
    return words.toString();
  }

  private static List<DecisionRecord.Candidate> candidates(Pick.Picked picked) {
    Prediction own = picked.prediction();
    List<DecisionRecord.Candidate> all = new ArrayList<>(picked.considered().size());
    for (Considered.Candidate candidate : picked.considered().ranked()) {
      all.add(
          new DecisionRecord.Candidate(
              candidate.worker().name(),
              candidate.standing() == Standing.OPEN
                  ? "open"
                  : candidate.standing().name().toLowerCase(java.util.Locale.ROOT),
              candidate.cachedTokens(),
              candidate.predictedMillis(),
              candidate.priceMillis(),
              candidate.worker().equals(picked.worker()) ? own : null));
    }
    return all;
  }

  private static String modelTag(@Nullable InferenceRequest request, World world) {
    if (request == null) {
      return "none";
    }
    return world.pools().knows(request.model()) ? request.model() : "other";
  }

  private static String apiWord(ApiKind api) {
    return api.name().toLowerCase(java.util.Locale.ROOT);
  }
}
