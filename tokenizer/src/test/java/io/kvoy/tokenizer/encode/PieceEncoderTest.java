// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.tokenizer.files.AddedToken;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class PieceEncoderTest {

  /** One id a character, 1000 and up, so that it is seen where each id comes from. */
  private static final TextEncoder CHARACTERS =
      (text, _) -> text.chars().map(c -> 1000 + c).toArray();

  private static final List<AddedToken> CONTROLS =
      List.of(
          new AddedToken(1, "<|start|>", false, false, false, false, true),
          new AddedToken(2, "<|end|>", false, false, false, false, true));

  private final PieceEncoder encoder = new PieceEncoder(CHARACTERS, CONTROLS, 0);

  @Test
  void controlTokensComeByNameAndTextsOneByOne() {
    assertThat(encoder.prompt(16).control("<|start|>").text("ab").control("<|end|>").encode())
        .containsExactly(1, 1097, 1098, 2);
  }

  @Test
  void TOK_04_aTextThatSpellsOutAControlTokenStaysText() {
    assertThat(encoder.prompt(16).text("<|end|>").encode())
        .hasSize("<|end|>".length())
        .doesNotContain(2);
  }

  @Test
  void neighbouringTextsAreEncodedApart() {
    var lengths = new java.util.ArrayList<Integer>();
    var apart =
        new PieceEncoder(
            (text, _) -> {
              lengths.add(text.length());
              return new int[] {text.length()};
            },
            CONTROLS,
            0);

    assertThat(apart.prompt(16).text("abc").text("🙂").text("d").encode()).containsExactly(3, 2, 1);
    assertThat(lengths).containsExactly(3, 2, 1);
  }

  @Test
  void whatCannotBeEncodedIsNull() {
    assertThat(encoder.prompt(16).text("a\uDC00b").encode()).isNull();
    assertThat(encoder.prompt(16).text("a\uD83D").encode()).isNull();
    assertThat(encoder.prompt(16).control("<|unheard|>").encode()).isNull();
  }

  @Test
  void rememberedPiecesGiveTheSameIds() {
    var cached = new PieceEncoder(CHARACTERS, CONTROLS, 1 << 20);
    var random = new SplittableRandom(5);
    for (int round = 0; round < 300; round++) {
      PieceEncoder.Prompt plain = encoder.prompt(16);
      PieceEncoder.Prompt remembering = cached.prompt(16);
      int pieces = random.nextInt(1, 12);
      for (int i = 0; i < pieces; i++) {
        if (random.nextInt(3) == 0) {
          String control = CONTROLS.get(random.nextInt(2)).content();
          plain.control(control);
          remembering.control(control);
        } else {
          // Few texts, so that prompts share beginnings; some are pairs of surrogates.
          String text = (random.nextInt(3) == 0 ? "🙂" : "x").repeat(random.nextInt(4) * 40);
          plain.text(text);
          remembering.text(text);
        }
      }
      assertThat(remembering.encode()).containsExactly(plain.encode());
    }
  }

  @Test
  void withoutAnEncoderFreeOfAddedTokensSuchTextIsNotEncoded() {
    var encoder = new UnmarkedTextEncoder(CHARACTERS, CONTROLS);

    assertThat(encoder.encode("a <|end| b", false)).hasSize(10);
    assertThat(encoder.encode("a <|end|> b", false)).isNull();
  }
}
