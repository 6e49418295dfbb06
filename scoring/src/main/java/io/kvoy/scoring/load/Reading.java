// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

/**
 * One number of a worker's metrics page, or why there is none: absent is not zero.
 *
 * @param state whether {@code value} means anything
 * @param value the number when {@link State#KNOWN}, else 0
 */
public record Reading(State state, double value) {
  /** Whether and why a number is there. */
  public enum State {
    KNOWN,
    /** The page has no such series. */
    MISSING,
    /** The series is there but its value is NaN, infinite or outside what it can be. */
    INVALID
  }

  /** No such series. */
  public static final Reading MISSING = new Reading(State.MISSING, 0);

  /** A series that makes no sense. */
  public static final Reading INVALID = new Reading(State.INVALID, 0);

  /** A number, or {@link #INVALID} when it is not a finite one within the bounds. */
  public static Reading within(double value, double min, double max) {
    return value >= min && value <= max && !Double.isInfinite(value)
        ? new Reading(State.KNOWN, value)
        : INVALID;
  }

  /** True when there is a number. */
  public boolean isKnown() {
    return state == State.KNOWN;
  }

  /** The number, or what to use in its place. */
  public double orElse(double fallback) {
    return isKnown() ? value : fallback;
  }
}
