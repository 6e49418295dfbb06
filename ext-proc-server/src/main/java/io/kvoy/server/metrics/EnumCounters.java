// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import io.micrometer.core.instrument.Counter;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;

/**
 * Counters of one metric whose last tag is a value of one enum, found by ordinal.
 *
 * <p>The enum may be anybody's, so that this package need not know the packages that it counts for;
 * values of two enums in one metric are refused. Any thread, no locks after the first use of a
 * value.
 */
@SuppressWarnings("EnumOrdinal") // As an index only, and checked against the value itself.
final class EnumCounters {
  /** More than the values of any enum that is counted. */
  private static final int MAX_VALUES = 64;

  private final Meters meters;
  private final Metric metric;
  private final String[] leading;
  private final AtomicReferenceArray<@Nullable Slot> slots = new AtomicReferenceArray<>(MAX_VALUES);

  private record Slot(Enum<?> value, Counter counter) {}

  EnumCounters(Meters meters, Metric metric, String... leading) {
    this.meters = meters;
    this.metric = metric;
    this.leading = leading;
  }

  /** Counts one. */
  void increment(Enum<?> value) {
    counter(value).increment();
  }

  /** Counts {@code amount}. */
  void increment(Enum<?> value, double amount) {
    counter(value).increment(amount);
  }

  private Counter counter(Enum<?> value) {
    Slot slot = slots.get(value.ordinal());
    if (slot == null) {
      slot = create(value);
    }
    if (!slot.value().equals(value)) {
      throw new IllegalArgumentException(
          "%s counts %s, not %s"
              .formatted(metric, slot.value().getDeclaringClass(), value.getDeclaringClass()));
    }
    return slot.counter();
  }

  private synchronized Slot create(Enum<?> value) {
    Slot slot = slots.get(value.ordinal());
    if (slot == null) {
      String[] values = Arrays.copyOf(leading, leading.length + 1);
      values[leading.length] = word(value);
      slot = new Slot(value, meters.counter(metric, values));
      slots.set(value.ordinal(), slot);
    }
    return slot;
  }

  /** The value as tags spell it. */
  static String word(Enum<?> value) {
    return value.name().toLowerCase(Locale.ROOT);
  }
}
