// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.scoring.fleet.Fleet;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerHealth;
import io.kvoy.scoring.kvcache.HashVerification;
import io.kvoy.scoring.kvcache.KvView;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.OwnKeyCheck;
import io.kvoy.scoring.kvcache.OwnKeys;
import io.kvoy.scoring.latency.Coefficients;
import io.kvoy.scoring.latency.ErrorStats;
import io.kvoy.scoring.latency.Prediction;
import io.kvoy.scoring.latency.TtftPredictor;
import io.kvoy.scoring.load.InFlightLedger;
import io.kvoy.scoring.load.LoadBook;
import io.kvoy.scoring.load.ScrapedLoad;
import io.kvoy.scoring.load.WorkerLoad;
import io.kvoy.server.feedback.DecisionLog;
import io.kvoy.server.feedback.DecisionOutcome;
import io.kvoy.server.feedback.DecisionRecord;
import io.kvoy.server.feedback.KvEventMeters;
import io.kvoy.server.feedback.WorkerMeterBook;
import io.kvoy.server.parity.ParityChecker;
import io.kvoy.server.tokens.TokenSources;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The live state as JSON for people: fleet, caches, load, learned coefficients, decisions. Reads
 * only.
 */
final class DebugPages {
  private final Supplier<Fleet> fleet;
  private final Supplier<List<KvView>> caches;
  private final KvEventMeters views;
  private final OwnKeyCheck ownKeys;
  private final InFlightLedger ledger;
  private final LoadBook loads;
  private final TtftPredictor predictor;
  private final DecisionLog decisions;
  private final Supplier<PoolTable> pools;
  private final TokenSources tokenizers;
  private final ParityChecker parity;

  DebugPages(
      Supplier<Fleet> fleet,
      Supplier<List<KvView>> caches,
      KvEventMeters views,
      OwnKeyCheck ownKeys,
      InFlightLedger ledger,
      LoadBook loads,
      TtftPredictor predictor,
      DecisionLog decisions,
      Supplier<PoolTable> pools,
      TokenSources tokenizers,
      ParityChecker parity) {
    this.fleet = fleet;
    this.caches = caches;
    this.views = views;
    this.ownKeys = ownKeys;
    this.ledger = ledger;
    this.loads = loads;
    this.predictor = predictor;
    this.decisions = decisions;
    this.pools = pools;
    this.tokenizers = tokenizers;
    this.parity = parity;
  }

  /** Every worker with everything that is known of it. */
  Map<String, @Nullable Object> fleet() {
    Fleet present = fleet.get();
    Map<Worker, List<KvView>> byWorker =
        caches.get().stream().collect(Collectors.groupingBy(KvView::worker));
    List<Object> workers = new ArrayList<>();
    for (Worker worker : present.workers()) {
      workers.add(worker(present, worker, byWorker.getOrDefault(worker, List.of())));
    }
    List<Object> tokens = new ArrayList<>();
    for (ModelPoolRuntime pool : pools.get().pools()) {
      tokens.add(tokens(pool));
    }
    return new Fields()
        .number("version", present.version())
        .with("tokens", tokens)
        .with("workers", workers)
        .object();
  }

  private Map<String, @Nullable Object> tokens(ModelPoolRuntime pool) {
    TokenSources.Described source = tokenizers.describe(pool.config());
    ParityChecker.Report compared = parity.report(pool.name());
    return new Fields()
        .text("pool", pool.name())
        .with("models", pool.config().models())
        .text("source", source.kind())
        .text("place", source.place())
        .text("template", pool.config().chatTemplate().map(Object::toString).orElse(""))
        .text("state", tokenizers.state(pool.config()).name().toLowerCase(Locale.ROOT))
        .text("encoder", source.encoder())
        .text("problem", source.problem())
        .number("memory_bytes", tokenizers.memoryBytes(pool.name()))
        .with(
            "parity",
            new Fields()
                .text("state", compared.state().name().toLowerCase(Locale.ROOT))
                .number("checked", compared.checked())
                .number("mismatched", compared.mismatched())
                .object())
        .object();
  }

