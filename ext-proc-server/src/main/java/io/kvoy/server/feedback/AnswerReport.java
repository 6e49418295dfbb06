// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.feedback;

import io.kvoy.inference.stream.TokenUsage;
import io.kvoy.scoring.fleet.Endpoint;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * What a proxy tells of an answer that did not pass by us.
 *
 * @param progress how far the answer is
 * @param status HTTP status, 0 while there is none
 * @param served who serves, which after a retry is not the one picked; null when nobody was reached
 * @param firstByteMicros from the request's first byte towards the worker to the first byte of the
 *     answer's body, on the proxy's own clock; empty before that byte. vLLM sends it with the first
 *     token, unlike the headers
 * @param usage as the worker reported it
 */
public record AnswerReport(
    Progress progress,
    int status,
    @Nullable Endpoint served,
    OptionalLong firstByteMicros,
    TokenUsage usage) {

  /** How far an answer is. */
  public enum Progress {
    RUNNING,
    /** Sent to its end. */
    COMPLETE,
    /** The client hung up before the end. */
    CLIENT_LEFT,
    /** No worker took the connection; the proxy answered itself. */
    UNREACHABLE,
    /**
     * The proxy answered itself without having tried a worker: none in its cluster, or its limit.
     */
    NOT_TRIED,
    /** The worker, or the connection to it, broke. */
    BROKEN
  }
}
