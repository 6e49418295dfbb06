// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.InferenceRequest.Truncation;
import io.kvoy.inference.InferenceRequest.Truncation.Side;
import org.junit.jupiter.api.Test;

final class TruncationTest {
  private static final int[] IDS = {1, 2, 3, 4};

  @Test
  void keepsTheEndThatVllmKeeps() {
    assertThat(new Truncation(2, Side.TOKENIZER_DEFAULT).of(IDS)).containsExactly(3, 4);
    assertThat(new Truncation(2, Side.KEEP_LAST).of(IDS)).containsExactly(3, 4);
    assertThat(new Truncation(2, Side.KEEP_FIRST).of(IDS)).containsExactly(1, 2);
    assertThat(new Truncation(0, Side.KEEP_LAST).of(IDS)).isEmpty();
  }

  @Test
  void leavesShorterPromptsAsTheyAre() {
    assertThat(new Truncation(4, Side.KEEP_LAST).of(IDS)).isSameAs(IDS);
    assertThat(new Truncation(Long.MAX_VALUE, Side.KEEP_FIRST).of(IDS)).isSameAs(IDS);
  }
}
