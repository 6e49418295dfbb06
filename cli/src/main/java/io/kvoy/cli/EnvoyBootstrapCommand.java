// SPDX-License-Identifier: Apache-2.0
package io.kvoy.cli;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/** {@code kvoyctl envoy bootstrap}: a whole static Envoy configuration around Kvoy. */
@Command(
    name = "bootstrap",
    mixinStandardHelpOptions = true,
    versionProvider = Kvoyctl.Version.class,
    sortOptions = false,
    description = "Prints a complete static configuration for one Envoy, see docs/envoy.md.")
final class EnvoyBootstrapCommand implements Callable<Integer> {

  /** Words of {@code --request-body}. */
  enum RequestBody {
    FULL_DUPLEX("full-duplex", RequestBodyMode.FULL_DUPLEX_STREAMED),
    BUFFERED("buffered", RequestBodyMode.BUFFERED);

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
      names = "--workers",
      required = true,
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
      description = "Answer 500 while Kvoy is down. Without it Envoy then chooses by itself.")
  private boolean failClosed;

  @Option(
      names = "--request-body",
      paramLabel = "MODE",
      converter = RequestBodyConverter.class,
      description =
          "How request bodies reach Kvoy: ${COMPLETION-CANDIDATES}. Default: ${DEFAULT-VALUE}.")
  private RequestBody requestBody = RequestBody.FULL_DUPLEX;

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
    EnvoyBootstrap bootstrap = bootstrap();
    String text =
        switch (format) {
          case YAML -> bootstrap.toYaml();
          case JSON -> bootstrap.toJson();
        };
    streams.out().write(text.getBytes(StandardCharsets.UTF_8));
    streams.out().flush();
    return Kvoyctl.ANSWERED;
  }

  private EnvoyBootstrap bootstrap() {
    EnvoyBootstrap.Builder builder =
        EnvoyBootstrap.builder()
            .workers(workers)
            .listen(listen)
            .extProc(extProc)
            .admin(admin)
            .failOpen(!failClosed)
            .requestBody(requestBody.mode);
    if (plainListen != null) {
      builder.plainListen(plainListen);
    }
    try {
      return builder.build();
    } catch (IllegalArgumentException wrong) {
      throw new ParameterException(spec.commandLine(), String.valueOf(wrong.getMessage()), wrong);
    }
  }
}
