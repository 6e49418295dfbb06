// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.function.Consumer;

/**
 * One real vLLM worker: an API server with its engine and executor processes.
 *
 * <p>A start costs about a minute of CPU time, so {@link #launch} returns at once and {@link
 * #awaitHealthy} waits: several workers are launched first and awaited afterwards. Used from one
 * thread at a time.
 */
public final class VllmProcess implements AutoCloseable {
  /** 302 s were seen for two workers started together on two busy cores; 77 s when quiet. */
  public static final Duration START_PATIENCE = Duration.ofMinutes(8);

  /** Before it ends, vLLM waits for its engine process; a loaded machine makes that slow. */
  private static final Duration STOP_PATIENCE = Duration.ofSeconds(20);

  private final LocalTools tools;
  private final VllmOptions options;
  private final Path folder;
  private int starts;
  private ChildProcess process;

  private VllmProcess(LocalTools tools, VllmOptions options, Path folder) throws IOException {
    this.tools = tools;
    this.options = options;
    this.folder = folder;
    process = startProcess();
  }

  /** Starts a worker without waiting for it. */
  public static VllmProcess launch(LocalTools tools, VllmOptions options) throws IOException {
    return new VllmProcess(
        tools, options, Files.createTempDirectory("kvoy-vllm-" + options.name() + "-"));
  }

  private ChildProcess startProcess() throws IOException {
    starts++;
    return ChildProcess.start(
        options.name(),
        options.command(tools.vllmPython()),
        options.environment(),
        folder.resolve("vllm-" + starts + ".log"));
  }

  /**
   * Waits until {@code GET /health} answers 200.
   *
   * @param progress told every ten seconds that the wait goes on
   * @return how long this call waited
   * @throws IOException when the worker ends or the patience runs out first, with the end of its
   *     log
   */
  public Duration awaitHealthy(Duration patience, Consumer<String> progress)
      throws IOException, InterruptedException {
    return process.awaitOk(
        URI.create("http://" + options.listen() + "/health"), patience, progress);
  }

  public VllmOptions options() {
    return options;
  }

  public long pid() {
    return process.pid();
  }

  public boolean isAlive() {
    return process.isAlive();
  }

  /** The end of the log of the present life, for the message of a failing test. */
  public String logTail() {
    return process.logTail();
  }

  /**
   * Stops it in its tracks with its connections open, as a hung worker; {@link #thaw} lets it go
   * on.
   */
  public void freeze() {
    process.signal("STOP");
  }

  public void thaw() {
    process.signal("CONT");
  }

  /** Ends all its processes at once, without a word to anybody. */
  public void crash() throws InterruptedException {
    process.kill();
  }

  /**
   * Starts it again on the same ports with an empty cache, after stopping it where it still runs.
   * Does not wait.
   */
  public void restart() throws IOException, InterruptedException {
    process.stop(STOP_PATIENCE);
    process = startProcess();
  }

  /** Stops it within half a minute and removes its logs. */
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
}
