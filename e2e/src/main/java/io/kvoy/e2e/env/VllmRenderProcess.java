// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.env;

import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * One real vLLM rendering server ({@code vllm launch render}): its request models, chat templates
 * and tokenizer with no engine behind, so a model folder without weights will do. Starts in half a
 * minute of CPU time. Used from one thread at a time.
 */
public final class VllmRenderProcess implements AutoCloseable {
  private static final Duration STOP_PATIENCE = Duration.ofSeconds(20);

  /** Longest prompt that it takes. */
  private static final int MAX_MODEL_TOKENS = 32_768;

  private final Endpoint listen;
  private final Path folder;
  private final ChildProcess process;

  private VllmRenderProcess(Endpoint listen, Path folder, ChildProcess process) {
    this.listen = listen;
    this.folder = folder;
    this.process = process;
  }

  /**
   * Starts a server without waiting for it.
   *
   * @param family one of the folders {@code render-…} that {@code tools/make-render-models.py}
   *     makes
   * @param toolParser {@code --tool-call-parser}; requests with tools are refused without one
   * @param today the date in gpt-oss prompts
   */
  public static VllmRenderProcess launch(
      LocalTools tools, String family, String toolParser, LocalDate today) throws IOException {
    Path model = tools.model("render-" + family);
    Endpoint listen = new Endpoint("127.0.0.1", Ports.free());
    Path folder = Files.createTempDirectory("kvoy-render-" + family + "-");
    List<String> command =
        List.of(
            tools.vllmPython().toString(),
            "-m",
            "vllm.entrypoints.cli.main",
            "launch",
            "render",
            model.toString(),
            "--served-model-name",
            family,
            "--host",
            listen.host(),
            "--port",
            Integer.toString(listen.port()),
            "--max-model-len",
            Integer.toString(MAX_MODEL_TOKENS),
            "--enable-auto-tool-choice",
            "--tool-call-parser",
            toolParser);
    Map<String, String> environment =
        Map.of(
            "VLLM_NO_USAGE_STATS", "1",
            "DO_NOT_TRACK", "1",
            "HF_HUB_OFFLINE", "1",
            "VLLM_HOST_IP", "127.0.0.1",
            "OMP_NUM_THREADS", "1",
            "VLLM_CPU_OMP_THREADS_BIND", "nobind",
            "TIKTOKEN_ENCODINGS_BASE", model.toString(),
            "VLLM_SYSTEM_START_DATE", today.toString());
    return new VllmRenderProcess(
        listen,
        folder,
        ChildProcess.start("render-" + family, command, environment, folder.resolve("render.log")));
  }

  /**
   * Waits until it is ready.
   *
   * @param progress told every ten seconds that the wait goes on
   * @throws IOException when it ends or the patience runs out first, with the end of its log
   */
  public Duration awaitHealthy(Duration patience, Consumer<String> progress)
      throws IOException, InterruptedException {
    return process.awaitOk(address().resolve("/health"), patience, progress);
  }

  /** Where it listens. */
  public URI address() {
    return URI.create("http://" + listen);
  }

  /** Stops it and removes its log. */
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
