// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.fail;

import io.kvoy.tokenizer.LocalTokenizers;
import io.kvoy.tokenizer.encode.TextEncoder;
import io.kvoy.tokenizer.files.AddedToken;
import io.kvoy.tokenizer.files.TokenizerFolder;
import java.util.Arrays;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class BpeTextEncoderTest {

  /** Tokens to compare per family; raise it with -Dkvoy.bpe.tokens=10000000. */
  private static final long TOKENS = Long.getLong("kvoy.bpe.tokens", 200_000);

  private static final long SEED = Long.getLong("kvoy.bpe.seed", 20261130);

  @ParameterizedTest
  @ValueSource(strings = {"qwen3", "llama3_1", "deepseek_v3", "gptoss"})
  void idsEqualThoseOfTheReferenceOnOrdinaryAndOnHostileTexts(String family) {
    TokenizerFolder folder = LocalTokenizers.folder(family);
    BpeTextEncoder fast = supported(folder);
    TextEncoder reference = LocalTokenizers.djl(family);
    long tokens = 0;

    for (String text : ProbeTexts.CORPUS) {
      tokens += assertSame(fast, reference, text);
    }
    var random =
        new ProbeTexts(SEED, folder.addedTokens().stream().map(AddedToken::content).toList());
    while (tokens < TOKENS) {
      tokens += assertSame(fast, reference, random.next());
    }
  }

  private static int assertSame(TextEncoder fast, TextEncoder reference, String text) {
    int[] expected = reference.encode(text, false);
    int[] actual = fast.encode(text, false);
    if (!Arrays.equals(expected, actual)) {
      assertThat(actual).as(escaped(text)).isEqualTo(expected);
    }
    return expected == null ? 0 : expected.length;
  }

  private static String escaped(String text) {
    var out = new StringBuilder();
    text.chars()
        .forEach(
            c ->
                out.append(
                    c >= ' ' && c < 127 ? String.valueOf((char) c) : "\\u%04X".formatted(c)));
    return out.toString();
  }

  static BpeTextEncoder supported(TokenizerFolder folder) {
    return switch (BpeFileReader.read(folder)) {
      case BpeFileRead.Supported(BpeTextEncoder encoder) -> encoder;
      case BpeFileRead.Unsupported(String feature) -> fail("unsupported: " + feature);
    };
  }
}
