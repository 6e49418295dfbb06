// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.scoring.latency.Prediction;
import java.time.Instant;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One decision with its reasons, for people: what was known, which workers were looked at, and what
 * was expected of each. Holds no prompt text. Immutable; what really happened stands in {@link
 * DecisionOutcome}.
 *
 * @param id short id, in the response header and the debug pages
 * @param at wall clock, for people only
 * @param requestId the proxy's request id
 * @param api API of the request
 * @param model model as configured, {@code other} when it is not
 * @param pool pool that serves it
 * @param policy policy that applied
 * @param mode how much was known: {@code exact}, {@code estimated}, …
 * @param degraded why it was not more, empty when nothing was missing
 * @param promptTokens exact or estimated
 * @param candidates workers looked at, best first
 * @param target name of the worker taken, empty when none was
 * @param why the choice in a few words
 * @param readMicros reading and tokenizing
 * @param decideMicros look-up, prediction and pick
 */
public record DecisionRecord(
    String id,
    Instant at,
    String requestId,
    String api,
    String model,
    String pool,
    String policy,
    String mode,
    String degraded,
    int promptTokens,
    List<Candidate> candidates,
    String target,
    String why,
    long readMicros,
    long decideMicros) {

  public DecisionRecord {
    candidates = List.copyOf(candidates);
  }

  /**
   * One worker that was looked at.
   *
   * @param worker its name
   * @param standing {@code open}, or why it was out
   * @param cachedTokens prompt tokens expected in its cache
   * @param ttftMillis predicted first token, NaN when it was out
   * @param priceMillis what the choice would cost others
   * @param terms the prediction's terms, for the worker taken; null for the others
   */
  public record Candidate(
      String worker,
      String standing,
      int cachedTokens,
      double ttftMillis,
      double priceMillis,
      @Nullable Prediction terms) {}
}
