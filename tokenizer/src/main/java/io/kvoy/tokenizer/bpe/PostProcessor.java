// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.List;

/**
 * What {@code add_special_tokens} puts around the ids.
 *
 * @param before ids in front, such as a BOS
 * @param after ids behind
 */
record PostProcessor(List<Integer> before, List<Integer> after) {

  static final PostProcessor NONE = new PostProcessor(List.of(), List.of());

  PostProcessor {
    before = List.copyOf(before);
    after = List.copyOf(after);
  }
}
