// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import java.util.List;

/**
 * Every metric of the process. A meter can only be made from one of these, with exactly its tags,
 * so no name has two sets of tags and none is missing from the documentation.
 */
public enum Metric {
  // Requests
  REQUESTS(
      "kvoy_requests_total",
      Type.COUNTER,
      "Requests by what Kvoy did with them.",
      MetricTag.POOL,
      MetricTag.API,
      MetricTag.OUTCOME),
  REQUEST_BYTES(
      "kvoy_request_bytes",
      Type.SIZES,
      "Size of request bodies as received, in bytes.",
      MetricTag.API),
  STREAMS("kvoy_ext_proc_streams", Type.GAUGE, "ext_proc streams open at this moment."),
  STREAMS_ENDED(
      "kvoy_ext_proc_streams_ended_total",
      Type.COUNTER,
      "ext_proc streams by how they ended.",
      MetricTag.RESULT),
  RESPONSES(
      "kvoy_responses_total",
      Type.COUNTER,
      "Responses of workers by how they ended.",
      MetricTag.POOL,
      MetricTag.END),

  REPORTS(
      "kvoy_reports_total",
      Type.COUNTER,
      "Reports of answers, by access log or inference handler, by what became of them.",
      MetricTag.RESULT),
  REPORTS_AWAITED(
      "kvoy_reports_awaited",
      Type.GAUGE,
      "Routed requests whose end is to be reported by access log, copy or inference handler."),

  // Configuration of proxies
  XDS_STREAMS(
      "kvoy_xds_streams", Type.GAUGE, "Proxies that are configured over xDS by this process."),
  XDS_SNAPSHOTS("kvoy_xds_snapshots_total", Type.COUNTER, "Configurations published over xDS."),
  XDS_ANSWERS(
      "kvoy_xds_answers_total",
      Type.COUNTER,
      "What proxies said to resources sent over xDS: `accepted` or `rejected`.",
      MetricTag.KIND,
      MetricTag.RESULT),
  XDS_REJECTING(
      "kvoy_xds_rejecting",
      Type.GAUGE,
      "Proxies that go on with an older configuration since they rejected a newer one;"
          + " `/debug/xds` has their words."),

  TLS_RELOADS(
      "kvoy_tls_reloads_total",
      Type.COUNTER,
      "Changes of the certificate files, taken (`ok`) or refused (`rejected`).",
      MetricTag.RESULT),
  TLS_SECONDS_LEFT(
      "kvoy_tls_certificate_seconds_left",
      Type.GAUGE,
      "Time until the certificate in use ends; NaN without TLS."),

  // Decisions
  DECISIONS(
      "kvoy_decisions_total",
      Type.COUNTER,
      "Picks by what they could go by.",
      MetricTag.POOL,
      MetricTag.MODE),
  DEGRADED(
      "kvoy_decisions_degraded_total",
      Type.COUNTER,
      "What picks had to do without; one pick can count under several reasons.",
      MetricTag.POOL,
      MetricTag.REASON),
  PICKS("kvoy_picks_total", Type.COUNTER, "Picks by worker.", MetricTag.POOL, MetricTag.WORKER),
  DECISION_DURATION(
      "kvoy_decision_duration_seconds",
      Type.SHORT_TIMES,
      "Time from the last byte of the body to the pick.",
      MetricTag.POOL),
  TOKENIZE_DURATION(
      "kvoy_tokenize_duration_seconds",
      Type.SHORT_TIMES,
      "Time to render and tokenize one prompt.",
      MetricTag.POOL),
  LOOKUP_DURATION(
      "kvoy_lookup_duration_seconds",
      Type.SHORT_TIMES,
      "Time to match one prompt against the index of cached blocks.",
      MetricTag.POOL),

  QUEUE_LENGTH(
      "kvoy_queue_length",
      Type.GAUGE,
      "Requests that wait for a worker, in pools with `queue`.",
      MetricTag.POOL),
  QUEUE_WAIT(
      "kvoy_queue_wait_seconds",
      Type.LONG_TIMES,
      "Time that requests waited for a worker: `placed` got one, `expired` waited for"
          + " `queue.timeout`, `left` were given up by the client,"
          + " `failed` met a fault of Kvoy.",
      MetricTag.POOL,
      MetricTag.RESULT),
  RESPONSE_HOMES(
      "kvoy_response_homes_total",
      Type.COUNTER,
      "Requests that continue a stored answer, by whether they reached the worker that holds it;"
          + " only `found` ones did, the others were picked for like any request.",
      MetricTag.POOL,
      MetricTag.RESULT),
  USAGE_INJECTED(
      "kvoy_usage_injected_total",
      Type.COUNTER,
      "Streams that were made to report usage: `hidden` when its chunk was taken out again,"
          + " `none` when none came.",
      MetricTag.POOL,
      MetricTag.RESULT),

