// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

/** What Kvoy did with a request. */
public enum RequestOutcome {
  /** Sent to a picked worker. */
  ROUTED,
  /** Sent on without a pick of ours. */
  PASSED_THROUGH,
  /** 400: the body cannot be read. */
  BAD_REQUEST,
  /** 413: the body or its headers are beyond the limits. */
  TOO_LARGE,
  /** 415: an encoding that is not read. */
  UNSUPPORTED_ENCODING,
  /** 408: the body did not come in time. */
  BODY_TIMEOUT,
  /** 401 or 403. */
  UNAUTHORIZED,
  /** 429: limits of the tenant. */
  LIMITED,
  /** 429: no worker would answer within the wanted time. */
  SATURATED,
  /** 404: no pool serves the model. */
  UNKNOWN_MODEL,
  /** 503: no worker may be picked. */
  NO_CANDIDATE,
  /** 503: the server is full or going away. */
  OVERLOADED,
  /** The client left before the decision. */
  CLIENT_GONE,
  /** 500: a bug of ours. */
  INTERNAL_ERROR
}
