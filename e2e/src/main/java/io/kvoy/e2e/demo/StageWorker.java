// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;

/** One worker on the stage, real or simulated. */
public interface StageWorker extends AutoCloseable {
  String name();

  Endpoint endpoint();

  /** ZeroMQ endpoint that Kvoy connects to for events. */
  String kvEvents();

  /** ZeroMQ endpoint of the replay socket. */
  String kvReplay();

  @Override
  void close() throws IOException;
}
