// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;

class LoneSurrogatesTest {

  @Test
  void PARSE_05_theFirstSurrogateWithoutPartnerIsFound() {
    record Row(String text, int index) {}
    for (Row row :
        List.of(
            new Row("", -1),
            new Row("plain", -1),
            new Row("a\uD83D\uDE42b", -1),
            new Row("\uD83D", 0),
            new Row("\uDE42", 0),
            new Row("a\uDE42\uD83Db", 1),
            new Row("\uD83D\uD83D\uDE42", 0),
            new Row("\uD83D\uDE42\uDE42", 2))) {
      assertThat(LoneSurrogates.indexOf(row.text, 0, row.text.length())).isEqualTo(row.index);
    }
  }

  @Test
  void aPartnerOutsideTheRangeDoesNotCount() {
    assertThat(LoneSurrogates.indexOf("a\uD83D\uDE42b", 0, 2)).isEqualTo(1);
    assertThat(LoneSurrogates.indexOf("a\uD83D\uDE42b", 2, 4)).isEqualTo(2);
  }
}
