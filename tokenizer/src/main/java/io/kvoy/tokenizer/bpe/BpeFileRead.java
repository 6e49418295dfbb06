// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

/** Whether the fast encoder knows a {@code tokenizer.json}. */
public sealed interface BpeFileRead {

  /** Every part of the file is known. {@link DifferentialCheck} has the last word. */
  record Supported(BpeTextEncoder encoder) implements BpeFileRead {}

  /**
   * Something in it is not known here; the reference library takes it.
   *
   * @param feature what, as a short word for status and log
   */
  record Unsupported(String feature) implements BpeFileRead {}
}
