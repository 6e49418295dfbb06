// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import io.kvoy.tokenizer.files.AddedToken;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Stands in for an encoder without added tokens where there is only one with them: what spells out
 * an added token is not encoded at all. Thread-safe.
 */
public final class UnmarkedTextEncoder implements TextEncoder {

  private final TextEncoder encoder;
  private final AddedTokenMatcher addedTokens;

  /**
   * @param addedTokens of the encoder's file, which must not normalize text
   */
  public UnmarkedTextEncoder(TextEncoder encoder, List<AddedToken> addedTokens) {
    this.encoder = encoder;
    this.addedTokens = new AddedTokenMatcher(addedTokens);
  }

  @Override
  public int @Nullable [] encode(String text, boolean addSpecialTokens) {
    return addedTokens.find(text, 0, text.length()) == AddedTokenMatcher.NONE
        ? encoder.encode(text, addSpecialTokens)
        : null;
  }
}
