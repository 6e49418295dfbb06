// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.SequencedMap;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.DoubleStream;

/**
 * What one life of a worker counts, and the page that shows it.
 *
 * <p>Names, labels and buckets are those of vLLM 0.32 ({@code v1/metrics/loggers.py}, seen on a
 * running worker). Times are machine seconds, before any time scale. Written by the engine thread,
 * read by scrapes; every method locks.
 */
final class EngineMetrics {
  private static final double[] TTFT_BUCKETS = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40,
    80, 160, 640, 2560
  };
  private static final double[] PER_TOKEN_BUCKETS = {
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80
  };
  private static final double[] REQUEST_BUCKETS = {
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680
  };
  private static final double[] ITERATION_BUCKETS = {
    1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384
  };
  private static final double[] PARAMETER_N_BUCKETS = {1, 2, 5, 10, 20};
  private static final double[] PREEMPTION_BUCKETS = {1, 2, 3, 4, 5, 10, 20};

  /** A sequence that ended by itself. Durations in simulated nanoseconds. */
  record FinishedRequest(
      EngineRequest request,
      EngineOutput.Finish finish,
      int generated,
      int preemptions,
      int cachedTokens,
      long e2eNanos,
      long queuedNanos,
      long prefillNanos,
      long decodeNanos) {}

  private final String model;
  private final int rank;
  private final EngineOptions options;
  private final int maxLoras;
  private final Supplier<Double> unixSeconds;
  private final double createdUnixSeconds;

  private int running;
  private int waiting;
  private double usage;
  // Counters are doubles because the page is: exact up to 2^53.
  private double prefixQueries;
  private double prefixHits;
  private double preemptions;
  private double promptTokens;
  private double promptTokensCached;
  private double generationTokens;
  private double stopped;
  private double reachedLimit;
  private final Histogram promptPerRequest;
  private final Histogram generationPerRequest;
  private final Histogram maxGenerationPerRequest;
  private final Histogram maxTokensParameter;
  private final Histogram computedPerRequest;
  private final Histogram nParameter = new Histogram(PARAMETER_N_BUCKETS);
  private final Histogram preemptionsPerRequest = new Histogram(PREEMPTION_BUCKETS);
  private final Histogram tokensPerStep = new Histogram(ITERATION_BUCKETS);
  private final Histogram ttft = new Histogram(TTFT_BUCKETS);
  private final Histogram interToken = new Histogram(PER_TOKEN_BUCKETS);
  private final Histogram perOutputToken = new Histogram(PER_TOKEN_BUCKETS);
  private final Histogram e2e = new Histogram(REQUEST_BUCKETS);
  private final Histogram queued = new Histogram(REQUEST_BUCKETS);
  private final Histogram inference = new Histogram(REQUEST_BUCKETS);
  private final Histogram prefill = new Histogram(REQUEST_BUCKETS);
  private final Histogram decode = new Histogram(REQUEST_BUCKETS);
  private final Map<String, Integer> loraWaiting = new TreeMap<>();
  private final Map<String, Integer> loraRunning = new TreeMap<>();
  // Label values of lora_requests_info to the time they were last true; old ones stay, as in vLLM.
  private final SequencedMap<String, Double> loraSeries = new LinkedHashMap<>();

  /**
   * @param rank data parallel rank, the {@code engine} label
   * @param maxLoras adapters served, 0 for none
   * @param unixSeconds wall clock for the series that carry a time
   */
  EngineMetrics(
      String model, int rank, EngineOptions options, int maxLoras, Supplier<Double> unixSeconds) {
    this.model = model;
    this.rank = rank;
    this.options = options;
    this.maxLoras = maxLoras;
    this.unixSeconds = unixSeconds;
    this.createdUnixSeconds = unixSeconds.get();
    double[] tokenBuckets = tokenBuckets(options.maxModelLen());
    promptPerRequest = new Histogram(tokenBuckets);
    generationPerRequest = new Histogram(tokenBuckets);
    maxGenerationPerRequest = new Histogram(tokenBuckets);
    maxTokensParameter = new Histogram(tokenBuckets);
    computedPerRequest = new Histogram(tokenBuckets);
  }

  synchronized void gauges(int newRunning, int newWaiting, double newUsage) {
    running = newRunning;
    waiting = newWaiting;
    usage = newUsage;
    if (maxLoras > 0) {
      String labels =
          "max_lora=\"%d\",running_lora_adapters=\"%s\",waiting_lora_adapters=\"%s\""
              .formatted(
                  maxLoras,
                  String.join(",", loraRunning.keySet()),
                  String.join(",", loraWaiting.keySet()));
      loraSeries.put(labels, unixSeconds.get());
    }
  }

  synchronized void queued(EngineRequest request) {
    count(loraWaiting, request, 1);
  }

  synchronized void scheduled(EngineRequest request) {
    count(loraWaiting, request, -1);
    count(loraRunning, request, 1);
  }

  synchronized void preempted(EngineRequest request) {
    preemptions++;
    count(loraRunning, request, -1);
    count(loraWaiting, request, 1);
  }

  /** A request was aborted. */
  synchronized void left(EngineRequest request) {
    EngineRequest.Lora lora = request.lora();
    if (lora != null) {
      Map<String, Integer> holder =
          loraRunning.containsKey(lora.name()) ? loraRunning : loraWaiting;
      count(holder, request, -1);
    }
  }

  synchronized void prefixLookup(int tokens, int hitTokens) {
    prefixQueries += tokens;
    prefixHits += hitTokens;
  }

  synchronized void firstToken(EngineRequest request, long sinceArrivalNanos, int cachedTokens) {
    promptTokens += request.prompt().length;
    promptTokensCached += cachedTokens;
    generationTokens++;
    ttft.observe(sinceArrivalNanos / 1e9);
  }

  synchronized void nextToken(long sinceLastNanos) {
    generationTokens++;
    interToken.observe(sinceLastNanos / 1e9);
  }

  synchronized void iteration(int tokens) {
    tokensPerStep.observe(tokens);
  }

  synchronized void finished(FinishedRequest done) {
    switch (done.finish()) {
      case STOP -> stopped++;
      case LENGTH -> reachedLimit++;
    }
    count(loraRunning, done.request(), -1);
    int prompt = done.request().prompt().length;
    promptPerRequest.observe(prompt);
    generationPerRequest.observe(done.generated());
    maxGenerationPerRequest.observe(done.generated());
    maxTokensParameter.observe(done.request().maxTokens());
    computedPerRequest.observe(prompt - done.cachedTokens());
    nParameter.observe(1);
    preemptionsPerRequest.observe(done.preemptions());
    e2e.observe(done.e2eNanos() / 1e9);
    queued.observe(done.queuedNanos() / 1e9);
    prefill.observe(done.prefillNanos() / 1e9);
    decode.observe(done.decodeNanos() / 1e9);
    inference.observe((done.prefillNanos() + done.decodeNanos()) / 1e9);
    perOutputToken.observe(
        done.generated() > 1 ? done.decodeNanos() / 1e9 / (done.generated() - 1) : 0);
  }

  synchronized int running() {
    return running;
  }

  synchronized int waiting() {
    return waiting;
  }

  synchronized double usage() {
    return usage;
  }

  /** The engine's part of {@code GET /metrics}. */
  synchronized String page() {
    PrometheusPage page =
        new PrometheusPage(
            "engine=\"" + rank + "\"", "model_name=\"" + model + "\"", createdUnixSeconds);
    page.counter("vllm:estimated_flops_per_gpu", "Floating point work, not simulated.", 0);
    page.counter("vllm:estimated_read_bytes_per_gpu", "Memory reads, not simulated.", 0);
    page.counter("vllm:estimated_write_bytes_per_gpu", "Memory writes, not simulated.", 0);
    page.gauge("vllm:num_requests_running", "Requests in the batch.", running);
    page.gauge("vllm:num_requests_waiting", "Requests in the queue.", waiting);
    page.gaugeFamily("vllm:num_requests_waiting_by_reason", "Requests in the queue, by reason.")
        .labelled("reason", "capacity", waiting)
        .labelled("reason", "deferred", 0);
    page.gaugeFamily("vllm:engine_sleep_state", "Which sleep state the engine is in.")
        .labelled("sleep_state", "awake", 1)
        .labelled("sleep_state", "weights_offloaded", 0)
        .labelled("sleep_state", "discard_all", 0);
    page.gauge("vllm:kv_cache_usage_perc", "Share of cache blocks held by requests, 0..1.", usage);
    page.counter("vllm:prefix_cache_queries", "Tokens looked up in the cache.", prefixQueries);
    page.counter("vllm:prefix_cache_hits", "Tokens found in the cache.", prefixHits);
    page.counter("vllm:external_prefix_cache_queries", "Tokens looked up elsewhere.", 0);
    page.counter("vllm:external_prefix_cache_hits", "Tokens found elsewhere.", 0);
    page.counter("vllm:mm_cache_queries", "Multimodal items looked up.", 0);
    page.counter("vllm:mm_cache_hits", "Multimodal items found.", 0);
    page.counter("vllm:num_preemptions", "Sequences driven out of the batch.", preemptions);
    page.counter("vllm:prompt_tokens", "Prompt tokens of started requests.", promptTokens);
    page.counterFamily("vllm:prompt_tokens_by_source", "Prompt tokens, by where they came from.")
        .labelled("source", "local_compute", promptTokens - promptTokensCached)
        .labelled("source", "local_cache_hit", promptTokensCached)
        .labelled("source", "external_kv_transfer", 0)
        .created();
    page.counter("vllm:prompt_tokens_cached", "Prompt tokens not computed.", promptTokensCached);
    page.counterFamily("vllm:prompt_tokens_cached_by_source", "Cached prompt tokens, by tier.")
        .labelled("source", "device", prefixHits)
        .labelled("source", "host", 0)
        .labelled("source", "p2p", 0)
        .labelled("source", "disk", 0)
        .labelled("source", "external_unspecified", 0)
        .created();
    page.counter("vllm:generation_tokens", "Tokens generated.", generationTokens);
    page.counterFamily("vllm:request_success", "Requests that ended, by reason.")
        .labelled("finished_reason", "stop", stopped)
        .labelled("finished_reason", "length", reachedLimit)
        .labelled("finished_reason", "abort", 0)
        .labelled("finished_reason", "error", 0)
        .labelled("finished_reason", "repetition", 0)
        .created();
    page.counterFamilyWithoutEngine("vllm:admission_rejections", "Requests refused at the queue.")
        .labelled("reason", "max_num_queued_reqs", 0)
        .labelled("reason", "max_num_queued_tokens", 0)
        .created();
    page.histogram("vllm:request_prompt_tokens", "Prompt tokens per request.", promptPerRequest);
    page.histogram(
        "vllm:request_generation_tokens", "Generated tokens per request.", generationPerRequest);
    page.histogram("vllm:iteration_tokens_total", "Tokens per engine step.", tokensPerStep);
    page.histogram(
        "vllm:request_max_num_generation_tokens",
        "Generated tokens of the longest answer of a request.",
        maxGenerationPerRequest);
    page.histogram("vllm:request_params_n", "The n parameter.", nParameter);
    page.histogram(
        "vllm:request_params_max_tokens", "The max_tokens parameter.", maxTokensParameter);
    page.histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", ttft);
    page.histogram("vllm:inter_token_latency_seconds", "Token to token.", interToken);
    page.histogram(
        "vllm:request_time_per_output_token_seconds",
        "Mean token to token, per request.",
        perOutputToken);
    page.histogram("vllm:e2e_request_latency_seconds", "Arrival to last token.", e2e);
    page.histogram("vllm:request_queue_time_seconds", "Time in the queue.", queued);
    page.histogram("vllm:request_inference_time_seconds", "Time in the batch.", inference);
    page.histogram("vllm:request_prefill_time_seconds", "Batch entry to first token.", prefill);
    page.histogram("vllm:request_decode_time_seconds", "First to last token.", decode);
    page.histogram(
        "vllm:request_num_preemptions", "Preemptions per request.", preemptionsPerRequest);
    page.histogram(
        "vllm:request_prefill_kv_computed_tokens",
        "Prompt tokens computed per request.",
        computedPerRequest);
    page.bareFamily("vllm:lora_requests_info", "gauge", "Adapters in use; the newest is true.");
    loraSeries.forEach((labels, value) -> page.bare("vllm:lora_requests_info", labels, value));
    page.bareFamily("vllm:cache_config_info", "gauge", "Size and kind of the cache.");
    page.bare("vllm:cache_config_info", cacheConfigLabels(), 1);
    return page.text();
  }

  private String cacheConfigLabels() {
    int blocks = options.usableBlocks() + 1;
    return "block_size=\"%d\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"%d\","
            .formatted(options.blockSize(), rank)
        + "gpu_memory_utilization=\"0.92\",hash_block_size=\"None\",kv_cache_size_tokens=\"%d\","
            .formatted(blocks * options.blockSize())
        + "num_cpu_blocks=\"None\",num_gpu_blocks=\"%d\",num_gpu_blocks_override=\"%d\","
            .formatted(blocks, blocks)
        + "prefix_caching_hash_algo=\"sha256_cbor\",sliding_window=\"None\"";
  }

  private static void count(Map<String, Integer> table, EngineRequest request, int change) {
    EngineRequest.Lora lora = request.lora();
    if (lora != null) {
      int now = table.merge(lora.name(), change, Integer::sum);
      if (now <= 0) {
        table.remove(lora.name());
      }
    }
  }

  /** 1, 2, 5, 10, … up to the longest sequence, as vLLM builds them. */
  private static double[] tokenBuckets(int maxModelLen) {
    DoubleStream.Builder bounds = DoubleStream.builder();
    for (double decade = 1; decade <= maxModelLen; decade *= 10) {
      for (double bound : new double[] {decade, 2 * decade, 5 * decade}) {
        if (bound <= maxModelLen) {
          bounds.add(bound);
        }
      }
    }
    return bounds.build().toArray();
  }

  /** Counts per bucket, not cumulative. */
  static final class Histogram {
    private final double[] bounds;
    private final double[] counts;
    private double total;
    private double sum;

    Histogram(double[] bounds) {
      this.bounds = bounds;
      this.counts = new double[bounds.length + 1];
    }

    void observe(double value) {
      int i = 0;
      while (i < bounds.length && value > bounds[i]) {
        i++;
      }
      counts[i]++;
      total++;
      sum += value;
    }

    double[] bounds() {
      return bounds;
    }

    double count(int bucket) {
      return counts[bucket];
    }

    double total() {
      return total;
    }

    double sum() {
      return sum;
    }
  }
}
