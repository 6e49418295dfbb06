// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.ExtProcTls;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import io.kvoy.envoy.XdsBootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/**
 * {@code kvoyctl envoy bootstrap}: a whole static Envoy configuration around Kvoy, or the little
 * that an Envoy needs to get all of it from Kvoy over xDS.
 */
@Command(
    name = "bootstrap",
    mixinStandardHelpOptions = true,
    versionProvider = Kvoyctl.Version.class,
    sortOptions = false,
    description =
        "Prints a configuration for one Envoy, see docs/envoy.md: a complete one with --workers, or"
            + " one that lets Envoy get everything from Kvoy with --xds.")
final class EnvoyBootstrapCommand implements Callable<Integer> {

  /** Words of {@code --request-body}. */
  enum RequestBody {
    BUFFERED("buffered", RequestBodyMode.BUFFERED),
    FULL_DUPLEX("full-duplex", RequestBodyMode.FULL_DUPLEX_STREAMED);

    private final String word;
    private final RequestBodyMode mode;

    RequestBody(String word, RequestBodyMode mode) {
      this.word = word;
      this.mode = mode;
    }

    @Override
    public String toString() {
      return word;
    }
  }

  /** Words of {@code --answers}. */
  enum Answers {
    IN_LINE("in-line", ResponseBodyMode.STREAMED),
    COPIED("copied", ResponseBodyMode.COPIED),
    REPORTED("reported", ResponseBodyMode.REPORTED),
    NONE("none", ResponseBodyMode.NONE);

    private final String word;
    private final ResponseBodyMode mode;

    Answers(String word, ResponseBodyMode mode) {
      this.word = word;
      this.mode = mode;
    }

    @Override
    public String toString() {
      return word;
    }
  }

  /** Words of {@code --xds-protocol}. */
  enum Protocol {
    DELTA("delta", XdsBootstrap.Protocol.DELTA),
    STATE_OF_THE_WORLD("state-of-the-world", XdsBootstrap.Protocol.STATE_OF_THE_WORLD);

    private final String word;
    private final XdsBootstrap.Protocol protocol;

    Protocol(String word, XdsBootstrap.Protocol protocol) {
      this.word = word;
      this.protocol = protocol;
    }

    @Override
    public String toString() {
      return word;
    }
  }

  /** Words of {@code --format}. */
  enum Format {
    YAML("yaml"),
    JSON("json");

    private final String word;

    Format(String word) {
      this.word = word;
    }

    @Override
    public String toString() {
      return word;
    }
  }

  /** Takes the words alone; picocli's own converter takes and offers constant names besides. */
  static final class RequestBodyConverter implements ITypeConverter<RequestBody> {
    @Override
    public RequestBody convert(String text) {
      return choose(RequestBody.values(), text);
    }
  }

  /** The same for {@code --answers}. */
  static final class AnswersConverter implements ITypeConverter<Answers> {
    @Override
    public Answers convert(String text) {
      return choose(Answers.values(), text);
    }
  }

  /** The same for {@code --xds-protocol}. */
  static final class ProtocolConverter implements ITypeConverter<Protocol> {
    @Override
    public Protocol convert(String text) {
      return choose(Protocol.values(), text);
    }
  }

  /** The same for {@code --format}. */
  static final class FormatConverter implements ITypeConverter<Format> {
    @Override
    public Format convert(String text) {
      return choose(Format.values(), text);
    }
  }

  private static <T> T choose(T[] values, String text) {
    List<String> words = new ArrayList<>();
    for (T value : values) {
      words.add(value.toString());
      if (value.toString().equals(text)) {
        return value;
      }
    }
    throw new TypeConversionException("'" + text + "' is none of " + String.join(", ", words));
  }

  /** {@code host:port} or {@code [v6]:port}. */
  static final class EndpointConverter implements ITypeConverter<Endpoint> {
    @Override
    public Endpoint convert(String text) {
      Endpoint endpoint = Endpoint.parse(text);
      if (endpoint == null) {
        throw new TypeConversionException(
            "'" + text + "' is not host:port or [v6]:port with a port from 1 to 65535");
      }
      return endpoint;
    }
  }

  @Option(
      names = "--xds",
      paramLabel = "HOST:PORT",
      converter = EndpointConverter.class,
      description =
          "Where Kvoy listens for xDS (listen.xds in kvoy.yaml). Listeners, workers and all other"
              + " options come from there, section envoy of KvoyConfig.")
  private @Nullable Endpoint xds;

  @Option(
      names = "--xds-protocol",
      paramLabel = "PROTOCOL",
      converter = ProtocolConverter.class,
      description =
          "With --xds, how changes are told: ${COMPLETION-CANDIDATES}. Default: ${DEFAULT-VALUE}.")
  private Protocol protocol = Protocol.DELTA;

  @Option(
      names = "--node-id",
      paramLabel = "NAME",
      description =
          "With --xds, what Kvoy shows this Envoy as in /debug/xds. Default: ${DEFAULT-VALUE}.")
  private String nodeId = "envoy";

  @Option(
      names = "--workers",
      split = ",",
      paramLabel = "IP:PORT",
      converter = EndpointConverter.class,
      description = "The workers, separated by commas or by repeating the option.")
  private List<Endpoint> workers = List.of();

  @Option(
      names = "--listen",
      paramLabel = "IP:PORT",
      converter = EndpointConverter.class,
      description = "Where clients connect. Default: ${DEFAULT-VALUE}.")
  private Endpoint listen = new Endpoint("127.0.0.1", 8080);

