// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.parity;

import io.kvoy.server.metrics.ParityState;

/**
 * Whether a pool's token ids are believed to be those of its workers, from the comparisons so far.
 *
 * <pre>
 * from         to           trigger
 * UNKNOWN      MATCHING     an agreement
 * UNKNOWN,     SUSPECT      a difference
 *   MATCHING
 * SUSPECT      MATCHING     an agreement
 * SUSPECT      MISMATCHING  {@code threshold} differences in a row, or half of the last 16
 * MISMATCHING  MATCHING     {@code threshold} agreements in a row
 * </pre>
 *
 * <p>The rule of the half catches a fleet of which some workers differ, whose differences never
 * come in a row. One thread writes.
 */
final class ParityVerdict {
  private static final int WINDOW = 16;

  /** Volatile as metrics and pages read it. */
  private volatile ParityState state = ParityState.UNKNOWN;

  private volatile long checked;
  private volatile long mismatched;
  private int agreementsInARow;
  private int differencesInARow;

  /** The last {@link #WINDOW} comparisons, newest in the lowest bit, 1 for a difference. */
  private int window;

  ParityState state() {
    return state;
  }

  long checked() {
    return checked;
  }

  long mismatched() {
    return mismatched;
  }

  /** Takes a comparison in and tells the state after it. */
  @SuppressWarnings("NonAtomicVolatileUpdate") // one writer
  ParityState record(boolean agrees, int threshold) {
    checked++;
    mismatched += agrees ? 0 : 1;
    agreementsInARow = agrees ? agreementsInARow + 1 : 0;
    differencesInARow = agrees ? 0 : differencesInARow + 1;
    window = ((window << 1) | (agrees ? 0 : 1)) & ((1 << WINDOW) - 1);
    state = next(agrees, threshold);
    return state;
  }

  private ParityState next(boolean agrees, int threshold) {
    if (state == ParityState.MISMATCHING) {
      if (agreementsInARow < threshold) {
        return ParityState.MISMATCHING;
      }
      window = 0;
      return ParityState.MATCHING;
    }
    boolean isHalf = checked >= WINDOW && Integer.bitCount(window) * 2 >= WINDOW;
    if (differencesInARow >= threshold || isHalf) {
      return ParityState.MISMATCHING;
    }
    return agrees ? ParityState.MATCHING : ParityState.SUSPECT;
  }
}
