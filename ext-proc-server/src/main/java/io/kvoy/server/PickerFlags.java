// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.server.config.KvoyConfig;
import io.kvoy.server.config.ListenAddress;
import io.kvoy.server.config.LogLevel;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParseResult;
import picocli.CommandLine.TypeConversionException;

/**
 * The flags that gateways' charts pass to an endpoint picker's container, names and defaults as in
 * {@code pkg/epp/server/options.go} of llm-d-router 0.9 and gateway-api-inference-extension 1.5.
 *
 * <p>With any of the first group the server starts as such a container: on all interfaces, and with
 * TLS unless told otherwise. A flag wins over the file, also over a file that is read again.
 */
final class PickerFlags {
  /** Verbosity of the pickers' logs from which they tell of each request. */
  private static final int DEBUG_VERBOSITY = 4;

  private static final int TRACE_VERBOSITY = 5;

  /**
   * A flag that is taken and does nothing.
   *
   * @param takesValue whether a value follows; otherwise it is a truth value, possibly left out
   * @param why what the person who set it should know
   */
  record Ignored(String name, boolean takesValue, String why) {}

  private static final String FROM_KUBERNETES =
      "workers come from ModelPool documents; this version does not ask Kubernetes";
  private static final String FIXED_METRIC = "vLLM's metric names are built in";

  /** Every flag without effect, by name. */
  static final List<Ignored> IGNORED =
      List.of(
          new Ignored("--pool-namespace", true, FROM_KUBERNETES),
          new Ignored("--pool-group", true, FROM_KUBERNETES),
          new Ignored("--endpoint-selector", true, FROM_KUBERNETES),
          new Ignored("--endpoint-target-ports", true, FROM_KUBERNETES),
          new Ignored("--kubeconfig", true, FROM_KUBERNETES),
          new Ignored("--config-text", true, "write a kvoy.yaml and pass it with --config"),
          new Ignored(
              "--disable-endpoint-subset-filter", false, "a gateway's subset is always respected"),
          new Ignored(
              "--ha-enable-leader-election", false, "every replica serves; none waits for a lease"),
          new Ignored("--enable-cert-reload", false, "changed certificate files are always taken"),
          new Ignored(
              "--metrics-endpoint-auth",
              false,
              "the metrics port asks nobody who they are: guard it with a network policy"),
          new Ignored("--metrics-cert-dir", true, "the metrics port is plain HTTP"),
          new Ignored("--metrics-client-ca-file", true, "the metrics port is plain HTTP"),
          new Ignored("--enable-pprof", false, "there is no pprof; see /debug on the metrics port"),
          new Ignored("--enable-grpc-stream-metrics", false, "stream metrics are always there"),
          new Ignored("--health-checking", false, "health is always served"),
          new Ignored("--tracing", false, "no traces are emitted by this version"),
          new Ignored("--zap-encoder", true, "logs are one JSON object per line"),
          new Ignored("--zap-devel", false, "logs are one JSON object per line"),
          new Ignored("--zap-log-level", true, "set logging.level, or --v"),
          new Ignored("--zap-stacktrace-level", true, "logs are one JSON object per line"),
          new Ignored("--zap-time-encoding", true, "logs are one JSON object per line"),
          new Ignored("--grpc-max-recv-msg-size", true, "set limits.maxRequestBody"),
          new Ignored("--grpc-max-send-msg-size", true, "answers are sent in pieces"),
          new Ignored(
              "--refresh-metrics-interval", true, "set defaults.scrapeInterval in KvoyConfig"),
          new Ignored(
              "--refresh-prometheus-metrics-interval", true, "metrics are current when read"),
          new Ignored(
              "--metrics-staleness-threshold", true, "set defaults.staleAfter in KvoyConfig"),
          new Ignored("--total-queued-requests-metric", true, FIXED_METRIC),
          new Ignored("--total-running-requests-metric", true, FIXED_METRIC),
          new Ignored("--kv-cache-usage-percentage-metric", true, FIXED_METRIC),
          new Ignored("--lora-info-metric", true, FIXED_METRIC),
          new Ignored("--cache-info-metric", true, FIXED_METRIC),
          new Ignored("--model-server-metrics-port", true, "metrics are read where requests go"),
          new Ignored("--model-server-metrics-path", true, "metrics are read at /metrics"),
          new Ignored("--model-server-metrics-scheme", true, "metrics are read over http"),
          new Ignored(
              "--model-server-metrics-https-insecure-skip-verify",
              false,
              "metrics are read over http"),
          new Ignored("--emit-endpoint-scores", false, "see /debug/decisions"),
          new Ignored("--allow-experimental-plugins", false, "there are no plugins"));