  private Map<String, @Nullable Object> worker(Fleet present, Worker worker, List<KvView> ranks) {
    WorkerHealth health = present.health(worker);
    WorkerLoad load = ledger.load(worker);
    ScrapedLoad scraped = loads.latest(worker);
    Coefficients learned = predictor.coefficients(worker);
    ErrorStats errors = predictor.errors(worker);
    KvViewState view = views.view(worker);
    return new Fields()
        .text("name", worker.name())
        .text("pool", worker.pool())
        .text("endpoint", worker.endpoint().toString())
        .number("life", worker.life())
        .text("health", WorkerMeterBook.word(health).name().toLowerCase(Locale.ROOT))
        .text(
            "health_detail",
            health instanceof WorkerHealth.Unready(var reason, String detail)
                ? reason.name().toLowerCase(Locale.ROOT) + " " + detail
                : "")
        .text("kv_view", viewWord(worker, view))
        .with("kv_ranks", ranks.stream().map(DebugPages::rank).toList())
        .with("own_keys", ownKeys(worker))
        .with(
            "in_flight",
            new Fields()
                .number("requests", load.inFlight())
                .number("queued_prefill_tokens", load.queuedPrefillTokens())
                .object())
        .with(
            "scraped",
            scraped == null
                ? null
                : new Fields()
                    .real("age_ms", loads.ageMillis(worker))
                    .real("running", scraped.gauges().running().orElse(Double.NaN))
                    .real("waiting", scraped.gauges().waiting().orElse(Double.NaN))
                    .object())
        .with(
            "learned",
            new Fields()
                .text("source", learned.source().name().toLowerCase(Locale.ROOT))
                .number("lessons", errors.lessons())
                .real("fixed_ms", learned.fixedMillis())
                .real("prefill_tokens_per_second", learned.prefillTokensPerSecond())
                .real("attention_ms", learned.perAttentionMillis())
                .real("decode_step_ms", learned.perDecodeStepMillis())
                .real("median_error", errors.medianShare())
                .real("p90_error", errors.p90Share())
                .object())
        .object();
  }

  private String viewWord(Worker worker, @Nullable KvViewState view) {
    if (view == null) {
      return "none";
    }
    KvViewState shown =
        ownKeys.of(worker) instanceof OwnKeys.Mismatch ? KvViewState.MISMATCHED : view;
    return shown.name().toLowerCase(Locale.ROOT);
  }

  private static Map<String, @Nullable Object> rank(KvView view) {
    Fields fields =
        new Fields()
            .number("rank", view.rank())
            .text("state", view.state().name().toLowerCase(Locale.ROOT))
            .number("cursor", view.cursor())
            .number("blocks", view.blocks())
            .number("references", view.references())
            .number("block_tokens", view.blockTokens());
    return switch (view.hashes()) {
      case HashVerification.Pending _ -> fields.text("engine_hashes", "pending").object();
      case HashVerification.Unmatched _ -> fields.text("engine_hashes", "unmatched").object();
      case HashVerification.HashesVerified(var algorithm, String seed, var _) ->
          fields
              .text("engine_hashes", "verified")
              .text("hash_algorithm", algorithm.option())
              .text("hash_seed", seed)
              .object();
    };
  }

  /** Whether what the worker stores is what we compute for its prompts. */
  private Map<String, @Nullable Object> ownKeys(Worker worker) {
    OwnKeys keys = ownKeys.of(worker);
    OwnKeyCheck.Tally tally = ownKeys.tally(worker);
    Fields fields = new Fields().text("state", keys.state().name().toLowerCase(Locale.ROOT));
    if (keys instanceof OwnKeys.Mismatch(OwnKeys.Cause cause, String detail)) {
      fields.text("cause", cause.name().toLowerCase(Locale.ROOT)).text("detail", detail);
    }
    return fields
        .number("whole", tally.whole())
        .number("partial", tally.partial())
        .number("absent", tally.absent())
        .number("inconclusive", tally.inconclusive())
        .object();
  }

