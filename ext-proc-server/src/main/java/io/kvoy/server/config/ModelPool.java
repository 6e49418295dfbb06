// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.inference.Json;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.tokenizer.chat.ChatTemplateOptions;
import io.kvoy.tokenizer.chat.ContentFormat;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The document of kind {@code ModelPool}: workers that serve the same models.
 *
 * @param name {@code metadata.name}, unique in the file; a metric tag
 * @param models served model names; empty takes every name that no other pool has
 * @param adapters LoRA adapters, asked for in place of a model name
 * @param tokenizer folder with {@code tokenizer.json}, absolute once loaded
 * @param tokenizerHub repository that the tokenizer's files are fetched from
 * @param tokenizerWorker set when the pool's own workers are asked for the token ids
 * @param chatTemplate file that replaces the tokenizer's own chat template, absolute once loaded
 * @param chatFlags flags of the workers that change rendered prompts
 * @param blockSize tokens per KV cache block until a worker's events tell its own
 * @param scrapeInterval between two reads of a worker's metrics
 * @param staleAfter age at which a worker's figures count as unknown
 * @param healthInterval between two health checks of a worker
 * @param targetTtft time to first token that counts as good
 * @param refuseOverTarget whether requests that would wait longer than the target are refused
 * @param injectUsage whether streams that report no usage are made to
 * @param queue how requests wait that no worker can take; empty when they do not
 * @param workers at least one
 */
