// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.inference.InferenceRequest;
import io.kvoy.inference.json.SpliceableBody;
import io.kvoy.scoring.kvcache.BlockKeys;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What reading and tokenizing made of a request: everything that is known before a worker is
 * chosen. Made on a decision thread, without any effect on the fleet, so that a late one can be
 * dropped.
 */
public sealed interface Understanding {

  /** The request as its headers tell it. */
  RequestHead head();

  /**
   * To be sent to a worker of this pool.
   *
   * @param pool the pool that serves the model
   * @param request the parsed request, null when only its path is known
   * @param prompts block keys of each prompt, or of the known beginning of the only one; empty when
   *     no token is known exactly
   * @param promptTokens exact or estimated prompt tokens, 0 when nothing is known
   * @param degraded why less is known than could be, empty when all is; metric-safe
   * @param body the decoded body, null when it was not read; let go of once the worker is picked
   * @param edited what the worker is sent in its place, so that it reports usage; null when it is
   *     sent the client's own. The answer then has a chunk that the client did not ask for
   * @param readNanos time spent reading and tokenizing
   */
  record Routable(
      RequestHead head,
      ModelPoolRuntime pool,
      @Nullable InferenceRequest request,
      List<BlockKeys> prompts,
      int promptTokens,
      String degraded,
      @Nullable SpliceableBody body,
      @Nullable EditedBody edited,
      long readNanos)
      implements Understanding {

    public Routable {
      prompts = List.copyOf(prompts);
    }

    /** The same for a request that waits: the body that was read is not kept. */
    Routable withoutBody() {
      return new Routable(
          head, pool, request, prompts, promptTokens, degraded, null, edited, readNanos);
    }

    /** About the bytes of what was read of the body, and of what is sent in its place. */
    long bytes() {
      return (body == null ? 0L : body.bytes().length)
          + (edited == null ? 0L : edited.bytes().length);
    }

    /** Time to first token that counts as good: the caller's, else the pool's. */
    public double targetTtftMillis() {
      int asked = head.wishes().ttftMillis();
      return asked > 0 ? asked : (double) pool.config().targetTtft().toMillis();
    }

    /** Whether all of the prompts' tokens are those that the worker will compute. */
    public boolean exact() {
      return !prompts.isEmpty() && degraded.isEmpty();
    }
  }

  /**
   * The caller's mistake, or nobody serves it: no worker is to see it.
   *
   * @param decision the answer
   */
  record Refused(RequestHead head, RoutingDecision.Reject decision) implements Understanding {}
}
