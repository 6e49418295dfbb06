// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/**
 * One started process with its children, its log file and its end.
 *
 * <p>It runs in a session and process group of its own, so that it and whatever it started can be
 * signalled together and nothing of it is left when it is stopped. Should this JVM end first, a
 * shutdown hook kills the group.
 */
final class ChildProcess {
  private static final Duration POLL = Duration.ofMillis(200);
  private static final Duration PROGRESS = Duration.ofSeconds(10);
  private static final int LOG_TAIL_LINES = 40;
  private static final int PROBE_TIMEOUT_MILLIS = 2_000;

  private final String name;
  private final Path log;
  private final Process process;
  private final Thread atExit;

  private ChildProcess(String name, Path log, Process process) {
    this.name = name;
    this.log = log;
    this.process = process;
    atExit = new Thread(() -> signal("KILL"), "kill-" + name);
    Runtime.getRuntime().addShutdownHook(atExit);
  }

  /** Starts {@code command} with {@code environment} on top of ours; output goes to {@code log}. */
  static ChildProcess start(
      String name, List<String> command, Map<String, String> environment, Path log)
      throws IOException {
    List<String> inOwnSession = new ArrayList<>();
    // setsid replaces itself by the command, since a process started here is no group leader: same
    // process id, and that
    // is the group's id too.
    inOwnSession.add("setsid");
    inOwnSession.addAll(command);
    ProcessBuilder builder =
        new ProcessBuilder(inOwnSession)
            .redirectErrorStream(true)
            .redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()))
            .redirectOutput(log.toFile());
    builder.environment().putAll(environment);
    return new ChildProcess(name, log, builder.start());
  }

  long pid() {
    return process.pid();
  }

  boolean isAlive() {
    return process.isAlive();
  }

  /** The end of what it wrote, for messages. */
  String logTail() {
    List<String> lines;
    try {
      lines = new String(Files.readAllBytes(log), StandardCharsets.UTF_8).lines().toList();
    } catch (IOException unreadable) {
      return "(log " + log + " cannot be read: " + unreadable.getMessage() + ")";
    }
    return String.join(
        "\n", lines.subList(Math.max(0, lines.size() - LOG_TAIL_LINES), lines.size()));
  }

  /**
   * Waits until {@code url} answers 200.
   *
   * @param progress told every ten seconds that the wait goes on
   * @return how long it took
   * @throws IOException when the process ends or the patience runs out first, with the end of its
   *     log
   */
  Duration awaitOk(URI url, Duration patience, Consumer<String> progress)
      throws IOException, InterruptedException {
    long begun = System.nanoTime();
    Duration nextWord = PROGRESS;
    while (true) {
      if (!isAlive()) {
        throw new IOException(
            name
                + " ended with status "
                + process.exitValue()
                + " before it was ready; log "
                + log
                + ":\n"
                + logTail());
      }
      if (answersOk(url)) {
        return Duration.ofNanos(System.nanoTime() - begun);
      }
      Duration waited = Duration.ofNanos(System.nanoTime() - begun);
      if (waited.compareTo(patience) > 0) {
        throw new IOException(
            name
                + " did not answer "
                + url
                + " within "
                + patience.toSeconds()
                + " s; log "
                + log
                + ":\n"
                + logTail());
      }
      if (waited.compareTo(nextWord) > 0) {
        progress.accept(name + ": starting, " + waited.toSeconds() + " s");
        nextWord = nextWord.plus(PROGRESS);
      }
      Thread.sleep(POLL);
    }
  }

  private static boolean answersOk(URI url) {
    try {
      HttpURLConnection connection = (HttpURLConnection) url.toURL().openConnection();
      connection.setConnectTimeout(PROBE_TIMEOUT_MILLIS);
      connection.setReadTimeout(PROBE_TIMEOUT_MILLIS);
      try (InputStream body = connection.getInputStream()) {
        body.readAllBytes();
        return connection.getResponseCode() == 200;
      }
    } catch (IOException notYet) {
      return false;
    }
  }

  /**
   * Sends {@code TERM}, {@code KILL}, {@code STOP} or {@code CONT} to the whole group; no effect
   * when it is gone.
   */
  void signal(String signal) {
    // ProcessHandle knows neither groups nor these signals. A group outlives its leader, so this
    // reaches orphans too.
    run("kill -s \"$0\" -- \"-$1\"", signal, Long.toString(pid()));
  }

  /** Asks it to end, waits for {@code patience}, then kills what is left of the group. */
  void stop(Duration patience) throws InterruptedException {
    process.destroy();
    process.waitFor(patience.toMillis(), TimeUnit.MILLISECONDS);
    kill();
  }

  /** Ends the whole group at once, as a crash of the machine would. */
  void kill() throws InterruptedException {
    signal("KILL");
    if (!process.waitFor(10, TimeUnit.SECONDS)) {
      throw new IllegalStateException(name + " (process " + pid() + ") survives SIGKILL");
    }
    try {
      Runtime.getRuntime().removeShutdownHook(atExit);
    } catch (IllegalStateException shuttingDown) {
      // The hook is running or about to; the group is gone already.
    }
  }

  private static void run(String script, String... arguments) {
    List<String> command = new ArrayList<>(List.of("sh", "-c", script));
    command.addAll(List.of(arguments));
    try {
      Process shell =
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(ProcessBuilder.Redirect.DISCARD)
              .start();
      shell.waitFor(5, TimeUnit.SECONDS);
    } catch (IOException impossible) {
      throw new IllegalStateException("cannot start sh", impossible);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