public record ModelPool(
    String name,
    @Setting(
            doc = "Model names served here, as requests carry them (vLLM `--served-model-name`).",
            unset = "every model name that no other pool has",
            form = TextForm.MODEL_NAME)
        List<String> models,
    @Setting(
            doc =
                "LoRA adapter names served here. Their cache blocks are kept apart from the base"
                    + " model's.",
            unset = "none",
            maxItems = 4096,
            form = TextForm.MODEL_NAME)
        List<String> adapters,
    @Setting(
            doc =
                "Folder with the model's `tokenizer.json` and `tokenizer_config.json`, relative to"
                    + " `KvoyConfig` `tokenizers.root`. A Kubernetes volume is such a folder:"
                    + " changed files are taken over without a pause.",
            unset =
                "no tokens are computed, unless `tokenizerHub` or `tokenizerWorker` is given;"
                    + " requests are routed by load alone")
        Optional<Path> tokenizer,
    @Setting(
            doc =
                "Fetch the tokenizer's files from a HuggingFace hub, in place of `tokenizer`. They"
                    + " are kept in `KvoyConfig` `tokenizers.hub.cache` and need no hub after"
                    + " that.",
            unset = "nothing is fetched")
        Optional<HubTokenizer> tokenizerHub,
    @Setting(
            doc =
                "Ask the pool's workers for the token ids of each prompt, in place of `tokenizer`."
                    + " Costs a round trip before every pick; an empty mapping takes the"
                    + " defaults.",
            unset = "workers are not asked")
        Optional<WorkerTokenizer> tokenizerWorker,
    @Setting(
            doc =
                "Chat template file, for workers started with `--chat-template`; relative to"
                    + " `KvoyConfig` `tokenizers.root`. Stands for every template of the tokenizer;"
                    + " a changed file is taken over without a pause.",
            unset = "the templates in the tokenizer's files")
        Optional<Path> chatTemplate,
    @Setting(
            doc =
                "Flags that the workers were started with and that change rendered prompts. What is"
                    + " wrong here makes every conversation another one than the worker's.",
            unset = "workers without these flags")
        Optional<ChatFlags> chatFlags,
    @Setting(
            doc = "Tokens per KV cache block that is assumed until a worker's events tell its own.",
            inherits = "defaults.blockSize",
            min = "1",
            max = "4096",
            restart = true)
        int blockSize,
    @Setting(
            doc = "Time between two reads of a worker's `/metrics`.",
            inherits = "defaults.scrapeInterval",
            min = "10ms",
            max = "1m",
            restart = true)
        Duration scrapeInterval,
    @Setting(
            doc =
                "Age at which figures read from a worker count as unknown; at least the scrape"
                    + " interval.",
            inherits = "defaults.staleAfter",
            min = "20ms",
            max = "10m",
            restart = true)
        Duration staleAfter,
    @Setting(
            doc = "Time between two health checks of a worker.",
            inherits = "defaults.healthInterval",
            min = "50ms",
            max = "10m",
            restart = true)
        Duration healthInterval,
    @Setting(
            doc =
                "Time to first token that counts as good; requests predicted beyond it are counted.",
            inherits = "defaults.targetTtft",
            min = "1ms",
            max = "10m")
        Duration targetTtft,
    @Setting(
            doc =
                "Answer 429 with `retry-after` to a request that no worker would give its first"
                    + " token within `targetTtft`, by what is predicted and what predictions are"
                    + " wrong by.",
            fallback = "false")
        boolean refuseOverTarget,
    @Setting(
            doc =
                "Further workers to name behind the picked one, best first, for the gateway to try"
                    + " when it cannot connect. Not for clusters of type `ORIGINAL_DST`: they take"
                    + " one address and answer 503 to a list.",
            fallback = "0",
            min = "0",
            max = "8")
        int fallbacks,
    @Setting(
            doc =
                "Ask the worker for usage (`stream_options.include_usage`) when a streaming client"
                    + " of chat completions or completions did not, and take the extra chunk out"
                    + " of the answer again. Needs answers to pass through Kvoy in line.",
            fallback = "false")
        boolean injectUsage,
    @Setting(
            doc =
                "Let inference requests wait while no worker is ready, or while all would be later"
                    + " than `targetTtft` with `refuseOverTarget`. An empty mapping takes the"
                    + " defaults.",
            unset = "they are refused at once")
        Optional<Queue> queue,
    @Setting(doc = "The workers.", required = true, minItems = 1, maxItems = 4096)
        List<StaticWorker> workers) {

  public ModelPool {
    models = List.copyOf(models);
    adapters = List.copyOf(adapters);
    workers = List.copyOf(workers);
  }

  /** This pool with its relative paths read against {@code root}. */
  ModelPool resolvedAgainst(Path root) {
    return new ModelPool(
        name,
        models,
        adapters,
        tokenizer.map(path -> root.resolve(path).normalize()),
        tokenizerHub,
        tokenizerWorker,
        chatTemplate.map(path -> root.resolve(path).normalize()),
        chatFlags,
        blockSize,
        scrapeInterval,
        staleAfter,
        healthInterval,
        targetTtft,
        refuseOverTarget,
        fallbacks,
        injectUsage,
        queue,
        workers);
  }

  /** What rendering depends on besides the tokenizer's files. */
  public ChatTemplateOptions chatTemplateOptions() {
    return chatFlags.map(ChatFlags::options).orElse(ChatTemplateOptions.DEFAULTS);
  }

  /**
   * vLLM's flags of that kind.
   *
   * @param defaultKwargs a JSON object
   * @param contentFormat empty for {@code auto}
   */
  public record ChatFlags(
      @Setting(
              doc =
                  "`--default-chat-template-kwargs`, the same JSON object in quotes; a request's own"
                      + " win.",
              unset = "none",
              form = TextForm.JSON_OBJECT)
          Optional<String> defaultKwargs,
      @Setting(
              doc = "`--chat-template-content-format`.",
              unset = "`auto`: told by looking at the template")
          Optional<ContentFormat> contentFormat,
      @Setting(doc = "`--exclude-tools-when-tool-choice-none`.", fallback = "false")
          boolean excludeToolsWhenToolChoiceNone) {

    ChatTemplateOptions options() {
      return new ChatTemplateOptions(
          contentFormat.orElse(null),
          defaultKwargs.map(TextForm::jsonObject).orElse(Json.Obj.of(Map.of())),
          excludeToolsWhenToolChoiceNone);
    }
  }

  /**
   * How requests wait.
   *
   * @param maxWaiting requests of this pool at once
   * @param timeout longest wait
   * @param objectives priority by the name of an objective
   * @param trustHeaders whether clients cannot write the headers that name objective and flow
   */
  public record Queue(
      @Setting(
              doc = "Most requests that wait at once; a further one is refused.",
              fallback = "256",
              min = "1",
              max = "10000")
          int maxWaiting,
      @Setting(
              doc =
                  "Longest wait; then the answer is 503 with `retry-after`. Must be shorter than the"
                      + " proxy waits for Kvoy (30 s in configurations of Kvoy's own).",
              fallback = "20s",
              min = "10ms",
              max = "10m")
          Duration timeout,
      @Setting(
              doc =
                  "Priority by objective, such as `batch: -1`; any other has 0. Higher ones are"
                      + " served first, always. Negative ones never wait. Needs `trustHeaders`.",
              unset = "all requests have the same priority",
              maxItems = 4096,
              form = TextForm.WORKER_NAME)
          Map<String, Integer> objectives,
      @Setting(
              doc =
                  "Take the objective from `x-llm-d-inference-objective` (or"
                      + " `x-gateway-inference-objective`), and the flow, which takes turns with"
                      + " others of the same priority, from `x-llm-d-inference-fairness-id` (or"
                      + " `x-gateway-inference-fairness-id`). Only where the proxy removes all four"
                      + " from what clients send: otherwise a client could choose its own priority.",
              fallback = "false")
          boolean trustHeaders) {

    public Queue {
      objectives = Map.copyOf(objectives);
    }

    /** Priority of a request with that objective. */
    public int priority(String objective) {
      return trustHeaders ? objectives.getOrDefault(objective, 0) : 0;
    }

    /** Who takes turns with whom. */
    public String flow(String fairnessId) {
      return trustHeaders ? fairnessId : "";
    }
  }

  /**
   * Where on the hub a tokenizer lies.
   *
   * @param repository {@code owner/name}
   * @param revision branch, tag or commit
   */
  public record HubTokenizer(
      @Setting(
              doc = "Repository, such as `Qwen/Qwen3-8B`.",
              required = true,
              form = TextForm.HUB_REPOSITORY)
          String repository,
      @Setting(
              doc =
                  "Branch, tag or commit. A full commit is never asked about again once it is in"
                      + " the cache; a branch is looked at every"
                      + " `KvoyConfig` `tokenizers.hub.refresh`.",
              fallback = "main",
              form = TextForm.HUB_REVISION)
          String revision) {}

  /**
   * How workers are asked for token ids.
   *
   * @param timeout longest wait for one answer
   * @param concurrency questions under way at once, all workers of the pool together
   */
  public record WorkerTokenizer(
      @Setting(
              doc =
                  "Longest wait for one answer; then the request is routed by load alone. Must be"
                      + " shorter than `KvoyConfig` `timeouts.decision` to have an effect.",
              fallback = "250ms",
              min = "1ms",
              max = "30s")
          Duration timeout,
      @Setting(
              doc =
                  "Most questions under way at once. A request beyond them is routed by load"
                      + " alone.",
              fallback = "32",
              min = "1",
              max = "1024")
          int concurrency) {}

  /**
   * One worker at a fixed address.
   *
   * @param name unique in the file, the address when none is written; a metric tag
   * @param address where requests go
   * @param kvEvents where its KV cache events come from; empty when it publishes none
   */
  public record StaticWorker(
      @Setting(
              doc = "Name for people and metrics, unique in the file.",
              unset = "the address",
              form = TextForm.WORKER_NAME)
          String name,
      @Setting(
              doc =
                  "Where requests go: `10.0.0.7:8000`, `[2001:db8::7]:8000`. A gateway routes to"
                      + " exactly this text.",
              required = true)
          Endpoint address,
      @Setting(
              doc = "Where the worker's KV cache events come from (vLLM `--kv-events-config`).",
              unset = "its cache is unknown; it is chosen by load alone")
          Optional<KvEvents> kvEvents) {

    public StaticWorker {
      name = name.isEmpty() ? address.toString() : name;
    }
  }

  /**
   * A worker's KV cache event stream. Either {@code discover} or {@code endpoint} is given.
   *
   * @param discover whether the worker is asked for its endpoints
   * @param endpoint ZeroMQ endpoint of its publisher, rank 0
   * @param replayEndpoint ZeroMQ endpoint of its replay socket, rank 0
   * @param bind whether Kvoy binds {@code endpoint} and the worker connects to it
   * @param topic prefix of the topics to receive
   * @param dataParallelRanks number of publishers; rank r uses both ports + r
   */
  public record KvEvents(
      @Setting(
              doc =
                  "Ask the worker's `GET /kv_event_sources` (vLLM 0.32 and later) for the"
                      + " endpoints of all ranks instead of writing them here.",
              fallback = "false")
          boolean discover,
      @Setting(
              doc =
                  "ZeroMQ endpoint of the event publisher (rank 0), with the worker's address in"
                      + " place of vLLM's `*`. Needed unless `discover` is `true`.",
              unset = "must be discovered",
              form = TextForm.ZMQ_ENDPOINT)
          Optional<String> endpoint,
      @Setting(
              doc = "ZeroMQ endpoint of the replay socket (rank 0).",
              unset = "a gap in the events empties the worker's view instead of being refilled",
              form = TextForm.ZMQ_ENDPOINT)
          Optional<String> replayEndpoint,
      @Setting(
              doc = "Kvoy binds `endpoint` and the worker connects to it, not the other way round.",
              fallback = "false")
          boolean bind,
      @Setting(
              doc =
                  "Prefix of the topics to receive. Needed when several workers connect to one"
                      + " bound endpoint and their topics do not begin with `kv@<name>@`.",
              unset = "every topic")
          String topic,
      @Setting(
              doc =
                  "Data parallel ranks behind this address. Rank r publishes at both ports + r"
                      + " (vLLM 0.32). The worker chooses the rank of a request itself, so its"
                      + " cache counts with the mean over its ranks.",
              fallback = "1",
              min = "1",
              max = "1024")
          int dataParallelRanks) {}
}
