// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import java.time.Duration;

/**
 * When a worker is taken out and let back in.
 *
 * @param probed whether a {@link HealthProber} runs: if so a new worker waits for its first good
 *     probe, and a refused connection takes it out until the next good one
 * @param unhealthyAfter bad probes in a row that make a worker unready
 * @param healthyAfter good probes in a row that make it ready
 * @param ejectAfterConsecutive failures in a row that eject it; a broken worker that fails fast
 *     would otherwise look like the quickest one
 * @param ejectFailureShare share of failures in the window that ejects it, 0..1
 * @param window outcomes in that window; half of it must be filled before the share counts
 * @param ejectionBase first ejection; doubles with each further one
 * @param ejectionMax longest ejection
 * @param maxEjectedShare share of a pool that may be ejected at a time (one worker always may):
 *     when more of them fail, the cause is hardly the workers
 * @param backPressureBase how long a worker that answered 429/503 is avoided; doubles while it goes
 *     on
 * @param backPressureMax longest such time
 */
public record HealthSettings(
    boolean probed,
    int unhealthyAfter,
    int healthyAfter,
    int ejectAfterConsecutive,
    double ejectFailureShare,
    int window,
    Duration ejectionBase,
    Duration ejectionMax,
    double maxEjectedShare,
    Duration backPressureBase,
    Duration backPressureMax) {

  /** Defaults without a prober. */
  public static final HealthSettings DEFAULTS =
      new HealthSettings(
          false,
          2,
          1,
          3,
          0.5,
          20,
          Duration.ofSeconds(5),
          Duration.ofSeconds(60),
          0.5,
          Duration.ofMillis(250),
          Duration.ofSeconds(5));

  public HealthSettings {
    if (unhealthyAfter < 1 || healthyAfter < 1 || ejectAfterConsecutive < 1 || window < 2) {
      throw new IllegalArgumentException(
          "thresholds must be at least 1 and the window at least 2, were "
              + unhealthyAfter
              + ", "
              + healthyAfter
              + ", "
              + ejectAfterConsecutive
              + ", "
              + window);
    }
    if (!(ejectFailureShare > 0 && ejectFailureShare <= 1)
        || !(maxEjectedShare >= 0 && maxEjectedShare <= 1)) {
      throw new IllegalArgumentException(
          "shares must be within 0..1, were " + ejectFailureShare + ", " + maxEjectedShare);
    }
  }

  /** The same with or without a prober. */
  public HealthSettings withProbed(boolean probes) {
    return new HealthSettings(
        probes,
        unhealthyAfter,
        healthyAfter,
        ejectAfterConsecutive,
        ejectFailureShare,
        window,
        ejectionBase,
        ejectionMax,
        maxEjectedShare,
        backPressureBase,
        backPressureMax);
  }
}
