// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.inference.ApiKind;
import io.kvoy.server.feedback.Dispatch;
import io.kvoy.server.metrics.RequestOutcome;
import io.kvoy.server.queue.WaitingRoom;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/** The answer to one request. */
public sealed interface RoutingDecision {

  /**
   * Send it to this worker.
   *
   * @param dispatch the work just reserved; whoever holds it must end it exactly once
   * @param edited the body to send in place of the client's, null for the client's own
   */
  record Route(Dispatch dispatch, @Nullable EditedBody edited) implements RoutingDecision {}

  /**
   * It waits: the decision comes later.
   *
   * @param place to be left when nobody wants the decision any more
   * @param bytes about what is kept for it meanwhile, besides what the door itself keeps
   */
  record Wait(WaitingRoom.Place<RoutingDecision> place, long bytes) implements RoutingDecision {}

  /**
   * Answer it here.
   *
   * @param outcome why; status and headers follow from it
   * @param body error in the caller's own API shape
   * @param retryAfterSeconds 0 for no {@code retry-after} header
   */
  @SuppressWarnings("ArrayRecordComponent") // owned by the one door that sends it
  record Reject(RequestOutcome outcome, byte[] body, int retryAfterSeconds)
      implements RoutingDecision {
    public Reject {
      if (!outcome.isRefusal()) {
        throw new IllegalArgumentException(outcome + " is not answered by Kvoy");
      }
    }

    /** A refusal with the words of the table. */
    public static Reject of(ApiKind api, RequestOutcome outcome) {
      return of(api, outcome, outcome.message());
    }

    /** A refusal that says more exactly what is wrong. */
    public static Reject of(ApiKind api, RequestOutcome outcome, String message) {
      return new Reject(outcome, outcome.error(api, message), outcome.retryAfterSeconds());
    }

    /** A refusal after which to wait at least that long. */
    public Reject retryAfter(Duration wait) {
      int seconds = (int) Math.min(Integer.MAX_VALUE, Math.ceilDiv(wait.toMillis(), 1000L));
      return new Reject(outcome, body, Math.max(outcome.retryAfterSeconds(), seconds));
    }

    /** HTTP status, 400..599. */
    public int status() {
      return outcome.status();
    }
  }
}
