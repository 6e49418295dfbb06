// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.List;
import java.util.function.Consumer;

/**
 * A fleet, a workload and what happens to them.
 *
 * @param name short name
 * @param profiles one per worker
 * @param workload requests
 * @param sloMillis a request is good when its first token came within this
 * @param warmUpMillis not counted
 * @param measuredMillis counted
 * @param plot schedules incidents (a worker that slows, fails, restarts)
 */
record Scenario(
    String name,
    List<EngineProfile> profiles,
    Workload workload,
    double sloMillis,
    double warmUpMillis,
    double measuredMillis,
    Consumer<LabRun> plot) {
  /** Fewer users at once make too few requests in a run for its 90th percentile. */
  private static final int MANY_USERS = 50;

  private static final int MORE_SEEDS = 4;

  /** Runs that make up for few requests in each: four times the asked for, else those. */
  int seeds(int asked) {
    return workload.users() > 0 && workload.users() < MANY_USERS ? MORE_SEEDS * asked : asked;
  }
}
