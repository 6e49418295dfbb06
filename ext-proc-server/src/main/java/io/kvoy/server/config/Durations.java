// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.math.BigDecimal;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** The written form of durations: {@code 250ms}, {@code 1.5s}, {@code 15m}, {@code 1d}. */
final class Durations {
  private static final Pattern WRITTEN =
      Pattern.compile("([0-9]{1,12}(?:\\.[0-9]{1,9})?)(ns|us|ms|s|m|h|d)");

  private static final long[] UNIT_NANOS = {
    86_400_000_000_000L, 3_600_000_000_000L, 60_000_000_000L, 1_000_000_000L, 1_000_000L, 1_000L, 1L
  };
  private static final String[] UNIT_NAMES = {"d", "h", "m", "s", "ms", "us", "ns"};

  private Durations() {}

  /** Reads the written form; null when the text is not one or is no whole number of ns. */
  static @Nullable Duration parse(String text) {
    Matcher matcher = WRITTEN.matcher(text);
    if (!matcher.matches()) {
      return null;
    }
    long unitNanos = 1;
    for (int i = 0; i < UNIT_NAMES.length; i++) {
      if (UNIT_NAMES[i].equals(matcher.group(2))) {
        unitNanos = UNIT_NANOS[i];
      }
    }
    BigDecimal nanos = new BigDecimal(matcher.group(1)).multiply(BigDecimal.valueOf(unitNanos));
    try {
      return Duration.ofNanos(nanos.longValueExact());
    } catch (ArithmeticException _) {
      return null;
    }
  }

  /** The shortest written form without a fraction. */
  static String write(Duration duration) {
    long nanos = duration.toNanos();
    if (nanos == 0) {
      return "0s";
    }
    int unit = 0;
    while (nanos % UNIT_NANOS[unit] != 0) {
      unit++;
    }
    return nanos / UNIT_NANOS[unit] + UNIT_NAMES[unit];
  }
}
