// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

/** How an ext_proc stream ended. */
public enum StreamEnd {
  /** We or the gateway closed it after a whole exchange; a cancel after the last answer counts. */
  COMPLETE,
  /** The gateway cancelled it in the middle of an exchange. */
  CANCELLED,
  /** A protocol or transport error. */
  ERROR
}
