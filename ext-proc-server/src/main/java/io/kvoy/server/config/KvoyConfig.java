// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The document of kind {@code KvoyConfig}: how this server process behaves. At most one stands in a
 * file; without it every field has its default, as {@link #allDefaults()} returns.
 *
 * @param name {@code metadata.name}, for people only
 */
public record KvoyConfig(
    String name,
    @Setting(doc = "Where the server listens.", restart = true) Listen listen,
    @Setting(doc = "Bounds on what strangers may send.") Limits limits,
    @Setting(doc = "How long the server waits.") Timeouts timeouts,
    @Setting(doc = "Values for pools that do not set their own.") PoolDefaults defaults,
    @Setting(doc = "Tokenizers shared by all pools.") Tokenizers tokenizers,
    @Setting(doc = "What is logged.") Logging logging,
    @Setting(doc = "What is learned and told about finished requests.") Feedback feedback) {

  /** Every field at its default. */
  public static KvoyConfig allDefaults() {
    return Defaults.CONFIG;
  }

  /** Built on first use, so that the record's own initialisation does not run the binder. */
  private static final class Defaults {
    static final KvoyConfig CONFIG = Binder.defaults(KvoyConfig.class, "kvoy");
  }

  /**
   * The doors. Every {@link ListenAddress.Tcp} in here has a host.
   *
   * @param address bound by doors that name no host
   * @param extProc gRPC ext_proc door of the gateway
   * @param health gRPC health service
   * @param admin metrics and debug pages over HTTP
   * @param xds Envoy configuration over gRPC
   * @param reports access log reports over gRPC
   * @param inferenceHandler gRPC door for gateways that are not Envoy
   */
  public record Listen(
      @Setting(
              doc =
                  "Address of every door that names no host. `0.0.0.0` or `::` opens all"
                      + " interfaces.",
              fallback = "127.0.0.1",
              form = TextForm.HOST,
              restart = true)
          String address,
      @Setting(
              doc = "ext_proc (gRPC): the endpoint picker protocol of the gateway.",
              fallback = "9002",
              restart = true)
          ListenAddress extProc,
      @Setting(doc = "gRPC health service.", fallback = "9003", restart = true)
          ListenAddress health,
      @Setting(
              doc = "HTTP: `/metrics`, `/healthz`, `/readyz`, `/debug/*`.",
              fallback = "9090",
              restart = true)
          ListenAddress admin,
      @Setting(
              doc = "xDS (gRPC) for Envoy. Reserved: this version does not open it.",
              fallback = "9004",
              restart = true)
          ListenAddress xds,
      @Setting(
              doc =
                  "Access log reports (gRPC) of finished requests. Reserved: this version does not"
                      + " open it.",
              fallback = "9005",
              restart = true)
          ListenAddress reports,
      @Setting(
              doc =
                  "Inference handler (gRPC) for gateways that do not speak ext_proc. Reserved: this"
                      + " version does not open it.",
              fallback = "9006",
              restart = true)
          ListenAddress inferenceHandler) {

    public Listen {
      extProc = extProc.orHost(address);
      health = health.orHost(address);
      admin = admin.orHost(address);
      xds = xds.orHost(address);
      reports = reports.orHost(address);
      inferenceHandler = inferenceHandler.orHost(address);
    }
  }

  /**
   * Sizes and counts; beyond them a request is refused.
   *
   * @param maxRequestBody bytes as received
   * @param maxDecodedBody bytes after decompression
   * @param maxHeaderBytes all headers of one request together
   * @param maxStreams exchanges open at the same time
   */
  public record Limits(
      @Setting(
              doc =
                  "Largest request body as received. A larger one is answered 413 without being"
                      + " kept.",
              fallback = "32MiB",
              min = "1KiB",
              max = "1GiB",
              restart = true)
          DataSize maxRequestBody,
      @Setting(
              doc =
                  "Largest request body after gzip or deflate is undone; stops a small body that"
                      + " unpacks without end.",
              fallback = "64MiB",
              min = "1KiB",
              max = "1GiB")
          DataSize maxDecodedBody,
      @Setting(
              doc = "Largest sum of the names and values of one request's headers.",
              fallback = "64KiB",
              min = "4KiB",
              max = "1MiB")
          DataSize maxHeaderBytes,
      @Setting(
              doc = "Most exchanges (ext_proc streams) open at the same time.",
              fallback = "40000",
              min = "1",
              max = "1000000")
          int maxStreams) {}

  /**
   * Waiting times.
   *
   * @param bodyWait from the headers to the end of the body
   * @param decision from the end of the body to the pick
   * @param inFlightExpiry from a pick to the time its end is taken for lost
   * @param scrape one read of a worker's metrics
   * @param drain from the stop signal to the close of the doors
   */
  public record Timeouts(
      @Setting(
              doc =
                  "From a request's headers to the end of its body. A slower client is answered"
                      + " 408.",
              fallback = "30s",
              min = "100ms",
              max = "10m")
          Duration bodyWait,
      @Setting(
              doc =
                  "From the end of the body to the pick. When it runs out the request is routed by"
                      + " load alone, marked degraded.",
              fallback = "500ms",
              min = "1ms",
              max = "1m")
          Duration decision,
      @Setting(
              doc =
                  "How long a request counts as in flight when nobody reports its end; must exceed"
                      + " the longest generation.",
              fallback = "15m",
              min = "1s",
              max = "1d")
          Duration inFlightExpiry,
      @Setting(
              doc = "Longest wait for one answer of a worker's `/metrics` or `/health`.",
              fallback = "1s",
              min = "10ms",
              max = "1m",
              restart = true)
          Duration scrape,
      @Setting(
              doc =
                  "From the stop signal, when readiness goes away, to the close of streams that are"
                      + " still open.",
              fallback = "30s",
              min = "0s",
              max = "1h")
          Duration drain) {}

  /**
   * What a pool gets that does not say otherwise.
   *
   * @param blockSize tokens per KV cache block
   * @param scrapeInterval between two reads of a worker's metrics
   * @param staleAfter age at which a worker's figures count as unknown
   * @param healthInterval between two health checks of a worker
   * @param targetTtft time to first token that counts as good
   */
  public record PoolDefaults(
      @Setting(
              doc =
                  "Tokens per KV cache block that is assumed until a worker's events tell its own.",
              fallback = "16",
              min = "1",
              max = "4096",
              restart = true)
          int blockSize,
      @Setting(
              doc = "Time between two reads of a worker's `/metrics`.",
              fallback = "200ms",
              min = "10ms",
              max = "1m",
              restart = true)
          Duration scrapeInterval,
      @Setting(
              doc =
                  "Age at which figures read from a worker count as unknown; at least the scrape"
                      + " interval.",
              fallback = "2s",
              min = "20ms",
              max = "10m",
              restart = true)
          Duration staleAfter,
      @Setting(
              doc = "Time between two health checks of a worker.",
              fallback = "1s",
              min = "50ms",
              max = "10m",
              restart = true)
          Duration healthInterval,
      @Setting(
              doc =
                  "Time to first token that counts as good; requests predicted beyond it are"
                      + " counted.",
              fallback = "2s",
              min = "1ms",
              max = "10m")
          Duration targetTtft) {}

  /**
   * Tokenizers.
   *
   * @param root folder against which relative tokenizer folders are read
   * @param threads threads that encode prompts, 0 for one per core
   */
  public record Tokenizers(
      @Setting(
              doc =
                  "Folder against which relative `tokenizer` and `chatTemplate` paths of pools"
                      + " are read; itself relative to the folder of this file.",
              fallback = ".")
          Path root,
      @Setting(
              doc = "Threads that encode prompts; 0 takes one per core.",
              fallback = "0",
              min = "0",
              max = "256",
              restart = true)
          int threads) {}

  /**
   * Logging.
   *
   * @param level for every logger without a level of its own
   * @param levels logger name to level
   * @param repeatPeriod at most one line per cause in this time
   */
  public record Logging(
      @Setting(doc = "Level of every logger that is not listed in `levels`.", fallback = "INFO")
          LogLevel level,
      @Setting(
              doc = "Level by logger name, such as `io.kvoy.server.config: DEBUG`.",
              unset = "none",
              form = TextForm.LOGGER_NAME)
          Map<String, LogLevel> levels,
      @Setting(
              doc =
                  "A failure that repeats is logged once per cause in this time, with the number of"
                      + " times it was seen.",
              fallback = "1m",
              min = "1s",
              max = "1h",
              restart = true)
          Duration repeatPeriod) {

    public Logging {
      levels = Collections.unmodifiableMap(new LinkedHashMap<>(levels));
    }
  }

  /**
   * The way back: what happened to a request.
   *
   * @param responseHeaders whether the caller sees the decision headers
   * @param decisionRecords decisions kept for the debug pages
   */
  public record Feedback(
      @Setting(
              doc =
                  "Add `x-kvoy-decision-id`, `x-kvoy-target`, `x-kvoy-policy` and"
                      + " `x-kvoy-degraded` to responses. They name workers, so they are off"
                      + " unless wanted.",
              fallback = "false")
          boolean responseHeaders,
      @Setting(
              doc = "Newest decisions kept in memory for `/debug/decisions`; 0 keeps none.",
              fallback = "4096",
              min = "0",
              max = "1000000",
              restart = true)
          int decisionRecords) {}
}