  // Tokens and the cache
  PROMPT_TOKENS(
      "kvoy_prompt_tokens_total",
      Type.COUNTER,
      "Prompt tokens of routed requests, exact or estimated.",
      MetricTag.POOL,
      MetricTag.MODEL),
  CACHED_TOKENS_PREDICTED(
      "kvoy_cached_tokens_predicted_total",
      Type.COUNTER,
      "Prompt tokens that the picked worker was expected to have cached.",
      MetricTag.POOL,
      MetricTag.MODEL),
  LOOKUPS(
      "kvoy_lookups_total",
      Type.COUNTER,
      "Look-ups of prompts in the index, by whether any candidate had a beginning of it (`hit`) or"
          + " none (`miss`).",
      MetricTag.POOL,
      MetricTag.RESULT),
  HIT_TOKENS(
      "kvoy_hit_tokens_total",
      Type.COUNTER,
      "Prompt tokens that the picked worker held according to the index, by tier.",
      MetricTag.POOL,
      MetricTag.TIER),
  CACHED_TOKENS_ACTUAL(
      "kvoy_cached_tokens_actual_total",
      Type.COUNTER,
      "Prompt tokens that the worker reported as cached (vLLM usage.prompt_tokens_details).",
      MetricTag.POOL,
      MetricTag.MODEL),
  CACHED_TOKENS_ERROR(
      "kvoy_cached_tokens_error",
      Type.TOKENS,
      "Distance between predicted and reported cached tokens of one request.",
      MetricTag.POOL,
      MetricTag.DIRECTION),

  // Time to first token
  TTFT_PREDICTED(
      "kvoy_ttft_predicted_seconds",
      Type.LONG_TIMES,
      "Predicted time to first token of the picked worker.",
      MetricTag.POOL),
  TTFT_ACTUAL(
      "kvoy_ttft_actual_seconds",
      Type.LONG_TIMES,
      "Observed time to first token, from the pick.",
      MetricTag.POOL),
  TTFT_ERROR(
      "kvoy_ttft_error_seconds",
      Type.LONG_TIMES,
      "Distance between predicted and observed time to first token.",
      MetricTag.POOL,
      MetricTag.DIRECTION),
  WORKER_TTFT_ERROR(
      "kvoy_worker_ttft_error_seconds",
      Type.TIMES_WITHOUT_BUCKETS,
      "The same by worker, as sum, count and maximum.",
      MetricTag.POOL,
      MetricTag.WORKER),
  TTFT_ERROR_BY_CAUSE(
      "kvoy_ttft_error_by_cause_seconds",
      Type.TIMES_WITHOUT_BUCKETS,
      "The same by what it was most likely wrong about, as sum, count and maximum.",
      MetricTag.POOL,
      MetricTag.CAUSE),
  WORKER_TTFT_ERROR_MEDIAN(
      "kvoy_worker_ttft_error_median_ratio",
      Type.GAUGE,
      "Median distance of the latest 200 predictions, as a share of the observed time.",
      MetricTag.POOL,
      MetricTag.WORKER),
  WORKER_TTFT_ERROR_P90(
      "kvoy_worker_ttft_error_p90_ratio",
      Type.GAUGE,
      "The 90th percentile of the same.",
      MetricTag.POOL,
      MetricTag.WORKER),
  WORKER_TTFT_DRIFTING(
      "kvoy_worker_ttft_drifting",
      Type.GAUGE,
      "1 while predictions for the worker are wrong by more than a third in the median.",
      MetricTag.POOL,
      MetricTag.WORKER),
  TTFT_OVER_TARGET(
      "kvoy_ttft_over_target_total",
      Type.COUNTER,
      "Requests whose time to first token is beyond the pool's targetTtft.",
      MetricTag.POOL,
      MetricTag.STAGE),

  // Workers
  IN_FLIGHT(
      "kvoy_worker_in_flight_requests",
      Type.GAUGE,
      "Requests sent to the worker that have not ended.",
      MetricTag.POOL,
      MetricTag.WORKER),
  HEALTH(
      "kvoy_worker_health",
      Type.GAUGE,
      "Whether the worker may be picked.",
      MetricTag.POOL,
      MetricTag.WORKER,
      MetricTag.STATE),
  SCRAPE_FAILURES(
      "kvoy_worker_scrape_failures_total",
      Type.COUNTER,
      "Reads of the worker's metrics that failed.",
      MetricTag.POOL,
      MetricTag.WORKER),
  SCRAPE_AGE(
      "kvoy_worker_scrape_age_seconds",
      Type.GAUGE,
      "Age of the worker's figures; NaN before the first.",
      MetricTag.POOL,
      MetricTag.WORKER),

