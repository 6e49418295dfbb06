// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.VllmOptions;
import io.kvoy.e2e.env.VllmOptions.KvEvents;
import io.kvoy.e2e.env.VllmProcess;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** A real vLLM worker that publishes its events on loopback. */
public record VllmStageWorker(VllmProcess process) implements StageWorker {

  /** Starts a worker with the tiny model, without waiting for it. */
  public static VllmStageWorker launch(LocalTools tools, String name) throws IOException {
    return new VllmStageWorker(VllmProcess.launch(tools, VllmOptions.tinyQwen3(tools, name)));
  }

  /** Starts workers, all at once, and waits until all of them answer. */
  public static List<VllmStageWorker> start(
      LocalTools tools, List<VllmOptions> all, Consumer<String> progress)
      throws IOException, InterruptedException {
    List<VllmStageWorker> started = new ArrayList<>();
    try {
      for (VllmOptions options : all) {
        started.add(new VllmStageWorker(VllmProcess.launch(tools, options)));
      }
      for (VllmStageWorker worker : started) {
        worker.awaitHealthy(progress);
      }
    } catch (IOException | InterruptedException e) {
      for (VllmStageWorker worker : started) {
        worker.close();
      }
      throw e;
    }
    return started;
  }

  /** Waits until it answers; {@code progress} hears that the wait goes on. */
  public void awaitHealthy(Consumer<String> progress) throws IOException, InterruptedException {
    process.awaitHealthy(VllmProcess.START_PATIENCE, progress);
  }

  @Override
  public String name() {
    return process.options().name();
  }

  @Override
  public Endpoint endpoint() {
    return process.options().listen();
  }

  @Override
  public String kvEvents() {
    // The worker binds an IPv4 loopback address written as an IPv6 one.
    return events().publish().replace("[::ffff:127.0.0.1]", "127.0.0.1");
  }

  @Override
  public String kvReplay() {
    return events().replay();
  }

  private KvEvents events() {
    VllmOptions options = process.options();
    return options
        .kvEvents()
        .orElseThrow(() -> new IllegalStateException(options.name() + " publishes no events"));
  }

  @Override
  public void close() throws IOException {
    process.close();
  }
}
