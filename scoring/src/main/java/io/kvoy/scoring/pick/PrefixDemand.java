// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;

/**
 * How often the shared prefixes of one pool are asked for, and how many tokens those in demand have
 * together. The picker tells it where each prompt leaves what some worker holds: prompts that share
 * a prefix leave at the same place, turns of one conversation each at a new one.
 *
 * <p>So it tells a prefix that many use, of which a second copy is worth having, from one that
 * belongs to a single conversation, which a copy would only push out of a cache.
 *
 * <p>Any thread; no lock. Entries are replaced whole, a lost update is of no importance. Bounded:
 * {@value #SLOTS} prefixes, and of those that fall into the same few slots the least wanted one
 * goes.
 */
final class PrefixDemand {
  /** What one use is remembered for: longer than a burst, shorter than a change of traffic. */
  static final double MEMORY_SECONDS = 60;

  /** Remembered uses from which a prefix counts as shared: three close to each other. */
  static final double SHARED_FROM_USES = 1.5;

  private static final int SLOTS = 4096;
  private static final int WAYS = 4;

  /** How old the sum may be; looking through the table takes some microseconds. */
  private static final long SUM_AGE_NANOS = 1_000_000_000L;

  private record Entry(long key, int tokens, double uses, long atNanos) {
    double usesAt(long nowNanos) {
      return uses * Math.exp(-(nowNanos - atNanos) / 1e9 / MEMORY_SECONDS);
    }
  }

  private record Sum(double tokens, long atNanos) {}

  private final AtomicReferenceArray<@Nullable Entry> table = new AtomicReferenceArray<>(SLOTS);

  /** Replaced by whoever finds it old. */
  private volatile @Nullable Sum sum;

  /**
   * Notes one use down.
   *
   * @param key of the last block that is held; 0 = nothing is held, nothing is noted
   * @param tokens up to the end of that block
   * @return uses that are remembered, this one included
   */
  double used(long key, int tokens, long nowNanos) {
    if (key == 0) {
      return 0;
    }
    int first = firstSlot(key);
    int slot = -1;
    double least = Double.POSITIVE_INFINITY;
    for (int way = 0; way < WAYS; way++) {
      int i = (first + way) & (SLOTS - 1);
      Entry entry = table.get(i);
      if (entry == null) {
        if (least > -1) {
          slot = i;
          least = -1;
        }
      } else {
        double uses = entry.usesAt(nowNanos);
        if (entry.key() == key) {
          table.set(i, new Entry(key, tokens, uses + 1, nowNanos));
          return uses + 1;
        }
        if (uses < least) {
          slot = i;
          least = uses;
        }
      }
    }
    table.set(slot, new Entry(key, tokens, 1, nowNanos));
    return 1;
  }

  private static int firstSlot(long key) {
    return (int) (key ^ (key >>> 32)) & (SLOTS - 1);
  }

  /** Uses that are remembered, without a further one. */
  double uses(long key, long nowNanos) {
    int first = firstSlot(key);
    for (int way = 0; way < WAYS; way++) {
      Entry entry = table.get((first + way) & (SLOTS - 1));
      if (entry != null && entry.key() == key) {
        return entry.usesAt(nowNanos);
      }
    }
    return 0;
  }

  /** Tokens of all prefixes that are shared at present, each once. */
  double sharedTokens(long nowNanos) {
    Sum known = sum;
    if (known != null && nowNanos - known.atNanos() < SUM_AGE_NANOS) {
      return known.tokens();
    }
    double tokens = 0;
    for (int i = 0; i < SLOTS; i++) {
      Entry entry = table.get(i);
      if (entry != null && entry.usesAt(nowNanos) >= SHARED_FROM_USES) {
        tokens += entry.tokens();
      }
    }
    sum = new Sum(tokens, nowNanos);
    return tokens;
  }
}
