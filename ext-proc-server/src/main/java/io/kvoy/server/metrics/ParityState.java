// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

/** What comparing token ids with the workers' has shown for a pool. */
public enum ParityState {
  /** Nothing compared yet. */
  UNKNOWN,
  MATCHING,
  /** The latest comparison differed; not often enough to act. */
  SUSPECT,
  /** The pool is routed by load. */
  MISMATCHING
}
