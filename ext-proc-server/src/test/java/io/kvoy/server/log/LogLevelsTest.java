// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.log;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.LoggerContext;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LogLevelsTest {
  private final LoggerContext context = new LoggerContext();

  @Test
  void levelsAreAppliedAndTakenBack() {
    context.getLogger("io.netty").setLevel(Level.WARN);
    LogLevels levels = new LogLevels(context);

    levels.apply("ERROR", Map.of("io.netty", "TRACE", "io.kvoy", "DEBUG"));
    assertThat(context.getLogger("io.netty").getEffectiveLevel()).isEqualTo(Level.TRACE);
    assertThat(context.getLogger("io.kvoy").getEffectiveLevel()).isEqualTo(Level.DEBUG);
    assertThat(context.getLogger("other").getEffectiveLevel()).isEqualTo(Level.ERROR);

    levels.apply("INFO", Map.of());
    assertThat(context.getLogger("io.netty").getEffectiveLevel()).isEqualTo(Level.WARN);
    assertThat(context.getLogger("io.kvoy").getEffectiveLevel()).isEqualTo(Level.INFO);
  }
}
