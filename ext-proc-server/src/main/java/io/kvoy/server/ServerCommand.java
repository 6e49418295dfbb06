// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.server.config.ConfigLoader;
import io.kvoy.server.config.ConfigResult;
import io.kvoy.server.config.KvoyConfig;
import io.kvoy.server.config.KvoyConfigFile;
import io.kvoy.server.log.LogLevels;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.slf4j.LoggerFactory;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * The server's command line. A stop signal drains and ends the process with the signal's status
 * (143 for SIGTERM); 1 when it cannot start, 2 on bad usage.
 */
@Command(
    name = "kvoy-server",
    mixinStandardHelpOptions = true,
    versionProvider = ServerCommand.Version.class,
    sortOptions = false,
    description =
        "Routes each LLM request that Envoy brings to the vLLM worker with the lowest predicted"
            + " time to first token.")
final class ServerCommand implements Callable<Integer> {
  /** Where a container whose arguments are a chart's finds its file. */
  static final String CONFIG_VARIABLE = "KVOY_CONFIG";

  @Option(
      names = "--config",
      paramLabel = "FILE",
      description =
          "Configuration file, see docs/configuration.md. Changes are taken while running. Default:"
              + " the environment variable "
              + CONFIG_VARIABLE
              + ".")
  private @Nullable Path config;

  @Option(names = "--check", description = "Check the configuration file and end.")
  private boolean check;

  @Option(
      names = "--conformance-hooks",
      description =
          "Let clients name endpoints and tell them who served, as the conformance tests of"
              + " gateway-api-inference-extension need it. For tests only.")
  private boolean conformanceHooks;

  @Mixin private PickerFlags picker = new PickerFlags();

  @Spec private CommandSpec spec = CommandSpec.create();

  static int run(String[] args) {
    return commandLine().execute(args);
  }

  static CommandLine commandLine() {
    CommandLine line = new CommandLine(new ServerCommand());
    PickerFlags.addIgnored(line.getCommandSpec());
    return line;
  }

  @Override
  public Integer call() throws InterruptedException {
    PickerFlags.warnings(spec.commandLine().getParseResult()).forEach(System.err::println);
    Path file = file();
    return switch (ConfigLoader.load(
        file, check ? ConfigLoader.FileCheck.REQUIRE : ConfigLoader.FileCheck.IGNORE)) {
      case ConfigResult.Rejected rejected -> {
        System.err.println(rejected.text());
        yield 1;
      }
      case ConfigResult.Loaded(KvoyConfigFile read) -> check ? checked(read) : serve(read);
    };
  }

  private Path file() {
    if (config != null) {
      return config;
    }
    Optional<Path> given = picker.configFile();
    if (given.isPresent() && !isForPlugins(given.get())) {
      return given.get();
    }
    String variable = System.getenv(CONFIG_VARIABLE);
    if (variable != null && !variable.isBlank()) {
      return Path.of(variable);
    }
    throw new ParameterException(
        spec.commandLine(),
        "Missing option: '--config=FILE' (or the environment variable "
            + CONFIG_VARIABLE
            + "): the workers stand in that file");
  }

  /** Whether the file is of another endpoint picker, and names its plugins. */
  private static boolean isForPlugins(Path file) {
    try (Stream<String> lines = Files.lines(file)) {
      boolean found =
          lines
              .limit(10_000)
              .anyMatch(line -> line.matches("kind:\\s*[\"']?EndpointPickerConfig.*"));
      if (found) {
        System.err.println(
            "flag --config-file has no effect: " + file + " is an EndpointPickerConfig");
      }
      return found;
    } catch (IOException | java.io.UncheckedIOException _) {
      // Whoever loads it says what is wrong with it.
      return false;
    }
  }

  private static int checked(KvoyConfigFile file) {
    System.out.println(
        file.source() + ": right, " + file.pools().size() + " pool(s); nothing was started");
    return 0;
  }

  private int serve(KvoyConfigFile file) throws InterruptedException {
    StartOptions options = new StartOptions(picker::over, conformanceHooks);
    applyLogLevels(picker.over(file.config()));
    HeapGoal.set();
    KvoyServer server;
    try {
      server = KvoyServer.start(file, options);
    } catch (IOException e) {
      System.err.println(
          "kvoy-server cannot start: "
              + e.getMessage()
              + ". Is a port of KvoyConfig spec.listen taken by another process?");
      return 1;
    }
    CountDownLatch drained = new CountDownLatch(1);
    Runtime.getRuntime()
        .addShutdownHook(
            Thread.ofPlatform()
                .name("kvoy-drain")
                .unstarted(
                    () -> {
                      try {
                        server.drain();
                      } catch (InterruptedException _) {
                        server.close();
                      } finally {
                        drained.countDown();
                      }
                    }));
    drained.await();
    return 0;
  }

  static void applyLogLevels(KvoyConfig config) {
    if (LoggerFactory.getILoggerFactory() instanceof ch.qos.logback.classic.LoggerContext context) {
      Map<String, String> levels = new LinkedHashMap<>();
      config.logging().levels().forEach((name, level) -> levels.put(name, level.name()));
      new LogLevels(context).apply(config.logging().level().name(), levels);
    }
  }

  /** The version in the jar's manifest. */
  static final class Version implements CommandLine.IVersionProvider {
    @Override
    public String[] getVersion() {
      String version = ServerCommand.class.getPackage().getImplementationVersion();
      return new String[] {"kvoy-server " + (version == null ? "(not packaged)" : version)};
    }
  }
}
