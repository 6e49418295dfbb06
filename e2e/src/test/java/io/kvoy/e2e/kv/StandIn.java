// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.kv;

import io.kvoy.e2e.demo.StageWorker;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;

/** Stands on the stage for another worker, and is that worker where nothing else is said. */
abstract class StandIn implements StageWorker {
  private final StageWorker worker;

  StandIn(StageWorker worker) {
    this.worker = worker;
  }

  @Override
  public String name() {
    return worker.name();
  }

  @Override
  public Endpoint endpoint() {
    return worker.endpoint();
  }

  @Override
  public String kvEvents() {
    return worker.kvEvents();
  }

  @Override
  public String kvReplay() {
    return worker.kvReplay();
  }

  @Override
  public void close() throws IOException {
    worker.close();
  }
}
