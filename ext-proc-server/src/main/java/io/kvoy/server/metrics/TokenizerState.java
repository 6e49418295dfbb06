// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

/** State of a pool's tokenizer. */
public enum TokenizerState {
  /** The pool has none configured. */
  ABSENT,
  LOADING,
  READY,
  /** Could not be loaded; the pool is routed by load. */
  FAILED,
  /** Its ids are not those of the workers; the pool is routed by load. */
  MISMATCH
}
