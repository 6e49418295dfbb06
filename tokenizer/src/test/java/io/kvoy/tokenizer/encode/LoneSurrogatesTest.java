// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

class LoneSurrogatesTest {

  @Test
  void PARSE_05_eachSurrogateWithoutPartnerIsFoundAndReplaced() {
    record Row(String text, int index, String replaced) {}
    for (Row row :
        List.of(
            new Row("", -1, ""),
            new Row("plain", -1, "plain"),
            new Row("a\uD83D\uDE42b", -1, "a\uD83D\uDE42b"),
            new Row("\uD83D", 0, "\uFFFD"),
            new Row("\uDE42", 0, "\uFFFD"),
            new Row("a\uDE42\uD83Db", 1, "a\uFFFD\uFFFDb"),
            new Row("\uD83D\uD83D\uDE42", 0, "\uFFFD\uD83D\uDE42"),
            new Row("\uD83D\uDE42\uDE42", 2, "\uD83D\uDE42\uFFFD"))) {
      assertThat(LoneSurrogates.indexOf(row.text)).isEqualTo(row.index);
      assertThat(LoneSurrogates.replace(row.text)).isEqualTo(row.replaced);
    }
  }
}
