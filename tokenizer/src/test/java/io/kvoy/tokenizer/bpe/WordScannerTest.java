// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Each scanner against the regular expression that it replaces, run by the reference library. */
class WordScannerTest {

  private static final List<String> GPT2 =
      List.of("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+");

  private static final long SEED = 7;
  private static final int RANDOM_TEXTS = 3000;

  static Stream<Map.Entry<List<String>, WordScanner>> scanners() {
    return Stream.concat(
        BpeFileReader.SCANNERS.entrySet().stream(), Stream.of(Map.entry(GPT2, new Gpt2Scanner())));
  }

  @ParameterizedTest
  @MethodSource("scanners")
  void wordsEqualThoseOfTheExpression(Map.Entry<List<String>, WordScanner> entry) {
    try (var reference = RegexReference.splitting(entry.getKey())) {
      for (String text : ProbeTexts.CORPUS) {
        assertSame(entry.getValue(), reference, text);
      }
      var random = new ProbeTexts(SEED, List.of());
      for (int i = 0; i < RANDOM_TEXTS; i++) {
        assertSame(entry.getValue(), reference, random.next());
      }
    }
  }

  @ParameterizedTest
  @MethodSource("scanners")
  void everyCodePointIsCutAsTheExpressionCutsIt(Map.Entry<List<String>, WordScanner> entry) {
    try (var reference = RegexReference.splitting(entry.getKey())) {
      var text = new StringBuilder();
      for (int codePoint = 0; codePoint <= Character.MAX_CODE_POINT; codePoint++) {
        int type = Character.getType(codePoint);
        if (type != Character.SURROGATE && type != Character.PRIVATE_USE) {
          // Alone, doubled, before and behind letters, and where a contraction folds case.
          String c = Character.toString(codePoint);
          text.append("a'").append(c).append("x ").append(c).append(c).append("\n A").append(c);
        }
        if (text.length() > 4000) {
          assertSame(entry.getValue(), reference, text.toString());
          text.setLength(0);
        }
        if (isLargeAndUniform(codePoint)) {
          codePoint += 250;
        }
      }
      assertSame(entry.getValue(), reference, text.toString());
    }
  }

  /**
   * Ideographs, syllables, private use and unassigned planes; CodePointClassesTest looks at each of
   * them.
   */
  private static boolean isLargeAndUniform(int codePoint) {
    return (codePoint >= 0x3400 && codePoint < 0x9E00)
        || (codePoint >= 0xAC00 && codePoint < 0xD600)
        || (codePoint >= 0xE000 && codePoint < 0xF800)
        || (codePoint >= 0x20000 && codePoint < 0xE0000)
        || codePoint >= 0xE1000;
  }

  private static void assertSame(WordScanner scanner, RegexReference reference, String text) {
    int[] expected = reference.wordEnds(text);
    int[] actual = wordEnds(scanner, text);
    if (!Arrays.equals(actual, expected)) {
      assertThat(words(text, actual)).isEqualTo(words(text, expected));
    }
  }

  private static int[] wordEnds(WordScanner scanner, String text) {
    byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
    var ends = new ArrayList<Integer>();
    int codePoints = 0;
    int start = 0;
    while (start < utf8.length) {
      int end = scanner.wordEnd(utf8, start, utf8.length);
      codePoints +=
          (int) new String(utf8, start, end - start, StandardCharsets.UTF_8).codePoints().count();
      ends.add(codePoints);
      start = end;
    }
    return ends.stream().mapToInt(i -> i).toArray();
  }

  private static List<String> words(String text, int[] ends) {
    int[] codePoints = text.codePoints().toArray();
    var words = new ArrayList<String>();
    int start = 0;
    for (int end : ends) {
      var word = new StringBuilder();
      for (int i = start; i < end; i++) {
        word.append(
            codePoints[i] > ' ' && codePoints[i] < 127
                ? String.valueOf((char) codePoints[i])
                : "<%X>".formatted(codePoints[i]));
      }
      words.add(word.toString());
      start = end;
    }
    return words;
  }
}
