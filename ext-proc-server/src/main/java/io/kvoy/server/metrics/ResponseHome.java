// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

/** Whether a request that continues an earlier answer reached the worker that holds it. */
public enum ResponseHome {
  /** It was sent there. */
  FOUND,
  /** No answer of this id has passed by here. */
  UNKNOWN,
  /** The worker has left or was started anew; its answers are lost. */
  GONE,
  /** The worker is there and may not be picked at the moment. */
  NOT_READY
}
