// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

/** What a pick could go by, best first. */
public enum DecisionMode {
  /** Exact tokens matched against known caches. */
  EXACT,
  /** An estimate of the prompt's size. */
  ESTIMATED,
  /** Load alone. */
  LOAD_ONLY,
  /** Nothing known. */
  ROUND_ROBIN
}