  /** Truth values as Go writes them. */
  static final class BooleanConverter implements ITypeConverter<Boolean> {
    @Override
    public Boolean convert(String text) {
      return switch (text) {
        case "1", "t", "T", "true", "TRUE", "True" -> true;
        case "0", "f", "F", "false", "FALSE", "False" -> false;
        default -> throw new TypeConversionException("'" + text + "' is neither true nor false");
      };
    }
  }

  /** Durations as Go writes them: {@code 30s}, {@code 1m30s}. */
  static final class DurationConverter implements ITypeConverter<Duration> {
    private static final Pattern WHOLE =
        Pattern.compile("(?:[0-9]{1,9}(?:\\.[0-9]{1,9})?(?:ns|us|µs|ms|s|m|h))+");
    private static final Pattern PART =
        Pattern.compile("([0-9]{1,9}(?:\\.[0-9]{1,9})?)(ns|us|µs|ms|s|m|h)");

    @Override
    public Duration convert(String text) {
      if (text.equals("0")) {
        return Duration.ZERO;
      }
      if (text.length() > 64 || !WHOLE.matcher(text).matches()) {
        throw new TypeConversionException("'" + text + "' is no duration such as 30s or 1m30s");
      }
      double nanos = 0;
      Matcher part = PART.matcher(text);
      while (part.find()) {
        nanos += Double.parseDouble(part.group(1)) * unitNanos(part.group(2));
      }
      return Duration.ofNanos(Math.round(nanos));
    }

    private static double unitNanos(String unit) {
      return switch (unit) {
        case "h" -> 3_600e9;
        case "m" -> 60e9;
        case "s" -> 1e9;
        case "ms" -> 1e6;
        case "us", "µs" -> 1e3;
        default -> 1;
      };
    }
  }

  @Option(
      names = "--pool-name",
      paramLabel = "NAME",
      description =
          "Name of the InferencePool that the gateway sends here. Starts the server as an endpoint"
              + " picker container: on all interfaces, with TLS.")
  private @Nullable String poolName;

  @Option(
      names = "--grpc-port",
      paramLabel = "PORT",
      description = "Port of ext_proc, in place of listen.extProc.")
  private @Nullable Integer grpcPort;

  @Option(
      names = "--grpc-health-port",
      paramLabel = "PORT",
      description = "Port of gRPC health, in place of listen.health.")
  private @Nullable Integer grpcHealthPort;

  @Option(
      names = "--metrics-port",
      paramLabel = "PORT",
      description = "Port of metrics and debug pages, in place of listen.admin.")
  private @Nullable Integer metricsPort;

  @Option(
      names = "--secure-serving",
      arity = "0..1",
      fallbackValue = "true",
      paramLabel = "BOOL",
      converter = BooleanConverter.class,
      description = "TLS of ext_proc, true unless set, in place of section tls.")
  private @Nullable Boolean secureServing;

  @Option(
      names = "--cert-path",
      paramLabel = "DIR",
      description =
          "Folder with tls.crt and tls.key, in place of tls.certificateFolder; a self-signed"
              + " certificate without it.")
  private @Nullable Path certPath;

  @Option(
      names = "--drain-timeout",
      paramLabel = "DURATION",
      converter = DurationConverter.class,
      description = "Longest wait for running streams at the end, in place of timeouts.drain.")
  private @Nullable Duration drainTimeout;

