// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import io.kvoy.bench.lab.Workloads.Burst;
import io.kvoy.bench.lab.Workloads.MultiTurn;
import io.kvoy.bench.lab.Workloads.SharedPrefix;
import io.kvoy.bench.lab.Workloads.Unique;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The scenarios of the lab. */
final class Scenarios {
  private Scenarios() {}

  private static final double MINUTE = 60_000;

  private static void nothing(LabRun run) {}

  /**
   * A 27B model on one GPU, bound by prefill: about 3 500 prompt tokens and, with ten requests, 250
   * output tokens a second; 104 000 tokens of KV.
   */
  static final EngineProfile LARGE_MODEL =
      new EngineProfile(18, 0.27, 0.004, 0.5, 0.12, 2048, 64, 1625);

  /** An 8B model on one GPU: about 16 000 prompt tokens a second, 256 000 tokens of KV. */
  static final EngineProfile SMALL_MODEL =
      new EngineProfile(7, 0.06, 0.001, 0.15, 0.03, 4096, 128, 4000);

  static List<EngineProfile> same(int workers, EngineProfile profile) {
    return Collections.nCopies(workers, profile);
  }

  /** The public headline: 3 workers, shared prefixes that fill 77 % of all caches, 32 at once. */
  static Scenario sharedPrefix() {
    return new Scenario(
        "shared-prefix",
        same(3, LARGE_MODEL),
        new SharedPrefix(32, 0, 24, 10_000, 600, 350, 0),
        8000,
        3 * MINUTE,
        10 * MINUTE,
        Scenarios::nothing);
  }

  /** The same with some prefixes far more popular than others. */
  static Scenario skewedPrefix() {
    return new Scenario(
        "skewed-prefix",
        same(3, LARGE_MODEL),
        new SharedPrefix(32, 0, 24, 10_000, 600, 350, 1),
        8000,
        3 * MINUTE,
        10 * MINUTE,
        Scenarios::nothing);
  }

  /** The second public headline: conversations, 8 at once. */
  static Scenario multiTurn() {
    return new Scenario(
        "multi-turn",
        same(3, LARGE_MODEL),
        new MultiTurn(8, 8, 1000, 1200, 250, 500),
        4000,
        3 * MINUTE,
        10 * MINUTE,
        Scenarios::nothing);
  }

  /** More conversations than the caches hold. */
  static Scenario manyConversations() {
    return new Scenario(
        "many-conversations",
        same(4, SMALL_MODEL),
        new MultiTurn(150, 10, 1500, 500, 250, 8000),
        2000,
        3 * MINUTE,
        6 * MINUTE,
        Scenarios::nothing);
  }

  static Scenario unique() {
    return new Scenario(
        "unique",
        same(4, SMALL_MODEL),
        new Unique(0, 18, 2000, 200),
        2000,
        MINUTE,
        6 * MINUTE,
        Scenarios::nothing);
  }

  static Scenario uniqueHeavy() {
    return new Scenario(
        "unique-heavy",
        same(4, SMALL_MODEL),
        new Unique(0, 25, 2000, 150),
        2000,
        MINUTE,
        6 * MINUTE,
        Scenarios::nothing);
  }

  static Scenario burst() {
    return new Scenario(
        "burst",
        same(4, SMALL_MODEL),
        new Burst(8, 1500, 150, 8000, 120),
        2000,
        MINUTE,
        6 * MINUTE,
        Scenarios::nothing);
  }

  static Scenario heterogeneous() {
    var profiles =
        List.of(SMALL_MODEL, SMALL_MODEL, SMALL_MODEL.atSpeed(0.5), SMALL_MODEL.atSpeed(0.25));
    return new Scenario(
        "heterogeneous",
        profiles,
        new SharedPrefix(0, 16, 60, 3000, 800, 150, 0.5),
        2000,
        MINUTE,
        6 * MINUTE,
        Scenarios::nothing);
  }

  /** The headline with one GPU at 0.4 of the speed from the third minute on. */
  static Scenario slowWorker() {
    return new Scenario(
        "slow-worker",
        same(3, LARGE_MODEL),
        new SharedPrefix(24, 0, 24, 10_000, 600, 350, 0),
        8000,
        3 * MINUTE,
        10 * MINUTE,
        run ->
            run.time.at(
                2 * MINUTE, () -> run.workers.getFirst().profile(LARGE_MODEL.atSpeed(0.4))));
  }

  /** One GPU of four falls to 0.4 of its speed for a minute, again and again, as by its heat. */
  static Scenario throttlingWorker() {
    return new Scenario(
        "throttling-worker",
        same(4, SMALL_MODEL),
        new SharedPrefix(0, 16, 60, 3000, 800, 150, 0.5),
        2000,
        MINUTE,
        6 * MINUTE,
        run -> {
          for (int i = 1; i < 7; i += 2) {
            run.time.at(i * MINUTE, () -> run.workers.getFirst().profile(SMALL_MODEL.atSpeed(0.4)));
            run.time.at((i + 1) * MINUTE, () -> run.workers.getFirst().profile(SMALL_MODEL));
          }
        });
  }

  /** One worker answers 500 within 2 ms for two of six minutes. */
  static Scenario failingWorker() {
    return new Scenario(
        "failing-worker",
        same(4, SMALL_MODEL),
        new SharedPrefix(0, 15, 40, 3000, 800, 150, 0.5),
        2000,
        MINUTE,
        6 * MINUTE,
        run -> {
          run.time.at(2 * MINUTE, () -> run.workers.getFirst().failing(true));
          run.time.at(4 * MINUTE, () -> run.workers.getFirst().failing(false));
        });
  }

  /** Requests come a quarter faster than the fleet can serve them even with good caching. */
  static Scenario overload() {
    return new Scenario(
        "overload",
        same(3, LARGE_MODEL),
        new SharedPrefix(0, 3.2, 24, 10_000, 600, 350, 0),
        8000,
        2 * MINUTE,
        8 * MINUTE,
        Scenarios::nothing);
  }

  /** Each worker in turn is drained for 20 s, is down for 15 s and comes back empty. */
  static Scenario rollingRestart() {
    return new Scenario(
        "rolling-restart",
        same(4, SMALL_MODEL),
        new SharedPrefix(0, 15, 40, 3000, 800, 150, 0.5),
        2000,
        MINUTE,
        6 * MINUTE,
        run -> {
          for (int i = 0; i < 4; i++) {
            int worker = i;
            double at = (1.5 + i) * MINUTE;
            run.time.at(at, () -> run.setOpen(worker, false, false));
            run.time.at(at + 20_000, () -> run.workers.get(worker).stop());
            run.time.at(
                at + 35_000,
                () -> {
                  run.workers.get(worker).start();
                  run.setOpen(worker, true, true);
                });
          }
        });
  }

  static List<Scenario> all() {
    var all = new ArrayList<Scenario>();
    all.add(sharedPrefix());
    all.add(skewedPrefix());
    all.add(multiTurn());
    all.add(manyConversations());
    all.add(unique());
    all.add(uniqueHeavy());
    all.add(burst());
    all.add(heterogeneous());
    all.add(slowWorker());
    all.add(throttlingWorker());
    all.add(failingWorker());
    all.add(overload());
    all.add(rollingRestart());
    return all;
  }
}