  /** One decision, null when it is gone. */
  Optional<Map<String, @Nullable Object>> decision(String id) {
    DecisionLog.Entry entry = decisions.find(id);
    return Optional.ofNullable(entry).map(DebugPages::decision);
  }

  /** The newest decisions, newest first. */
  List<Map<String, @Nullable Object>> decisions(int limit) {
    return decisions.latest(limit).stream().map(DebugPages::decision).toList();
  }

  private static Map<String, @Nullable Object> decision(DecisionLog.Entry entry) {
    DecisionRecord d = entry.decision();
    List<Object> candidates = new ArrayList<>();
    for (DecisionRecord.Candidate candidate : d.candidates()) {
      candidates.add(candidate(candidate));
    }
    DecisionOutcome outcome = entry.outcome();
    return new Fields()
        .text("id", d.id())
        .text("at", d.at().toString())
        .text("request_id", d.requestId())
        .text("api", d.api())
        .text("model", d.model())
        .text("pool", d.pool())
        .text("policy", d.policy())
        .text("mode", d.mode())
        .text("degraded", d.degraded())
        .number("prompt_tokens", d.promptTokens())
        .text("target", d.target())
        .text("why", d.why())
        .number("read_us", d.readMicros())
        .number("decide_us", d.decideMicros())
        .with("candidates", candidates)
        .with("outcome", outcome == null ? null : outcome(outcome))
        .object();
  }

  private static Map<String, @Nullable Object> candidate(DecisionRecord.Candidate candidate) {
    Fields fields =
        new Fields()
            .text("worker", candidate.worker())
            .text("standing", candidate.standing())
            .number("cached_tokens", candidate.cachedTokens())
            .real("ttft_ms", candidate.ttftMillis())
            .real("price_ms", candidate.priceMillis());
    Prediction terms = candidate.terms();
    return terms == null
        ? fields.object()
        : fields
            .real("queue_ms", terms.queueMillis())
            .real("prefill_ms", terms.prefillMillis())
            .real("decode_ms", terms.decodeMillis())
            .real("capacity_ms", terms.capacityMillis())
            .real("adapter_ms", terms.adapterMillis())
            .real("fixed_ms", terms.fixedMillis())
            .text("source", terms.source().name().toLowerCase(Locale.ROOT))
            .object();
  }

  private static Map<String, @Nullable Object> outcome(DecisionOutcome outcome) {
    return new Fields()
        .text("served_by", outcome.servedBy())
        .number("status", outcome.status())
        .real("ttft_ms", outcome.ttftMillis())
        .count("prompt_tokens", outcome.promptTokens())
        .count("cached_tokens", outcome.cachedTokens())
        .count("completion_tokens", outcome.completionTokens())
        .text("end", outcome.end())
        .object();
  }

  /** Collects the fields of one object in order. */
  private static final class Fields {
    private final Map<String, @Nullable Object> fields = new LinkedHashMap<>();

    Fields with(String name, @Nullable Object value) {
      fields.put(name, value);
      return this;
    }

    Fields text(String name, String value) {
      return with(name, value);
    }

    Fields number(String name, long value) {
      return with(name, value);
    }

    /** Two decimals are enough for people; what is not a number is null. */
    Fields real(String name, double value) {
      return with(name, Double.isFinite(value) ? Math.round(value * 100) / 100.0 : null);
    }

    /** Not reported is null, not zero. */
    Fields count(String name, OptionalLong value) {
      return with(name, value.isPresent() ? value.getAsLong() : null);
    }

    Map<String, @Nullable Object> object() {
      return fields;
    }
  }
}
