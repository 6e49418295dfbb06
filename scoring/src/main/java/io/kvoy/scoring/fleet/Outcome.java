// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

/** How a request ended, by who is to blame; only {@link #FAILURE} counts against the worker. */
public enum Outcome {
  /** Answered, to the end. */
  SUCCESS,
  /** The worker refused the request for what it is (4xx): no word about the worker's health. */
  CALLER_MISTAKE,
  /** The worker has no room right now (429, 503): avoid it for a moment, it is not broken. */
  BACK_PRESSURE,
  /** 5xx, reset, timeout or a connection that broke: the worker's fault until shown otherwise. */
  FAILURE,
  /** The connection could not be opened: the process is gone or not there yet. */
  CONNECT_FAILED,
  /** The client left; nobody's fault. */
  CLIENT_ABORT,
  /** Nobody told us how it ended (lost report, expired reservation). */
  UNKNOWN;

  /**
   * Reads an HTTP status that the worker itself answered.
   *
   * @param status 100..599; anything else is {@link #UNKNOWN}
   */
  public static Outcome ofStatus(int status) {
    if (status == 429 || status == 503) {
      return BACK_PRESSURE;
    }
    return switch (status / 100) {
      case 1, 2, 3 -> SUCCESS;
      case 4 -> CALLER_MISTAKE;
      case 5 -> FAILURE;
      default -> UNKNOWN;
    };
  }
}
