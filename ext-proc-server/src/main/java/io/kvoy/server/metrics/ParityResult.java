// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

/** Outcome of one comparison of token ids. */
public enum ParityResult {
  MATCH,
  MISMATCH
}
