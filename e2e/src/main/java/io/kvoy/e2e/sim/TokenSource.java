// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

/** The model's noise: which token comes next. Pure: the same arguments give the same token. */
interface TokenSource {

  /**
   * @param promptSeed number drawn from the prompt and the request's variant
   * @param index 0 for the first generated token
   * @param mayEnd whether the end-of-text token is allowed here
   */
  int next(long promptSeed, int index, boolean mayEnd);

  /** Whether this token ends a text. */
  boolean isEnd(int tokenId);
}