  // KV events and the index
  KV_EVENTS(
      "kvoy_kv_events_total",
      Type.COUNTER,
      "Blocks or events applied from the worker's KV event stream.",
      MetricTag.POOL,
      MetricTag.WORKER,
      MetricTag.KIND),
  KV_SKIPPED(
      "kvoy_kv_skipped_blocks_total",
      Type.COUNTER,
      "Blocks of events that could not be placed; `orphan` lacks the block before it.",
      MetricTag.POOL,
      MetricTag.WORKER,
      MetricTag.REASON),
  KV_GAPS(
      "kvoy_kv_gaps_total",
      Type.COUNTER,
      "Times that the sequence of the worker's events skipped.",
      MetricTag.POOL,
      MetricTag.WORKER),
  KV_RESTARTS(
      "kvoy_kv_restarts_total",
      Type.COUNTER,
      "Times that the worker's publisher started anew and its view was emptied.",
      MetricTag.POOL,
      MetricTag.WORKER),
  KV_REPLAYS(
      "kvoy_kv_replays_total",
      Type.COUNTER,
      "Replays asked of the worker by how they ended.",
      MetricTag.POOL,
      MetricTag.WORKER,
      MetricTag.RESULT),
  KV_DECODE_ERRORS(
      "kvoy_kv_decode_errors_total",
      Type.COUNTER,
      "Messages of the worker's event stream that could not be read.",
      MetricTag.POOL,
      MetricTag.WORKER,
      MetricTag.KIND),
  KV_DROPPED(
      "kvoy_kv_dropped_messages_total",
      Type.COUNTER,
      "Messages dropped as the index could not keep up.",
      MetricTag.POOL,
      MetricTag.WORKER),
  KV_VIEW_STATE(
      "kvoy_kv_view_state",
      Type.GAUGE,
      "How well the worker's cache is known.",
      MetricTag.POOL,
      MetricTag.WORKER,
      MetricTag.STATE),
  KV_APPLY_DELAY(
      "kvoy_kv_apply_delay_seconds",
      Type.SHORT_TIMES,
      "Time from the socket to the index of one batch of events."),
  KV_EVENT_AGE(
      "kvoy_kv_event_age_seconds",
      Type.LONG_TIMES,
      "Time from the worker's own time stamp of a batch of events to its application; for people"
          + " only, since the clocks of two machines differ."),
  OWN_KEYS(
      "kvoy_own_keys_state",
      Type.GAUGE,
      "Whether the blocks that the worker stores for our prompts are those that we compute.",
      MetricTag.POOL,
      MetricTag.WORKER,
      MetricTag.STATE),
  OWN_KEYS_CHECKED(
      "kvoy_own_keys_checked_total",
      Type.COUNTER,
      "Prompts looked for among the worker's events, by what was found: `whole`, `partial`,"
          + " `absent`, or `inconclusive` when something else may explain it.",
      MetricTag.POOL,
      MetricTag.WORKER,
      MetricTag.RESULT),
  UNVERIFIED_WORKERS(
      "kvoy_unverified_workers",
      Type.GAUGE,
      "Workers with KV events of which no prompt was found whole yet, mismatched ones included."),
  SPECULATIVE_BLOCKS(
      "kvoy_speculative_blocks",
      Type.GAUGE,
      "Blocks that workers are expected to have soon, since their prompts were just routed there."),
  SPECULATIVE_ENDED(
      "kvoy_speculative_blocks_ended_total",
      Type.COUNTER,
      "Expected blocks by how the expectation ended: `confirmed` or `contradicted` by events,"
          + " `withdrawn` with the request, `expired`, `displaced` by newer ones.",
      MetricTag.RESULT),
  INDEX_KEYS("kvoy_index_keys", Type.GAUGE, "Distinct blocks in the index."),
  INDEX_ENTRIES("kvoy_index_entries", Type.GAUGE, "Pairs of block and worker in the index."),
  INDEX_BYTES(
      "kvoy_index_bytes", Type.GAUGE, "Heap that the index takes, workers' own tables included."),

