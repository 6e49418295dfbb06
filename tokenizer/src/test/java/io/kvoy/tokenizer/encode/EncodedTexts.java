// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import io.kvoy.inference.TokenIds;
import java.util.List;

/** Encoded texts for tests that only keep them. */
public final class EncodedTexts {
  private EncodedTexts() {}

  /** One of that many ids. */
  public static EncodedText of(int ids) {
    return of("text", ids);
  }

  /** That text, as so many ids. */
  public static EncodedText of(String text, int ids) {
    return EncodedText.of(List.of(text), TokenIds.of(new int[ids]), new int[0], new int[0]);
  }
}
