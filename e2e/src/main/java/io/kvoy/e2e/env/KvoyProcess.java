// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * A real Kvoy server in its own process, started from the class path of the caller. Its log goes to
 * a file; what went wrong at the start is in the exception.
 */
public final class KvoyProcess implements AutoCloseable {
  private static final Duration STOP_PATIENCE = Duration.ofSeconds(10);

  /** Starts fast and takes little: for tests, of which several run at once. */
  private static final List<String> SMALL = List.of("-XX:+UseSerialGC", "-Xmx1g");

  private final Process process;
  private final Path log;
  private final int adminPort;
  private final HttpClient http =
      HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(2)).build();

  private KvoyProcess(Process process, Path log, int adminPort) {
    this.process = process;
    this.log = log;
    this.adminPort = adminPort;
  }

  /**
   * Starts the server and waits until it is alive; ready is another matter, see {@link
   * #awaitReady}.
   *
   * @param config its configuration file
   * @param adminPort the admin port that the file names
   * @param log file that takes its output
   */
  public static KvoyProcess start(Path config, int adminPort, Path log)
      throws IOException, InterruptedException {
    return start(config, adminPort, log, SMALL);
  }

  /**
   * The same with other JVM options.
   *
   * @param jvm such as {@code -Xmx1g}, or {@code @FILE} with options in it
   */
  public static KvoyProcess start(Path config, int adminPort, Path log, List<String> jvm)
      throws IOException, InterruptedException {
    return start(java(jvm), Map.of(), config, adminPort, log);
  }

  /**
   * Any command that becomes the server, such as {@code bin/kvoy-server}.
   *
   * @param command without {@code --config}
   * @param environment on top of ours
   */
  public static KvoyProcess start(
      List<String> command, Map<String, String> environment, Path config, int adminPort, Path log)
      throws IOException, InterruptedException {
    List<String> whole = new ArrayList<>(command);
    whole.addAll(List.of("--config", config.toString()));
    return launch(whole, environment, adminPort, log);
  }

  /**
   * The server with arguments and environment of any kind.
   *
   * @param adminPort the admin port that they lead to
   */
  public static KvoyProcess start(
      List<String> arguments, Map<String, String> environment, int adminPort, Path log)
      throws IOException, InterruptedException {
    List<String> whole = new ArrayList<>(java(SMALL));
    whole.addAll(arguments);
    return launch(whole, environment, adminPort, log);
  }

  private static List<String> java(List<String> jvm) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"));
    command.addAll(jvm);
    command.addAll(
        List.of("-cp", System.getProperty("java.class.path"), "io.kvoy.server.KvoyServer"));
    return command;
  }

  private static KvoyProcess launch(
      List<String> command, Map<String, String> environment, int adminPort, Path log)
      throws IOException, InterruptedException {
    ProcessBuilder builder =
        new ProcessBuilder(command)
            .redirectErrorStream(true)
            .redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()));
    builder.environment().putAll(environment);
    Process process = builder.start();
    KvoyProcess started = new KvoyProcess(process, log, adminPort);
    try {
      started.await("/healthz", Duration.ofSeconds(60));
    } catch (IOException | InterruptedException e) {
      started.close();
      throw e;
    }
    return started;
  }

  /** Waits until the server says that it is ready for traffic. */
  public void awaitReady(Duration patience) throws IOException, InterruptedException {
    await("/readyz", patience);
  }

  /** The answer of an admin page. */
  public HttpResponse<String> admin(String path) throws IOException, InterruptedException {
    return http.send(
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + adminPort + path))
            .timeout(Duration.ofSeconds(5))
            .build(),
        HttpResponse.BodyHandlers.ofString());
  }

  /**
   * A sample of the metrics page, summed over all series of the name whose labels contain the text.
   */
  public double metric(String name, String labelText) throws IOException, InterruptedException {
    double sum = 0;
    try (Stream<String> lines = admin("/metrics").body().lines()) {
      for (String line : (Iterable<String>) lines::iterator) {
        int space = line.lastIndexOf(' ');
        if (space > 0
            && (line.startsWith(name + "{") || line.startsWith(name + " "))
            && line.contains(labelText)) {
          sum += Double.parseDouble(line.substring(space + 1));
        }
      }
    }
    return sum;
  }

  public boolean isAlive() {
    return process.isAlive();
  }

  public long pid() {
    return process.pid();
  }

  /** Asks the process to stop, without waiting. */
  public void terminate() {
    process.destroy();
  }

  /** Waits for the end of the process; whether it came in time. */
  public boolean awaitEnd(Duration patience) throws InterruptedException {
    return process.waitFor(patience.toMillis(), TimeUnit.MILLISECONDS);
  }

  /** Ends the process at once, as a crash would. */
  public void kill() {
    process.destroyForcibly();
  }

  /** Asks the process to stop and waits; kills it when it takes too long. */
  @Override
  public void close() {
    process.destroy();
    try {
      if (!process.waitFor(STOP_PATIENCE.toMillis(), TimeUnit.MILLISECONDS)) {
        process.destroyForcibly().waitFor();
      }
    } catch (InterruptedException e) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
    http.shutdownNow();
  }

  /** The last lines of the server's log. */
  public String logTail(int lines) throws IOException {
    List<String> all = Files.exists(log) ? Files.readAllLines(log) : List.of();
    return String.join("\n", all.subList(Math.max(0, all.size() - lines), all.size()));
  }

  private void await(String path, Duration patience) throws IOException, InterruptedException {
    long deadline = System.nanoTime() + patience.toNanos();
    String last = "no answer";
    while (System.nanoTime() < deadline) {
      if (!process.isAlive()) {
        throw new IOException(
            "Kvoy ended with exit code "
                + process.exitValue()
                + "; its last words:\n"
                + logTail(30));
      }
      try {
        HttpResponse<String> response = admin(path);
        if (response.statusCode() == 200) {
          return;
        }
        last = "status " + response.statusCode() + ": " + response.body();
      } catch (IOException e) {
        last = e.getClass().getSimpleName();
      }
      Thread.sleep(50);
    }
    throw new IOException(
        "Kvoy did not answer "
            + path
            + " in "
            + patience
            + " ("
            + last
            + "); its last words:\n"
            + logTail(30));
  }
}