  @Option(
      names = {"--v", "-v"},
      paramLabel = "LEVEL",
      description = "Verbosity: 4 is DEBUG, 5 is TRACE, in place of logging.level.")
  private @Nullable Integer verbosity;

  @Option(
      names = "--config-file",
      paramLabel = "FILE",
      description =
          "Like --config when that is not given and FILE holds documents of Kvoy; an"
              + " EndpointPickerConfig is not read.")
  private @Nullable Path configFile;

  /** Adds the flags without effect to the command's, so that they are recognised. */
  static void addIgnored(CommandSpec command) {
    for (Ignored flag : IGNORED) {
      command.addOption(
          OptionSpec.builder(flag.name())
              .arity(flag.takesValue() ? "1" : "0..1")
              .fallbackValue("true")
              .type(String.class)
              .hidden(true)
              .build());
    }
  }

  /** One line for each flag on the command line that does nothing. */
  static List<String> warnings(ParseResult given) {
    List<String> lines = new ArrayList<>();
    for (Ignored flag : IGNORED) {
      if (given.hasMatchedOption(flag.name())) {
        lines.add("flag " + flag.name() + " has no effect: " + flag.why());
      }
    }
    return lines;
  }

  Optional<Path> configFile() {
    return Optional.ofNullable(configFile);
  }

  /** Whether the server is started the way that gateways' charts start an endpoint picker. */
  boolean isPicker() {
    return poolName != null
        || grpcPort != null
        || grpcHealthPort != null
        || secureServing != null
        || certPath != null;
  }

  /** The configuration with the flags in it. */
  KvoyConfig over(KvoyConfig file) {
    KvoyConfig.Listen listen = file.listen();
    KvoyConfig.Timeouts timeouts = file.timeouts();
    KvoyConfig.Logging logging = file.logging();
    return new KvoyConfig(
        file.name(),
        new KvoyConfig.Listen(
            listen.address(),
            door(listen.extProc(), grpcPort),
            door(listen.health(), grpcHealthPort),
            door(listen.admin(), metricsPort),
            listen.xds(),
            listen.reports(),
            listen.inferenceHandler()),
        tls(file.tls()),
        file.envoy(),
        file.limits(),
        drainTimeout == null
            ? timeouts
            : new KvoyConfig.Timeouts(
                timeouts.bodyWait(),
                timeouts.decision(),
                timeouts.inFlightExpiry(),
                timeouts.scrape(),
                drainTimeout),
        file.defaults(),
        file.tokenizers(),
        file.parity(),
        verbosity == null
            ? logging
            : new KvoyConfig.Logging(level(verbosity), logging.levels(), logging.repeatPeriod()),
        file.feedback());
  }

  private ListenAddress door(ListenAddress inFile, @Nullable Integer port) {
    if (inFile instanceof ListenAddress.Tcp tcp) {
      // A probe and a gateway come from other machines.
      String host = isPicker() && tcp.host().equals("127.0.0.1") ? "0.0.0.0" : tcp.host();
      return new ListenAddress.Tcp(host, port == null ? tcp.port() : port);
    }
    return port == null ? inFile : new ListenAddress.Tcp("0.0.0.0", port);
  }

  private Optional<KvoyConfig.Tls> tls(Optional<KvoyConfig.Tls> inFile) {
    if (secureServing == null ? !isPicker() : !secureServing) {
      return secureServing == null ? inFile : Optional.empty();
    }
    Duration checkFiles = inFile.map(KvoyConfig.Tls::checkFiles).orElse(Duration.ofSeconds(10));
    return Optional.of(
        new KvoyConfig.Tls(
            Optional.ofNullable(certPath)
                .map(Path::toAbsolutePath)
                .or(() -> inFile.flatMap(KvoyConfig.Tls::certificateFolder)),
            checkFiles));
  }

  private static LogLevel level(int verbosity) {
    return verbosity >= TRACE_VERBOSITY
        ? LogLevel.TRACE
        : verbosity >= DEBUG_VERBOSITY ? LogLevel.DEBUG : LogLevel.INFO;
  }
}
