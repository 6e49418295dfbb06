// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.tokenizer.bpe.DifferentialCheck.Verdict;
import io.kvoy.tokenizer.encode.TextEncoder;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class DifferentialCheckTest {

  private static final TextEncoder REFERENCE = (text, _) -> text.codePoints().toArray();

  private final AtomicLong nanos = new AtomicLong();

  @Test
  void equalEncodersAreEqualAndTheCountsSayOnHowMuch() {
    assertThat(check(REFERENCE))
        .isInstanceOfSatisfying(
            Verdict.Equal.class,
            equal -> {
              assertThat(equal.texts()).isGreaterThan(200);
              assertThat(equal.tokens()).isGreaterThan(50_000);
            });
  }

  @Test
  void oneWrongLetterInProseIsFound() {
    assertThat(check(differingOn("keeper"))).isEqualTo(new Verdict.Different("corpus"));
  }

  @Test
  void specialTokensAreCompared() {
    assertThat(check((text, special) -> special ? new int[0] : text.codePoints().toArray()))
        .isEqualTo(new Verdict.Different("corpus"));
  }

  @Test
  void oneWrongAddedTokenIsFound() {
    assertThat(check(differingOn("<|other|>"))).isEqualTo(new Verdict.Different("added_tokens"));
  }

  @Test
  void oneWrongBlockOfCodePointsIsFound() {
    TextEncoder candidate =
        (text, _) -> text.codePoints().map(c -> c >= 0x1700 && c < 0x1720 ? 0 : c).toArray();

    assertThat(check(candidate)).isEqualTo(new Verdict.Different("code_points"));
  }

  @Test
  void aRareCombinationIsFoundByRandomTexts() {
    assertThat(check(differingOn("'ll'm"))).isEqualTo(new Verdict.Different("random"));
  }

  private static TextEncoder differingOn(String part) {
    return (text, _) -> text.contains(part) ? new int[0] : text.codePoints().toArray();
  }

  /** Every look at the clock takes a microsecond. */
  private Verdict check(TextEncoder candidate) {
    return DifferentialCheck.run(
        candidate,
        REFERENCE,
        List.of("<|one|>", "<|other|>"),
        42,
        Duration.ofMillis(20),
        () -> nanos.addAndGet(1000));
  }
}
