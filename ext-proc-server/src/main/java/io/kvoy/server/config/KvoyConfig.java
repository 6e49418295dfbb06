// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.ExtProcTls;
import io.kvoy.envoy.FallbackPolicy;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.scoring.fleet.Endpoint;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/**
 * The document of kind {@code KvoyConfig}: how this server process behaves. At most one stands in a
 * file; without it every field has its default, as {@link #allDefaults()} returns.
 *
 * @param name {@code metadata.name}, for people only
 */
public record KvoyConfig(
    String name,
    @Setting(doc = "Where the server listens.", restart = true) Listen listen,
    @Setting(
            doc =
                "TLS of the ext_proc and xDS doors. An empty mapping takes a self-signed"
                    + " certificate.",
            unset = "plaintext",
            restart = true)
        Optional<Tls> tls,
    @Setting(doc = "What Envoys get over xDS, when `listen.xds` is a port.") Envoy envoy,
    @Setting(doc = "Bounds on what strangers may send.") Limits limits,
    @Setting(doc = "How long the server waits.") Timeouts timeouts,
    @Setting(doc = "Values for pools that do not set their own.") PoolDefaults defaults,
    @Setting(doc = "Tokenizers shared by all pools.") Tokenizers tokenizers,
    @Setting(doc = "Comparing token ids with those of the workers, on live traffic.") Parity parity,
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
              doc =
                  "xDS (gRPC): configures Envoys that were started with `kvoyctl envoy bootstrap"
                      + " --xds`, as section `envoy` says. 9004 by convention.",
              fallback = "off",
              restart = true)
          ListenAddress xds,
      @Setting(
              doc =
                  "Access log reports (OTLP over gRPC) of answers that Envoy does not bring through"
                      + " ext_proc, see docs/envoy.md.",
              fallback = "9005",
              restart = true)
          ListenAddress reports,
      @Setting(
              doc =
                  "Inference handler (gRPC) for gateways that do not speak ext_proc, see"
                      + " docs/handler.md.",
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
   * The certificate to show.
   *
   * @param certificateFolder folder with {@code tls.crt} and {@code tls.key}
   * @param checkFiles between two looks at them
   */
  public record Tls(
      @Setting(
              doc =
                  "Folder with `tls.crt` and `tls.key` in PEM, relative to the folder of this file,"
                      + " such as a mounted Kubernetes secret. Changed files are used for new"
                      + " connections; open ones go on.",
              unset = "a self-signed certificate, made anew at each start",
              restart = true)
          Optional<Path> certificateFolder,
      @Setting(
              doc = "Time between two looks at the files.",
              fallback = "10s",
              min = "50ms",
              max = "1m",
              restart = true)
          Duration checkFiles) {}

  /**
   * The options of Envoys that are configured over xDS; those of {@link EnvoyBootstrap}.
   *
   * @param listen where clients connect
   * @param extProc where Envoys find the ext_proc door; {@code listen.extProc} when empty
   * @param reports where Envoys find the door for reports; {@code listen.reports} when empty
   * @param plainListen a second door past Kvoy
   * @param requestBody how request bodies reach Kvoy
   * @param answers how Kvoy learns what became of a request
   * @param fallback how Envoy chooses without Kvoy
   * @param failOpen serve by the fallback while Kvoy is down
   * @param checkWorkerHealth Envoy probes workers itself
   * @param trustIdentityHeaders a proxy in front has checked the caller
   * @param idleTimeout ends a request on which nothing moves
   * @param firstTokenNotice longest wait for the report of a first token
   * @param reportUsage reports hold token usage
   * @param accessLog file for one line per request, on Envoy's machine
   * @param extProcTls TLS to the ext_proc door
   */
  public record Envoy(
      @Setting(
              doc = "Where clients connect, on Envoy's machine; an IP address.",
              fallback = "127.0.0.1:8080")
          Endpoint listen,
      @Setting(
              doc =
                  "Where Envoys find the ext_proc door: an address, or a name that they resolve."
                      + " Needed when that door listens on all interfaces.",
              unset = "the address of `listen.extProc`")
          Optional<Endpoint> extProc,
      @Setting(
              doc = "Where Envoys find the door for reports, with `answers: REPORTED`.",
              unset = "the address of `listen.reports`")
          Optional<Endpoint> reports,
      @Setting(
              doc = "A second door to the same workers, by round robin past Kvoy, to compare with.",
              unset = "no such door")
          Optional<Endpoint> plainListen,
      @Setting(doc = "How request bodies reach Kvoy, see docs/envoy.md.", fallback = "BUFFERED")
          RequestBodyMode requestBody,
      @Setting(
              doc = "How Kvoy learns what became of a request, see docs/envoy.md.",
              fallback = "STREAMED")
          ResponseBodyMode answers,
      @Setting(doc = "How Envoy chooses a worker without Kvoy.", fallback = "LEAST_REQUEST")
          FallbackPolicy fallback,
      @Setting(doc = "Serve by `fallback` while Kvoy is down; otherwise 503.", fallback = "true")
          boolean failOpen,
      @Setting(
              doc =
                  "Let Envoy probe `GET /health` of each worker too, for the time when Kvoy is"
                      + " down.",
              fallback = "false")
          boolean checkWorkerHealth,
      @Setting(
              doc =
                  "Believe headers that say who asks: only behind a proxy that has checked the"
                      + " caller and writes them itself.",
              fallback = "false")
          boolean trustIdentityHeaders,
      @Setting(
              doc =
                  "Ends a request on which nothing moves for so long; more than the longest wait"
                      + " for a first token.",
              fallback = "10m",
              min = "1s",
              max = "1d")
          Duration idleTimeout,
      @Setting(
              doc = "Longest wait until Envoy reports a first token, with `answers: REPORTED`.",
              fallback = "200ms",
              min = "10ms",
              max = "1m")
          Duration firstTokenNotice,
      @Setting(
              doc =
                  "Reports hold token usage, for which Envoy reads every event of a stream, with"
                      + " `answers: REPORTED`.",
              fallback = "true")
          boolean reportUsage,
      @Setting(
              doc = "File for one JSON line per request, on Envoy's machine: `/dev/stdout`.",
              unset = "no access log")
          Optional<String> accessLog,
      @Setting(doc = "TLS from Envoy to the ext_proc door.", unset = "plaintext")
          Optional<EnvoyTls> extProcTls) {

    /** More than {@code limits.maxRequestBody}, so that Kvoy refuses a larger body first. */
    private static final int BUFFER_BEYOND_LIMIT_BYTES = 512 << 10;

    /**
     * The options of an Envoy.
     *
     * @throws IllegalArgumentException when they do not fit together; the message names the field
     */
    public EnvoyBootstrap options(Listen doors, Optional<Tls> tls, Limits limits) {
      if (tls.isPresent() && extProcTls.isEmpty()) {
        throw new IllegalArgumentException(
            "the ext_proc door speaks TLS; write envoy.extProcTls, so that Envoys do too");
      }
      EnvoyBootstrap.Builder options =
          EnvoyBootstrap.builder()
              .listen(listen)
              .extProc(extProc.orElseGet(() -> reachable("extProc", doors.extProc())))
              .requestBody(requestBody)
              .responseBody(answers)
              .fallback(fallback)
              .failOpen(failOpen)
              .checkWorkerHealth(checkWorkerHealth)
              .trustIdentityHeaders(trustIdentityHeaders)
              .idleTimeout(idleTimeout)
              .firstTokenNotice(firstTokenNotice)
              .reportUsage(reportUsage)
              .bufferedBodyLimitBytes(
                  (int)
                      Math.min(
                          Integer.MAX_VALUE,
                          limits.maxRequestBody().bytes() + BUFFER_BEYOND_LIMIT_BYTES));
      if (answers == ResponseBodyMode.REPORTED) {
        options.reports(reports.orElseGet(() -> reachable("reports", doors.reports())));
      }
      plainListen.ifPresent(options::plainListen);
      accessLog.ifPresent(options::accessLogPath);
      extProcTls.ifPresent(to -> options.extProcTls(new ExtProcTls(to.caFile(), to.serverName())));
      return options.buildForXds();
    }

    private static Endpoint reachable(String door, ListenAddress address) {
      if (address instanceof ListenAddress.Tcp(String host, int port)
          && port > 0
          && !host.equals("0.0.0.0")
          && !host.equals("::")) {
        return new Endpoint(host, port);
      }
      throw new IllegalArgumentException(
          "listen." + door + " (" + address + ") is no address to connect to; write envoy." + door);
    }
  }

  /**
   * How Envoy verifies Kvoy's certificate.
   *
   * @param caFile PEM file on Envoy's machine
   * @param serverName required as DNS name in the certificate
   */
  public record EnvoyTls(
      @Setting(
              doc = "PEM file with the authorities to believe, on Envoy's machine.",
              required = true)
          String caFile,
      @Setting(
              doc = "Sent as SNI, and required as DNS name in the certificate.",
              required = true,
              form = TextForm.HOST)
          String serverName) {}

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
   * @param checkFiles between two looks at the files of a loaded tokenizer
   * @param memory bytes of each tokenizer for earlier text, as many for conversations, and once for
   *     request bodies
   * @param hub where tokenizers are fetched from
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
          int threads,
      @Setting(
              doc =
                  "Time between two looks at the files of a loaded tokenizer; changed ones are"
                      + " taken over without a pause.",
              fallback = "30s",
              min = "100ms",
              max = "1h",
              restart = true)
          Duration checkFiles,
      @Setting(
              doc =
                  "Memory of each loaded tokenizer for text that came before, as much again for"
                      + " conversations, and once for request bodies: the next turn of a"
                      + " conversation costs little more than what is new in it."
                      + " 64MiB hold some 80 conversations of 32,000 tokens; 0 remembers nothing.",
              fallback = "64MiB",
              min = "0B",
              max = "64GiB",
              restart = true)
          DataSize memory,
      @Setting(doc = "The HuggingFace hub of pools with `tokenizerHub`.") Hub hub) {}

  /**
   * A HuggingFace hub. The token is read anew for every download and never logged.
   *
   * @param url base address
   * @param cache folder for what was fetched, laid out as the hub's own clients do it
   * @param tokenFile file with the access token
   * @param tokenVariable environment variable with the access token
   * @param timeout longest wait for an answer's head, and for any silence in its body
   * @param refresh between two looks at a branch or tag
   */
  public record Hub(
      @Setting(
              doc = "Base address of the hub or of a mirror of it.",
              fallback = "https://huggingface.co",
              form = TextForm.HTTP_URL,
              restart = true)
          String url,
      @Setting(
              doc =
                  "Folder for fetched files, relative to the folder of this file. The layout is"
                      + " that of the hub's own clients (`models--owner--name/snapshots/commit`),"
                      + " so a folder that one of them has filled serves without a hub.",
              fallback = "kvoy-hub",
              restart = true)
          Path cache,
      @Setting(
              doc =
                  "File with the access token, for repositories that need one; read anew for every"
                      + " download.",
              unset = "the variable named by `tokenVariable` is looked at",
              restart = true)
          Optional<Path> tokenFile,
      @Setting(
              doc = "Environment variable with the access token.",
              fallback = "HF_TOKEN",
              form = TextForm.ENVIRONMENT_NAME,
              restart = true)
          String tokenVariable,
      @Setting(
              doc = "Longest wait for the head of an answer, and for any silence in its body.",
              fallback = "30s",
              min = "100ms",
              max = "10m",
              restart = true)
          Duration timeout,
      @Setting(
              doc =
                  "Time between two looks at whether a branch or tag has moved. A look that fails"
                      + " changes nothing.",
              fallback = "1h",
              min = "1s",
              max = "30d",
              restart = true)
          Duration refresh) {}

  /**
   * Live parity.
   *
   * @param samplesPerMinute comparisons per pool
   * @param maxBody largest request body that is compared
   * @param timeout longest wait for the worker's answer
   * @param threshold differences in a row that take a pool's tokenizer out of service, and
   *     agreements in a row that bring it back
   */
  public record Parity(
      @Setting(
              doc =
                  "Routed requests per minute and pool whose token ids are compared with those of"
                      + " the worker that got the request; 0 compares none. While a difference is"
                      + " under suspicion up to one a second.",
              fallback = "6",
              min = "0",
              max = "6000")
          int samplesPerMinute,
      @Setting(
              doc = "Larger request bodies are not compared.",
              fallback = "256KiB",
              min = "1KiB",
              max = "64MiB")
          DataSize maxBody,
      @Setting(
              doc = "Longest wait for the worker's answer.",
              fallback = "5s",
              min = "10ms",
              max = "1m")
          Duration timeout,
      @Setting(
              doc =
                  "Differences in a row after which the pool is routed by load, and agreements in a"
                      + " row after which its tokens count again.",
              fallback = "3",
              min = "1",
              max = "100")
          int threshold) {}

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
