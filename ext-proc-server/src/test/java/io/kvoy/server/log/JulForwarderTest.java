// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.log;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import java.util.logging.LogRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.slf4j.LoggerFactory;

class JulForwarderTest {
  private final JulForwarder forwarder = new JulForwarder();

  private ILoggingEvent forward(java.util.logging.Level level) {
    Logger logger = (Logger) LoggerFactory.getLogger("jul.test");
    logger.setAdditive(false);
    logger.setLevel(Level.TRACE);
    ListAppender<ILoggingEvent> lines = new ListAppender<>();
    lines.start();
    logger.addAppender(lines);
    LogRecord record = new LogRecord(level, "address {0} in use");
    record.setLoggerName("jul.test");
    record.setParameters(new Object[] {"::1"});
    record.setThrown(new IllegalStateException("why"));
    forwarder.publish(record);
    logger.detachAppender(lines);
    assertThat(lines.list).hasSize(1);
    return lines.list.getFirst();
  }

  @ParameterizedTest
  @CsvSource({"SEVERE,ERROR", "WARNING,WARN", "INFO,INFO", "CONFIG,DEBUG", "FINEST,DEBUG"})
  void levelsAreTranslated(String from, String to) {
    assertThat(forward(java.util.logging.Level.parse(from)).getLevel())
        .isEqualTo(Level.toLevel(to));
  }

  @Test
  void messageAndCauseArriveWhole() {
    ILoggingEvent event = forward(java.util.logging.Level.WARNING);

    assertThat(event.getFormattedMessage()).isEqualTo("address ::1 in use");
    assertThat(event.getThrowableProxy().getClassName())
        .isEqualTo("java.lang.IllegalStateException");
  }
}
