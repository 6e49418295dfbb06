// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import io.kvoy.e2e.sim.EngineOptions;
import io.kvoy.e2e.sim.SimOptions;
import io.kvoy.e2e.sim.SimTokenizer;
import io.kvoy.e2e.sim.SimWorker;
import io.kvoy.scoring.fleet.Endpoint;

/**
 * A simulated worker in this process.
 *
 * @param sim the worker, for tests that hurt it
 */
public record SimStageWorker(String name, SimWorker sim, Endpoint endpoint) implements StageWorker {
  /**
   * Starts a worker on free loopback ports.
   *
   * @param engine size and speed of its machine
   */
  public static SimStageWorker start(
      String name, String model, SimTokenizer tokenizer, EngineOptions engine, long seed) {
    SimWorker sim =
        SimWorker.start(
            SimOptions.builder(model)
                .tokenizer(tokenizer)
                .engine(engine)
                .meanAnswerTokens(0)
                .seed(seed)
                .build());
    return new SimStageWorker(name, sim, new Endpoint("127.0.0.1", sim.port()));
  }

  @Override
  public String kvEvents() {
    return sim.eventEndpoint();
  }

  @Override
  public String kvReplay() {
    return sim.replayEndpoint();
  }

  @Override
  public void close() {
    sim.close();
  }
}
