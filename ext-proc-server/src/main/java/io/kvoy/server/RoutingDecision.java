// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.server.feedback.Dispatch;
import io.kvoy.server.metrics.RequestOutcome;

/** The answer to one request. */
public sealed interface RoutingDecision {

  /**
   * Send it to this worker.
   *
   * @param dispatch the work just reserved; whoever holds it must end it exactly once
   */
  record Route(Dispatch dispatch) implements RoutingDecision {}

  /**
   * Answer it here.
   *
   * @param status HTTP status, 400..599
   * @param body error in the caller's own API shape
   * @param outcome why, as a value
   * @param retryAfterSeconds 0 for no {@code retry-after} header
   */
  @SuppressWarnings("ArrayRecordComponent") // owned by the one door that sends it
  record Reject(int status, byte[] body, RequestOutcome outcome, int retryAfterSeconds)
      implements RoutingDecision {}
}