  // Configuration and tokenizers
  CONFIG_RELOADS(
      "kvoy_config_reloads_total",
      Type.COUNTER,
      "Changes of the configuration file, taken (`ok`) or refused (`rejected`).",
      MetricTag.RESULT),
  CONFIG_AGE(
      "kvoy_config_age_seconds", Type.GAUGE, "Time since the configuration in force was loaded."),
  CONFIG_REJECTED(
      "kvoy_config_rejected",
      Type.GAUGE,
      "1 while the file on disk is refused and an older one is in force."),
  TOKENIZER_STATE(
      "kvoy_tokenizer_state",
      Type.GAUGE,
      "State of the pool's tokenizer; all models of a pool share one.",
      MetricTag.POOL,
      MetricTag.STATE),
  TOKENIZER_LOADS(
      "kvoy_tokenizer_loads_total",
      Type.COUNTER,
      "Loads of the pool's tokenizer: `loaded`, `failed`, or `kept_earlier` when files changed that"
          + " cannot be loaded and the earlier ones go on.",
      MetricTag.POOL,
      MetricTag.RESULT),
  TOKENIZER_FALLBACKS(
      "kvoy_tokenizer_fallbacks_total",
      Type.COUNTER,
      "Loads that did not get the fast encoder: `differs` gave other ids than the reference,"
          + " `unsupported` is a kind of file that it does not know.",
      MetricTag.POOL,
      MetricTag.REASON),
  TOKENIZER_BYTES(
      "kvoy_tokenizer_memory_bytes",
      Type.GAUGE,
      "Estimated memory of the pool's tokenizer, heap and native; pools that share one show the"
          + " same.",
      MetricTag.POOL),
  HUB_FETCHES(
      "kvoy_hub_fetches_total",
      Type.COUNTER,
      "Looks at hub repositories: `fetched`, `unchanged`, or why it failed.",
      MetricTag.RESULT),
  PARITY_CHECKS(
      "kvoy_parity_checks_total",
      Type.COUNTER,
      "Routed requests whose token ids were compared with the worker's.",
      MetricTag.POOL,
      MetricTag.RESULT),
  PARITY_SKIPPED(
      "kvoy_parity_skipped_total",
      Type.COUNTER,
      "Samples that could not be compared, by what was missing.",
      MetricTag.POOL,
      MetricTag.REASON),
  PARITY_STATE(
      "kvoy_parity_state",
      Type.GAUGE,
      "What the comparisons have shown; `mismatching` pools are routed by load.",
      MetricTag.POOL,
      MetricTag.STATE);

  /** Kinds of meter; those with a distribution name their buckets. */
  enum Type {
    COUNTER("counter", "", new double[0]),
    GAUGE("gauge", "", new double[0]),
    /** Work of microseconds to a second, in seconds. */
    SHORT_TIMES(
        "histogram",
        "seconds",
        new double[] {
          50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3,
          500e-3, 1
        }),
    /** Waits of milliseconds to minutes, in seconds. */
    LONG_TIMES(
        "histogram",
        "seconds",
        new double[] {
          1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5, 10, 30, 60
        }),
    /** Seconds for which there are too many series to afford buckets. */
    TIMES_WITHOUT_BUCKETS("summary", "seconds", new double[0]),
    /** Tokens of one request; the first buckets are one block and a few. */
    TOKENS(
        "histogram",
        "tokens",
        new double[] {16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576}),
    /** Bytes of one body. */
    SIZES(
        "histogram",
        "bytes",
        new double[] {
          1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20
        });

    private final String word;
    private final String unit;

    @SuppressWarnings("ImmutableEnumChecker") // Never handed out, see buckets().
    private final double[] buckets;

    Type(String word, String unit, double[] buckets) {
      this.word = word;
      this.unit = unit;
      this.buckets = buckets;
    }

    /** Word of the Prometheus exposition format. */
    String word() {
      return word;
    }

    /** Unit of the values, empty for plain counts. */
    String unit() {
      return unit;
    }

    double[] buckets() {
      return buckets.clone();
    }

    boolean isTime() {
      return unit.equals("seconds");
    }
  }

  private final String exposedName;
  private final Type type;
  private final String doc;

  @SuppressWarnings("ImmutableEnumChecker") // List.of
  private final List<MetricTag> tags;

  Metric(String exposedName, Type type, String doc, MetricTag... tags) {
    this.exposedName = exposedName;
    this.type = type;
    this.doc = doc;
    this.tags = List.of(tags);
  }

  /** Name on the metrics page. */
  public String exposedName() {
    return exposedName;
  }

  Type type() {
    return type;
  }

  String doc() {
    return doc;
  }

  List<MetricTag> tags() {
    return tags;
  }

  /** Name given to Micrometer, which appends {@code _total} and {@code _seconds} itself. */
  String registeredName() {
    String suffix = type == Type.COUNTER ? "_total" : type.isTime() ? "_seconds" : "";
    return exposedName.substring(0, exposedName.length() - suffix.length());
  }
}
