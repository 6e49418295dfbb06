// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import io.kvoy.e2e.env.LocalTools;
import io.kvoy.e2e.env.Scratch;
import io.kvoy.e2e.sim.EngineOptions;
import io.kvoy.e2e.sim.FolderSimTokenizer;
import io.kvoy.e2e.sim.SimTokenizer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Three simulated workers behind a real Envoy and a real Kvoy process. */
final class SimRig implements AutoCloseable {
  static final String MODEL = "rig-qwen3";

  final List<SimStageWorker> workers;
  final Stage stage;

  private SimRig(List<SimStageWorker> workers, Stage stage) {
    this.workers = workers;
    this.stage = stage;
  }

  static SimRig start(EngineOptions engine) throws IOException, InterruptedException {
    LocalTools tools = LocalTools.find();
    return start(engine, tools.tokenizer("qwen3"));
  }

  /**
   * @param kvoyTokenizer folder for Kvoy alone; the workers always have the real one
   */
  static SimRig start(EngineOptions engine, Path kvoyTokenizer)
      throws IOException, InterruptedException {
    LocalTools tools = LocalTools.find();
    SimTokenizer tokenizer = FolderSimTokenizer.load(tools.tokenizer("qwen3"), "<|im_end|>");
    List<SimStageWorker> workers = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      workers.add(SimStageWorker.start("sim-" + i, MODEL, tokenizer, engine, 11 + i));
    }
    Path folder = Files.createTempDirectory("kvoy-rig-");
    return new SimRig(workers, Stage.start(tools, folder, MODEL, kvoyTokenizer, workers, 0));
  }

  SimStageWorker worker(String name) {
    return workers.stream().filter(worker -> worker.name().equals(name)).findFirst().orElseThrow();
  }

  @Override
  public void close() throws IOException {
    stage.close();
    Scratch.delete(stage.folder());
  }
}
