// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.XdsBootstrap;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * A running Envoy. Demo and tests start it from an {@link EnvoyBootstrap} and close it.
 *
 * <p>Configuration and log lie in a temporary folder, kept for a look after a failure and removed
 * on a clean close.
 */
public final class EnvoyProcess implements AutoCloseable {
  /** Envoy is up within a second on a quiet machine. */
  private static final Duration START_PATIENCE = Duration.ofSeconds(60);

  private static final Duration STOP_PATIENCE = Duration.ofSeconds(5);

  private final ChildProcess process;
  private final Path folder;
  private final Endpoint admin;

  private EnvoyProcess(ChildProcess process, Path folder, Endpoint admin) {
    this.process = process;
    this.folder = folder;
    this.admin = admin;
  }

  /**
   * Starts Envoy and waits until its listeners accept.
   *
   * @throws IOException when it does not start, with the end of its log
   */
  public static EnvoyProcess start(LocalTools tools, EnvoyBootstrap bootstrap)
      throws IOException, InterruptedException {
    return start(tools, bootstrap.toJson(), bootstrap.admin());
  }

  /** The same for an Envoy that gets its listeners over xDS. */
  public static EnvoyProcess start(LocalTools tools, XdsBootstrap bootstrap)
      throws IOException, InterruptedException {
    return start(tools, bootstrap.toJson(), bootstrap.admin());
  }

  /**
   * The same with any configuration.
   *
   * @param json the whole of it
   * @param admin the admin address in it
   */
  public static EnvoyProcess start(LocalTools tools, String json, Endpoint admin)
      throws IOException, InterruptedException {
    Path folder = Files.createTempDirectory("kvoy-envoy-");
    Path config = Files.writeString(folder.resolve("envoy.json"), json);
    List<String> command =
        List.of(
            tools.envoy().toString(),
            "--config-path",
            config.toString(),
            "--concurrency",
            "2",
            "--log-level",
            "warning",
            // Hot restart would share memory with every other Envoy of this user on the machine.
            "--disable-hot-restart");
    ChildProcess process =
        ChildProcess.start("envoy", command, Map.of(), folder.resolve("envoy.log"));
    EnvoyProcess envoy = new EnvoyProcess(process, folder, admin);
    try {
      process.awaitOk(envoy.adminUri("/ready"), START_PATIENCE, line -> {});
    } catch (IOException | InterruptedException | RuntimeException failed) {
      process.kill();
      throw failed;
    }
    return envoy;
  }

  public long pid() {
    return process.pid();
  }

  public boolean isAlive() {
    return process.isAlive();
  }

  /** The end of Envoy's log, for the message of a failing test. */
  public String logTail() {
    return process.logTail();
  }

  /**
   * Counters and gauges whose name matches the regular expression, as {@code name: value} lines.
   */
  public String stats(String filter) throws IOException {
    String query = URLEncoder.encode(filter, StandardCharsets.UTF_8);
    try (InputStream body = adminUri("/stats?filter=" + query).toURL().openStream()) {
      return new String(body.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  /** Health flags by address of a cluster's endpoints, as {@code healthy} or {@code /failed_…}. */
  public Map<String, String> endpoints(String cluster) throws IOException {
    Map<String, String> seen = new TreeMap<>();
    try (InputStream body = adminUri("/clusters").toURL().openStream()) {
      String text = new String(body.readAllBytes(), StandardCharsets.UTF_8);
      text.lines()
          .map(line -> line.split("::"))
          .filter(
              part -> part.length == 4 && part[0].equals(cluster) && part[2].equals("health_flags"))
          .forEach(part -> seen.put(part[1], part[3]));
    }
    return seen;
  }

  /** The value of one counter or gauge; 0 when Envoy does not have it yet. */
  public long stat(String name) throws IOException {
    String lines = stats("^" + name.replace(".", "\\.") + "$").strip();
    return lines.isEmpty() ? 0 : Long.parseLong(lines.substring(lines.lastIndexOf(' ') + 1));
  }

  /** Stops Envoy within seconds and removes its temporary folder. */
  @Override
  public void close() throws IOException {
    try {
      process.stop(STOP_PATIENCE);
    } catch (InterruptedException interrupted) {
      process.signal("KILL");
      Thread.currentThread().interrupt();
      return;
    }
    Scratch.delete(folder);
  }

  private URI adminUri(String path) {
    return URI.create("http://" + admin + path);
  }
}
