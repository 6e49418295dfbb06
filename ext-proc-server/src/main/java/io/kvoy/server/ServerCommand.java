// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.server.config.ConfigLoader;
import io.kvoy.server.config.ConfigResult;
import io.kvoy.server.config.KvoyConfig;
import io.kvoy.server.config.KvoyConfigFile;
import io.kvoy.server.log.LogLevels;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import org.slf4j.LoggerFactory;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

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
        "Routes each LLM request that Envoy brings to the vLLM worker with the lowest predicted time"
            + " to first token.")
final class ServerCommand implements Callable<Integer> {
  @Option(
      names = "--config",
      required = true,
      paramLabel = "FILE",
      description =
          "Configuration file, see docs/configuration.md. Changes are taken while running.")
  private Path config = Path.of("kvoy.yaml");

  @Option(names = "--check", description = "Check the configuration file and end.")
  private boolean check;

  static int run(String[] args) {
    return new CommandLine(new ServerCommand()).execute(args);
  }

  @Override
  public Integer call() throws InterruptedException {
    return switch (ConfigLoader.load(
        config, check ? ConfigLoader.FileCheck.REQUIRE : ConfigLoader.FileCheck.IGNORE)) {
      case ConfigResult.Rejected rejected -> {
        System.err.println(rejected.text());
        yield 1;
      }
      case ConfigResult.Loaded(KvoyConfigFile file) -> check ? checked(file) : serve(file);
    };
  }

  private int checked(KvoyConfigFile file) {
    System.out.println(
        config + ": right, " + file.pools().size() + " pool(s); nothing was started");
    return 0;
  }

  private static int serve(KvoyConfigFile file) throws InterruptedException {
    applyLogLevels(file.config());
    KvoyServer server;
    try {
      server = KvoyServer.start(file);
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
