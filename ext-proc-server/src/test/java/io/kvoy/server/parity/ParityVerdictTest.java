// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.parity;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.server.metrics.ParityState;
import org.junit.jupiter.api.Test;

class ParityVerdictTest {
  private final ParityVerdict verdict = new ParityVerdict();

  /** One letter per comparison: {@code +} agrees, {@code -} differs. */
  private ParityState after(String comparisons) {
    ParityState state = verdict.state();
    for (int i = 0; i < comparisons.length(); i++) {
      state = verdict.record(comparisons.charAt(i) == '+', 3);
    }
    return state;
  }

  @Test
  void nothingIsKnownBeforeTheFirstComparison() {
    assertThat(verdict.state()).isEqualTo(ParityState.UNKNOWN);
  }

  @Test
  void aFewDifferencesAreADoubtAndThresholdInARowAreAMismatch() {
    assertThat(after("+")).isEqualTo(ParityState.MATCHING);
    assertThat(after("--")).isEqualTo(ParityState.SUSPECT);
    assertThat(after("-")).isEqualTo(ParityState.MISMATCHING);
  }

  @Test
  void anAgreementSettlesADoubt() {
    assertThat(after("--+")).isEqualTo(ParityState.MATCHING);
    assertThat(after("--+--+")).isEqualTo(ParityState.MATCHING);
  }

  @Test
  void itTakesThresholdAgreementsInARowToComeBack() {
    after("---");
    assertThat(after("++-++")).isEqualTo(ParityState.MISMATCHING);
    assertThat(after("+")).isEqualTo(ParityState.MATCHING);
  }

  @Test
  void halfOfTheLastComparisonsAreAMismatchAlsoWhenTheyNeverComeInARow() {
    assertThat(after("+-+-+-+-+-+-+-+")).isEqualTo(ParityState.MATCHING);
    assertThat(after("-")).isEqualTo(ParityState.MISMATCHING);
  }

  @Test
  void aPoolThatCameBackIsNotJudgedByWhatWasBefore() {
    after("+-+-+-+-+-+-+-+-+++");
    assertThat(verdict.state()).isEqualTo(ParityState.MATCHING);
    assertThat(after("-")).isEqualTo(ParityState.SUSPECT);
    assertThat(verdict.checked()).isEqualTo(20);
    assertThat(verdict.mismatched()).isEqualTo(9);
  }
}
