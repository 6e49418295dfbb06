// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

/** How a worker's response ended. */
public enum ResponseEnd {
  /** Complete. */
  END,
  /** The client left. */
  ABORT,
  /** The worker or the connection to it broke, or none was to be had. */
  RESET,
  /** Complete, but an error status of the worker. */
  ERROR_STATUS,
  /** Nobody reported the end in time. */
  EXPIRED
}
