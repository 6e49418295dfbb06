// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.latency.Prediction;
import java.time.Duration;
import java.util.List;
import java.util.Set;

/** The answer of a pick. */
public sealed interface Pick {

  /**
   * A worker, with the request booked on it.
   *
   * @param worker who should serve
   * @param flight the booking; the caller reports first token and end to it
   * @param prediction when its first token is expected
   * @param considered who was looked at, for explaining
   * @param reason what tipped the scales
   * @param degradations what the pick had to do without; empty at best
   * @param fallbacks further workers, best first
   */
  record Picked(
      Worker worker,
      Flight flight,
      Prediction prediction,
      Considered considered,
      Reason reason,
      Set<Degradation> degradations,
      List<Worker> fallbacks)
      implements Pick {

    /** A short sentence for tables and headers; made when asked for. */
    public String why() {
      return Why.of(this);
    }
  }

  /**
   * Somebody, but nobody in time: every worker's predicted time is over the request's limit.
   * Nothing is booked; refuse the request or queue it.
   *
   * @param bestMillis shortest predicted time to first token
   * @param retryAfter when a worker's backlog will have gone down to the limit if nothing is added
   * @param isTooLongAlone whether it would be over the limit on workers that do nothing else, too:
   *     waiting is of no use
   * @param considered who was looked at
   */
  record Saturated(
      double bestMillis, Duration retryAfter, boolean isTooLongAlone, Considered considered)
      implements Pick {}

  /**
   * Nobody.
   *
   * @param reason why
   * @param considered who was looked at
   */
  record NoCandidate(Absence reason, Considered considered) implements Pick {}

  /** What tipped the scales. */
  enum Reason {
    /** Lowest predicted time to first token. */
    LOWEST_PREDICTION,
    /** Several were equally good; it had the least to do or was picked longest ago. */
    TIE,
    /** Several were equally good; it serves this session. */
    SESSION,
    /** Not seen for a while; sent there to learn. */
    EXPLORATION,
    /** Ejected a while ago; sent there to see whether it works again. */
    TRIAL,
    /** Next in turn. */
    TURN
  }

  /** Why there is nobody. */
  enum Absence {
    /** The list of candidates was empty. */
    NO_WORKERS,
    /** There are candidates but none is ready. */
    NONE_READY
  }
}
