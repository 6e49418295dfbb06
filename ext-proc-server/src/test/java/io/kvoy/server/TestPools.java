// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.server.config.ModelPool;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** Pools as a configuration would make them. */
public final class TestPools {
  private TestPools() {}

  /** A pool that serves {@code models} by a folder. */
  public static ModelPool pool(String name, List<String> models, boolean injectUsage) {
    return pool(name, models, false, 0, injectUsage, Optional.empty());
  }

  /** One whose requests may wait. */
  public static ModelPool queueing(
      String name, List<String> models, boolean refuseOverTarget, ModelPool.Queue queue) {
    return pool(name, models, refuseOverTarget, 0, false, Optional.of(queue));
  }

  /** One that refuses what would wait longer than two seconds. */
  public static ModelPool refusing(String name, List<String> models) {
    return pool(name, models, true, 0, false, Optional.empty());
  }

  /** A pool that names a further worker behind the picked one. */
  public static ModelPool withFallback(String name, List<String> models) {
    return pool(name, models, false, 1, false, Optional.empty());
  }

  private static ModelPool pool(
      String name,
      List<String> models,
      boolean refuseOverTarget,
      int fallbacks,
      boolean injectUsage,
      Optional<ModelPool.Queue> queue) {
    return new ModelPool(
        name,
        models,
        List.of(),
        Optional.of(Path.of("/nowhere")),
        Optional.empty(),
        Optional.empty(),
        Optional.empty(),
        Optional.empty(),
        16,
        Duration.ofSeconds(1),
        Duration.ofSeconds(2),
        Duration.ofSeconds(1),
        Duration.ofSeconds(2),
        refuseOverTarget,
        fallbacks,
        injectUsage,
        queue,
        List.of());
  }
}
