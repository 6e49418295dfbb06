// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class CodePointClassesTest {

  private static final int TEXT_CODE_POINTS = 4096;

  /** Names in expressions, by the JDK's number. */
  private static final Map<Integer, String> CATEGORIES =
      new TreeMap<>(
          Map.ofEntries(
              Map.entry((int) Character.UPPERCASE_LETTER, "Lu"),
              Map.entry((int) Character.LOWERCASE_LETTER, "Ll"),
              Map.entry((int) Character.TITLECASE_LETTER, "Lt"),
              Map.entry((int) Character.MODIFIER_LETTER, "Lm"),
              Map.entry((int) Character.OTHER_LETTER, "Lo"),
              Map.entry((int) Character.NON_SPACING_MARK, "Mn"),
              Map.entry((int) Character.COMBINING_SPACING_MARK, "Mc"),
              Map.entry((int) Character.ENCLOSING_MARK, "Me"),
              Map.entry((int) Character.DECIMAL_DIGIT_NUMBER, "Nd"),
              Map.entry((int) Character.LETTER_NUMBER, "Nl"),
              Map.entry((int) Character.OTHER_NUMBER, "No"),
              Map.entry((int) Character.CONNECTOR_PUNCTUATION, "Pc"),
              Map.entry((int) Character.DASH_PUNCTUATION, "Pd"),
              Map.entry((int) Character.START_PUNCTUATION, "Ps"),
              Map.entry((int) Character.END_PUNCTUATION, "Pe"),
              Map.entry((int) Character.INITIAL_QUOTE_PUNCTUATION, "Pi"),
              Map.entry((int) Character.FINAL_QUOTE_PUNCTUATION, "Pf"),
              Map.entry((int) Character.OTHER_PUNCTUATION, "Po"),
              Map.entry((int) Character.MATH_SYMBOL, "Sm"),
              Map.entry((int) Character.CURRENCY_SYMBOL, "Sc"),
              Map.entry((int) Character.MODIFIER_SYMBOL, "Sk"),
              Map.entry((int) Character.OTHER_SYMBOL, "So"),
              Map.entry((int) Character.SPACE_SEPARATOR, "Zs"),
              Map.entry((int) Character.LINE_SEPARATOR, "Zl"),
              Map.entry((int) Character.PARAGRAPH_SEPARATOR, "Zp"),
              Map.entry((int) Character.CONTROL, "Cc"),
              Map.entry((int) Character.FORMAT, "Cf"),
              Map.entry((int) Character.UNASSIGNED, "Cn")));

  @Test
  void theJdkHasTheCharacterDataOfTheReference() {
    assertThat(CodePointClasses.jdkHasReferenceUnicode()).isTrue();
  }

  @Test
  void theGeneralCategoryOfEveryCodePointIsThatOfTheReference() {
    List<Integer> types = List.copyOf(CATEGORIES.keySet());
    List<String> patterns = types.stream().map(t -> "\\p{" + CATEGORIES.get(t) + "}").toList();
    try (var reference = RegexReference.classifying(patterns)) {
      assertClasses(reference, codePoint -> types.indexOf(Character.getType(codePoint)) + 1);
    }
  }

  @Test
  void whiteSpaceIsThatOfTheReference() {
    try (var reference = RegexReference.classifying(List.of("\\s"))) {
      assertClasses(reference, codePoint -> CodePointClasses.isWhiteSpace(codePoint) ? 1 : 0);
    }
  }

  private interface ClassOf {
    int of(int codePoint);
  }

  /** Private use is left out: the reference's answers are written in it. */
  private static void assertClasses(RegexReference reference, ClassOf expected) {
    for (int start = 0; start <= Character.MAX_CODE_POINT; start += TEXT_CODE_POINTS) {
      int[] codePoints =
          IntStream.range(start, start + TEXT_CODE_POINTS)
              .filter(c -> Character.getType(c) != Character.SURROGATE)
              .filter(c -> Character.getType(c) != Character.PRIVATE_USE)
              .toArray();
      if (codePoints.length == 0) {
        continue;
      }
      long[] actual = reference.ids(new String(codePoints, 0, codePoints.length));
      long[] wanted = IntStream.of(codePoints).mapToLong(expected::of).toArray();
      assertThat(actual).as("from U+%X", start).isEqualTo(wanted);
    }
  }

  @Test
  void classAndWidthReadsUtf8OfEveryLength() {
    var classes = new CodePointClasses(codePoint -> codePoint % 251);
    for (int codePoint : new int[] {0, 'a', 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000, 0x10FFFF}) {
      byte[] utf8 = ("x" + Character.toString(codePoint)).getBytes(StandardCharsets.UTF_8);
      int read = classes.classAndWidth(utf8, 1);
      assertThat(read & 0xFF).isEqualTo(codePoint % 251);
      assertThat(read >> 8).isEqualTo(utf8.length - 1);
    }
  }
}
