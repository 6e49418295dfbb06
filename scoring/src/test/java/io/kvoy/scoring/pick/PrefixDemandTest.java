// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.pick;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import org.junit.jupiter.api.Test;

class PrefixDemandTest {
  private static final long SECOND = 1_000_000_000L;

  private final PrefixDemand demand = new PrefixDemand();

  @Test
  void usesAddUpAndFadeWithinMinutes() {
    assertThat(demand.used(7, 1000, 0)).isEqualTo(1);
    assertThat(demand.used(7, 1000, SECOND)).isCloseTo(2, within(0.05));

    assertThat(demand.used(7, 1000, 600 * SECOND)).isCloseTo(1, within(0.01));
  }

  @Test
  void whatNobodyHoldsIsNotCounted() {
    assertThat(demand.used(0, 0, 0)).isZero();
    assertThat(demand.sharedTokens(0)).isZero();
  }

  @Test
  void sharedTokensAreThoseOfPrefixesUsedMoreThanOnce() {
    demand.used(1, 1000, 0);
    demand.used(2, 500, 0);
    demand.used(2, 500, 0);

    assertThat(demand.sharedTokens(0)).isEqualTo(500);
    demand.used(1, 1000, 2 * SECOND);
    assertThat(demand.sharedTokens(2 * SECOND)).isEqualTo(1500);
  }

  @Test
  void aFloodOfConversationsDoesNotPushASharedPrefixOut() {
    for (int i = 0; i < 10; i++) {
      demand.used(42, 1000, 0);
    }
    for (long key = 1000; key < 200_000; key++) {
      demand.used(key * 0x9E3779B97F4A7C15L, 100, 0);
    }

    assertThat(demand.used(42, 1000, 0)).isEqualTo(11);
  }
}