  @Option(
      names = "--ext-proc",
      paramLabel = "HOST:PORT",
      converter = EndpointConverter.class,
      description = "Where Kvoy listens for Envoy. Default: ${DEFAULT-VALUE}.")
  private Endpoint extProc = new Endpoint("127.0.0.1", 9002);

  @Option(
      names = "--admin",
      paramLabel = "IP:PORT",
      converter = EndpointConverter.class,
      description =
          "Envoy's admin page, which can stop the proxy: keep it on loopback. Default:"
              + " ${DEFAULT-VALUE}.")
  private Endpoint admin = new Endpoint("127.0.0.1", 9901);

  @Option(
      names = "--plain-listen",
      paramLabel = "IP:PORT",
      converter = EndpointConverter.class,
      description = "A second door to the same workers, by round robin past Kvoy, to compare with.")
  private @Nullable Endpoint plainListen;

  @Option(
      names = "--fail-closed",
      description = "Answer 503 while Kvoy is down. Without it Envoy then chooses by itself.")
  private boolean failClosed;

  @Option(
      names = "--request-body",
      paramLabel = "MODE",
      converter = RequestBodyConverter.class,
      description =
          "How request bodies reach Kvoy: ${COMPLETION-CANDIDATES}. Default: ${DEFAULT-VALUE}.")
  private RequestBody requestBody = RequestBody.BUFFERED;

  @Option(
      names = "--answers",
      paramLabel = "WAY",
      converter = AnswersConverter.class,
      description =
          "How Kvoy learns what became of a request: ${COMPLETION-CANDIDATES}. Default:"
              + " ${DEFAULT-VALUE}.")
  private Answers answers = Answers.IN_LINE;

  @Option(
      names = "--reports",
      paramLabel = "HOST:PORT",
      converter = EndpointConverter.class,
      description =
          "Where Kvoy listens for reports, with --answers reported. Default: ${DEFAULT-VALUE}.")
  private Endpoint reports = new Endpoint("127.0.0.1", 9005);

  @Option(
      names = "--tls-ca",
      paramLabel = "FILE",
      description =
          "PEM file, on Envoy's machine, with the authorities that Kvoy's certificate is verified"
              + " with. Without it Envoy speaks plaintext to Kvoy.")
  private @Nullable String tlsCa;

  @Option(
      names = "--tls-server-name",
      paramLabel = "NAME",
      description = "With --tls-ca, the name in Kvoy's certificate. Default: ${DEFAULT-VALUE}.")
  private String tlsServerName = "kvoy";

  @Option(
      names = "--format",
      paramLabel = "FORMAT",
      converter = FormatConverter.class,
      description = "${COMPLETION-CANDIDATES}. Default: ${DEFAULT-VALUE}.")
  private Format format = Format.YAML;

  @Spec private CommandSpec spec = CommandSpec.create();

  private final Streams streams;

  EnvoyBootstrapCommand(Streams streams) {
    this.streams = streams;
  }

  @Override
  public Integer call() throws IOException {
    String text = xds == null ? whole() : pointingAt(xds);
    streams.out().write(text.getBytes(StandardCharsets.UTF_8));
    streams.out().flush();
    return Kvoyctl.ANSWERED;
  }

  /** Options that come over xDS and would be written here in vain. */
  private static final List<String> SERVED =
      List.of(
          "--workers",
          "--listen",
          "--ext-proc",
          "--plain-listen",
          "--fail-closed",
          "--request-body",
          "--answers",
          "--reports");

  private String pointingAt(Endpoint kvoy) {
    for (String option : SERVED) {
      if (spec.commandLine().getParseResult().hasMatchedOption(option)) {
        throw new ParameterException(
            spec.commandLine(),
            option
                + " does not go with --xds: such an Envoy gets it from Kvoy; set it in section"
                + " envoy of KvoyConfig");
      }
    }
    try {
      XdsBootstrap bootstrap = new XdsBootstrap(admin, kvoy, nodeId, protocol.protocol, tls());
      return switch (format) {
        case YAML -> bootstrap.toYaml();
        case JSON -> bootstrap.toJson();
      };
    } catch (IllegalArgumentException wrong) {
      throw new ParameterException(spec.commandLine(), String.valueOf(wrong.getMessage()), wrong);
    }
  }

  private Optional<ExtProcTls> tls() {
    return tlsCa == null ? Optional.empty() : Optional.of(new ExtProcTls(tlsCa, tlsServerName));
  }

  private String whole() {
    if (workers.isEmpty()) {
      throw new ParameterException(
          spec.commandLine(), "Missing option: '--workers=IP:PORT' or '--xds=HOST:PORT'");
    }
    EnvoyBootstrap bootstrap = bootstrap();
    return switch (format) {
      case YAML -> bootstrap.toYaml();
      case JSON -> bootstrap.toJson();
    };
  }

  private EnvoyBootstrap bootstrap() {
    EnvoyBootstrap.Builder builder =
        EnvoyBootstrap.builder()
            .workers(workers)
            .listen(listen)
            .extProc(extProc)
            .admin(admin)
            .failOpen(!failClosed)
            .requestBody(requestBody.mode)
            .responseBody(answers.mode)
            .reports(reports);
    if (plainListen != null) {
      builder.plainListen(plainListen);
    }
    try {
      tls().ifPresent(builder::extProcTls);
      return builder.build();
    } catch (IllegalArgumentException wrong) {
      throw new ParameterException(spec.commandLine(), String.valueOf(wrong.getMessage()), wrong);
    }
  }
}
