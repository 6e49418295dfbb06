// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

/** Finds places where a text may be cut without changing its ids. Thread-safe. */
@FunctionalInterface
interface Cuts {

  /**
   * The first cut point that is at least {@code atLeast}, scanning from {@code from}, which must be
   * 0 or a cut point.
   *
   * @return -1 when there is none
   */
  int next(String text, int from, int atLeast);
}
