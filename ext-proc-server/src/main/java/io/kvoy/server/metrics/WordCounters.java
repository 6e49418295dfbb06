// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import io.micrometer.core.instrument.Counter;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Counters of one metric whose last tag is a word that the code gives, such as the reason of a
 * degraded decision. Bounded all the same, should a word ever carry input.
 *
 * <p>Any thread; a hash look-up per count, so for the rarer paths only.
 */
final class WordCounters {
  /** More words than the code has; what exceeds it counts as {@code other}. */
  static final int MAX_WORDS = 64;

  private static final int MAX_CHARS = 48;
  private static final String OTHER = "other";

  private final Meters meters;
  private final Metric metric;
  private final ConcurrentHashMap<String, Counter> counters = new ConcurrentHashMap<>();

  WordCounters(Meters meters, Metric metric) {
    this.meters = meters;
    this.metric = metric;
  }

  /** Counts one for {@code word}; {@code -} becomes {@code _} so that spellings do not differ. */
  void increment(String word) {
    Counter counter = counters.get(word);
    if (counter == null) {
      counter = create(word);
    }
    counter.increment();
  }

  private synchronized Counter create(String word) {
    // Two spellings of one word give the same meter: the registry finds it again.
    boolean isWord = word.length() <= MAX_CHARS && word.matches("[A-Za-z0-9_.-]+");
    if (!isWord || counters.size() >= MAX_WORDS) {
      return counters.computeIfAbsent(OTHER, other -> meters.counter(metric, other));
    }
    return counters.computeIfAbsent(
        word, w -> meters.counter(metric, w.toLowerCase(java.util.Locale.ROOT).replace('-', '_')));
  }
}
