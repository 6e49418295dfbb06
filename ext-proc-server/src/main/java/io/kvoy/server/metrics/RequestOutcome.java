// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import io.kvoy.inference.ApiKind;
import io.kvoy.inference.dialect.ErrorBody;
import org.jspecify.annotations.Nullable;

/**
 * What Kvoy did with a request: the one table of causes, with what the client sees of each.
 *
 * <p>The constant is the {@code outcome} tag of {@code kvoy_requests_total}; status, error body,
 * {@code retry-after} and drop reason of every refusal are taken from here, and {@code
 * docs/outcomes.md} is written from here. What Envoy answers of its own accord is in {@code
 * io.kvoy.envoy.LocalReply}.
 */
public enum RequestOutcome {
  /** A worker was picked, by whatever was known. */
  ROUTED(0, 0, null, "", "a worker was picked"),
  /** The body is no request of the API that was called. */
  BAD_REQUEST(
      400,
      0,
      null,
      "The request body cannot be read.",
      "the body is not JSON, lacks a field that the API demands, or is not what its content-encoding says"),
  /** No pool serves the model. */
  UNKNOWN_MODEL(404, 0, null, "The model does not exist.", "no pool serves the model"),
  /** The body did not come in time. */
  BODY_TIMEOUT(
      408,
      0,
      null,
      "The request body did not arrive in time.",
      "the body was not whole after `timeouts.bodyWait`"),
  /** The body is larger than the limit, as it came or decompressed. */
  TOO_LARGE(
      413,
      0,
      null,
      "The request body is larger than the limit.",
      "the body is larger than `limits.maxRequestBody`, or than `limits.maxDecodedBody` once decompressed"),
  /** The headers are larger than the limit. */
  HEADERS_TOO_LARGE(
      431,
      0,
      null,
      "The request headers are larger than the limit.",
      "the headers are larger than `limits.maxHeaderBytes`"),
  /** No worker would answer within the wanted time. */
  SATURATED(
      429,
      1,
      "rejected-saturated",
      "All workers of this model are busy. Try again later.",
      "every worker is predicted to be later than the pool's `targetTtft`, with `refuseOverTarget`; "
          + "`retry-after` is the predicted wait, at least 1 s. With `queue`, when the queue is full, or the "
          + "objective's priority is negative"),
  /** Waited as long as it may. */
  QUEUE_EXPIRED(
      503,
      2,
      "rejected-ttl-expired",
      "No worker of this model became free in time. Try again.",
      "the request waited for the pool's `queue.timeout`"),
  /** No worker may be picked. */
  NO_CANDIDATE(
      503,
      2,
      "rejected-no-endpoints",
      "No worker of this model is ready. Try again shortly.",
      "no worker of the pool is ready, or none that the proxy's subset hint allows; with `queue` as for `saturated`"),
  /** The server itself is full. */
  OVERLOADED(
      503,
      1,
      "rejected-saturated",
      "The router is at its limit. Try again.",
      "more than `limits.maxStreams` requests are open, bodies being read take a quarter of the heap, or the "
          + "pool of a request cannot be told because it could not be read in time"),
  /** The client left before there was a decision; nothing was reserved. */
  CLIENT_GONE(0, 0, null, "", "the client left before the decision"),
  /** The proxy's configuration keeps request headers from Kvoy: it passed as it came. */
  UNSEEN(
      0,
      0,
      null,
      "",
      "the proxy does not send request headers: it passed as it came, to a worker of the proxy's own choice"),
  /** A bug of ours. */
  INTERNAL_ERROR(500, 0, null, "The router failed to decide.", "a fault of Kvoy, see its log");

  private final int status;
  private final int retryAfterSeconds;
  private final @Nullable String dropReason;
  private final String message;
  private final String cause;

  RequestOutcome(
      int status,
      int retryAfterSeconds,
      @Nullable String dropReason,
      String message,
      String cause) {
    this.status = status;
    this.retryAfterSeconds = retryAfterSeconds;
    this.dropReason = dropReason;
    this.message = message;
    this.cause = cause;
  }

  /** Whether Kvoy answers such a request itself. */
  public boolean isRefusal() {
    return status != 0;
  }

  /** HTTP status of the answer, 400..599; 0 where Kvoy gives none. */
  public int status() {
    return status;
  }

  /** Least number of seconds to wait before the next try, 0 for no {@code retry-after}. */
  public int retryAfterSeconds() {
    return retryAfterSeconds;
  }

  /**
   * Value of the endpoint picker protocol's header for requests that were dropped for want of
   * capacity; null for others.
   */
  public @Nullable String dropReason() {
    return dropReason;
  }

  /** What the client is told when nothing more exact is known. */
  public String message() {
    return message;
  }

  /** When it happens, for people who read the documentation; Markdown. */
  public String cause() {
    return cause;
  }

  /** The error in the shape of the API that was called. */
  public byte[] error(ApiKind api, String message) {
    return ErrorBody.of(api, status, message);
  }
}
