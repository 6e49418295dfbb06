// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.jinja;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import org.junit.jupiter.api.Test;

class TextSearchTest {

  @Test
  void findsWhatTheJdkFinds() {
    Random random = new Random(7);
    int found = 0;
    for (int i = 0; i < 20_000; i++) {
      // Two letters: many near misses, and parts longer than those left to the JDK.
      String text = letters(random, 200);
      int length = 1 + random.nextInt(80);
      int at = random.nextInt(text.length() - length);
      String part =
          random.nextBoolean() ? text.substring(at, at + length) : letters(random, length);
      int from = random.nextInt(text.length());

      assertThat(TextSearch.indexOf(text, part, from)).isEqualTo(text.indexOf(part, from));
      assertThat(TextSearch.lastIndexOf(text, part, from)).isEqualTo(text.lastIndexOf(part, from));
      assertThat(TextSearch.contains(text, part)).isEqualTo(text.contains(part));
      found += text.contains(part) ? 1 : 0;
    }
    assertThat(found).isBetween(5_000, 19_000);
  }

  private static String letters(Random random, int length) {
    StringBuilder text = new StringBuilder(length);
    int run = random.nextInt(6) + 1;
    for (int i = 0; i < length; i++) {
      text.append(random.nextInt(run + 1) == 0 ? 'b' : 'a');
    }
    return text.toString();
  }

  /** Ten million steps here; the JDK's search would take 10¹² and hours. */
  @Test
  void longRunsOfOneLetterCostNoMoreThanTheirLength() {
    String text = "a".repeat(4_000_000);
    String part = "a".repeat(1_000_000);

    assertThat(TextSearch.indexOf(text, part + "b", 0)).isEqualTo(-1);
    assertThat(TextSearch.lastIndexOf(text, "b" + part, text.length())).isEqualTo(-1);
    assertThat(TextSearch.contains("a".repeat(2_000_000) + part + "b", part + "b")).isTrue();
  }
}
