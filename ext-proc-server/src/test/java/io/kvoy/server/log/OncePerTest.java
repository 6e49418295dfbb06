// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.log;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class OncePerTest {
  private final Logger logger = new LoggerContext().getLogger("test");
  private final ListAppender<ILoggingEvent> lines = new ListAppender<>();
  private long nowNanos;
  private final OncePer once = new OncePer(logger, Duration.ofSeconds(60), () -> nowNanos);

  @BeforeEach
  void listen() {
    lines.start();
    logger.addAppender(lines);
  }

  private List<String> told() {
    return lines.list.stream()
        .map(
            event ->
                event.getMessage()
                    + event.getKeyValuePairs().stream()
                        .map(pair -> " " + pair.key + "=" + pair.value)
                        .collect(Collectors.joining()))
        .toList();
  }

  private void pass(int seconds) {
    nowNanos += Duration.ofSeconds(seconds).toNanos();
  }

  @Test
  void theFirstIsToldAtOnceAndTheRestWithTheNextPeriod() {
    for (int i = 0; i < 100; i++) {
      once.warn("scrape failed", "gpu-0", "status", 500);
    }
    pass(60);
    once.warn("scrape failed", "gpu-0", "status", 502);

    assertThat(told())
        .containsExactly(
            "scrape failed subject=gpu-0 status=500 seen=1",
            "scrape failed subject=gpu-0 status=502 seen=100");
  }

  @Test
  void causesDoNotSilenceEachOther() {
    once.warn("scrape failed", "gpu-0");
    once.warn("scrape failed", "gpu-1");
    once.warn("probe failed", "gpu-0");

    assertThat(told()).hasSize(3);
  }

  @Test
  void aCauseThatFellSilentIsToldByTheSweep() {
    once.warn("scrape failed", "gpu-0");
    once.warn("scrape failed", "gpu-0");
    once.warn("scrape failed", "gpu-0");
    once.sweep();
    assertThat(told()).hasSize(1);

    pass(60);
    once.sweep();
    once.sweep();

    assertThat(told()).hasSize(2).last().isEqualTo("scrape failed subject=gpu-0 seen=2");
  }

  @Test
  void aSweptCauseIsToldAtOnceAgain() {
    once.warn("scrape failed", "gpu-0");
    pass(60);
    once.sweep();
    once.warn("scrape failed", "gpu-0");

    assertThat(told()).hasSize(2);
  }

  @Test
  void causesAreBounded() {
    for (int i = 0; i < OncePer.MAX_CAUSES + 1000; i++) {
      once.warn("scrape failed", "w" + i);
    }

    assertThat(told()).hasSize(OncePer.MAX_CAUSES + 1);
  }

  @Test
  void aNewPeriodHoldsForKnownCauses() {
    once.warn("scrape failed", "gpu-0");
    once.setPeriod(Duration.ofSeconds(1));
    pass(1);
    once.warn("scrape failed", "gpu-0");

    assertThat(told()).hasSize(2);
  }
}
