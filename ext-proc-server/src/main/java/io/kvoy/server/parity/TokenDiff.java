// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.parity;

import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Where two tokenizations part.
 *
 * @param prompt index of the first prompt that differs; the number of prompts when one side has
 *     more
 * @param position first position that differs, the shorter length when one begins the other
 * @param ownTokens length of Kvoy's
 * @param workerTokens length of the worker's
 */
record TokenDiff(int prompt, int position, int ownTokens, int workerTokens) {

  /** Null when they are equal. */
  static @Nullable TokenDiff of(List<int[]> own, List<int[]> worker) {
    int both = Math.min(own.size(), worker.size());
    for (int i = 0; i < both; i++) {
      int[] a = own.get(i);
      int[] b = worker.get(i);
      int position = Arrays.mismatch(a, b);
      if (position >= 0) {
        return new TokenDiff(i, position, a.length, b.length);
      }
    }
    return own.size() == worker.size() ? null : new TokenDiff(both, 0, own.size(), worker.size());
  }
}
