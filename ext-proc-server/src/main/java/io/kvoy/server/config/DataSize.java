// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.math.BigDecimal;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * An amount of memory, written {@code 512B}, {@code 64KiB}, {@code 32MiB} or {@code 2GiB}.
 *
 * @param bytes non-negative
 */
public record DataSize(long bytes) implements Comparable<DataSize> {
  /** 18 digits fit a long; more would only be somebody trying. */
  private static final Pattern WRITTEN =
      Pattern.compile("([0-9]{1,18}(?:\\.[0-9]{1,6})?)(B|KiB|MiB|GiB)");

  public DataSize {
    if (bytes < 0) {
      throw new IllegalArgumentException("bytes must not be negative, was " + bytes);
    }
  }

  /** Reads the written form; null when the text is not one or is no whole number of bytes. */
  static @Nullable DataSize parse(String text) {
    Matcher matcher = WRITTEN.matcher(text);
    if (!matcher.matches()) {
      return null;
    }
    int shift =
        switch (matcher.group(2)) {
          case "KiB" -> 10;
          case "MiB" -> 20;
          case "GiB" -> 30;
          default -> 0;
        };
    BigDecimal bytes = new BigDecimal(matcher.group(1)).multiply(BigDecimal.valueOf(1L << shift));
    try {
      return new DataSize(bytes.longValueExact());
    } catch (ArithmeticException _) {
      return null;
    }
  }

  /** The number of bytes where an array or a library wants an int; capped at the largest int. */
  public int bytesAsInt() {
    return (int) Math.min(Integer.MAX_VALUE, bytes);
  }

  @Override
  public int compareTo(DataSize other) {
    return Long.compare(bytes, other.bytes);
  }

  @Override
  public String toString() {
    if (bytes == 0) {
      return "0B";
    }
    if (bytes % (1L << 30) == 0) {
      return (bytes >> 30) + "GiB";
    }
    if (bytes % (1L << 20) == 0) {
      return (bytes >> 20) + "MiB";
    }
    return bytes % (1L << 10) == 0 ? (bytes >> 10) + "KiB" : bytes + "B";
  }
}
