// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.scoring.fleet.Endpoint;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * The document of kind {@code ModelPool}: workers that serve the same models.
 *
 * @param name {@code metadata.name}, unique in the file; a metric tag
 * @param models served model names; empty takes every name that no other pool has
 * @param adapters LoRA adapters, asked for in place of a model name
 * @param tokenizer folder with {@code tokenizer.json}, absolute once loaded; empty routes by load
 * @param chatTemplate file that replaces the tokenizer's own chat template, absolute once loaded
 * @param blockSize tokens per KV cache block until a worker's events tell its own
 * @param scrapeInterval between two reads of a worker's metrics
 * @param staleAfter age at which a worker's figures count as unknown
 * @param healthInterval between two health checks of a worker
 * @param targetTtft time to first token that counts as good
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
                    + " `KvoyConfig` `tokenizers.root`.",
            unset = "no tokens are computed; requests are routed by load alone")
        Optional<Path> tokenizer,
    @Setting(
            doc =
                "Chat template file, for workers started with `--chat-template`; relative to"
                    + " `KvoyConfig` `tokenizers.root`. Reserved: this version routes such a pool by"
                    + " load alone.",
            unset = "the template in the tokenizer folder")
        Optional<Path> chatTemplate,
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
        chatTemplate.map(path -> root.resolve(path).normalize()),
        blockSize,
        scrapeInterval,
        staleAfter,
        healthInterval,
        targetTtft,
        workers);
  }

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
              doc = "Prefix of the topics to receive. Reserved: this version receives every topic.",
              unset = "every topic")
          String topic,
      @Setting(
              doc =
                  "Data parallel ranks behind this address. Rank r publishes at both ports + r"
                      + " (vLLM 0.32). Reserved: this version follows rank 0.",
              fallback = "1",
              min = "1",
              max = "1024")
          int dataParallelRanks) {}
}
