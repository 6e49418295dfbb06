// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.latency;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class ErrorCauseTest {
  private static Prediction of(double queue, double prefill) {
    return new Prediction(queue + prefill, queue, prefill, 0, 0, 0, 0, Prediction.Source.WORKER);
  }

  @Test
  void otherCachedTokensThanThoughtAreTheCauseWhateverElseWasPredicted() {
    assertThat(ErrorCause.of(of(900, 100), 4000, 3000, OptionalLong.of(0)))
        .isEqualTo(ErrorCause.CACHE);
  }

  @Test
  void aBlockMoreOrLessIsNotTheCause() {
    assertThat(ErrorCause.of(of(0, 100), 100, 48, OptionalLong.of(64))).isEqualTo(ErrorCause.RATE);
    assertThat(ErrorCause.of(of(0, 100), 4000, 3000, OptionalLong.of(3128)))
        .isEqualTo(ErrorCause.RATE);
  }

  @Test
  void aPredictionThatWasMostlyWaitingWasWrongAboutTheQueue() {
    assertThat(ErrorCause.of(of(60, 40), 100, 0, OptionalLong.empty())).isEqualTo(ErrorCause.QUEUE);
    assertThat(ErrorCause.of(of(40, 60), 100, 0, OptionalLong.of(0))).isEqualTo(ErrorCause.RATE);
  }
}
