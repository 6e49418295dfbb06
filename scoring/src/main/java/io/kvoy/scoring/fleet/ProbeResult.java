// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

/** What one health probe saw. */
public sealed interface ProbeResult {
  /** 2xx. */
  record Healthy() implements ProbeResult {}

  /**
   * An answer, but not 2xx.
   *
   * @param status HTTP status
   */
  record Unhealthy(int status) implements ProbeResult {}

  /** No answer within the probe's timeout: overloaded, stuck or far away. */
  record TimedOut() implements ProbeResult {}

  /**
   * No connection.
   *
   * @param detail short cause for people
   */
  record Unreachable(String detail) implements ProbeResult {}
}
