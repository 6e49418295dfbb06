// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import org.jspecify.annotations.Nullable;

/**
 * The present value of one enum as one series per value, 1 for the present one and 0 for the
 * others. Nothing is shown before the first {@link #set}.
 *
 * <p>Any thread; the last write wins.
 */
final class EnumGauge {
  private final Meters meters;
  private final Metric metric;
  // Written by whoever sees the state change, read by the thread that renders the page.
  private volatile @Nullable Enum<?> present;

  EnumGauge(Meters meters, Metric metric) {
    this.meters = meters;
    this.metric = metric;
  }

  /** The state is {@code value}, always of the same enum. */
  void set(Enum<?> value) {
    if (present == null) {
      register(value);
    }
    present = value;
  }

  private synchronized void register(Enum<?> value) {
    if (present == null) {
      present = value;
      for (Enum<?> each : value.getDeclaringClass().getEnumConstants()) {
        meters.gauge(metric, () -> each.equals(present) ? 1 : 0, EnumCounters.word(each));
      }
    }
  }
}
