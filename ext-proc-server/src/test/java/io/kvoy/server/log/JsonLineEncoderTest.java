// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.log;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.spi.LoggingEvent;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.slf4j.event.KeyValuePair;

class JsonLineEncoderTest {
  private static final String PROMPT = "tell me a story";

  private final Logger logger = new LoggerContext().getLogger("io.kvoy.Test");

  private String line(@Nullable Throwable thrown, String message, KeyValuePair... pairs) {
    LoggingEvent event = new LoggingEvent("fqcn", logger, Level.WARN, message, thrown, null);
    event.setInstant(Instant.EPOCH);
    event.setThreadName("main");
    event.setMDCPropertyMap(Map.of());
    for (KeyValuePair pair : pairs) {
      event.addKeyValuePair(pair);
    }
    return new String(new JsonLineEncoder().encode(event), StandardCharsets.UTF_8);
  }

  @Test
  void anEventIsOneFlatLine() {
    assertThat(
            line(
                null,
                "scrape failed",
                new KeyValuePair("worker", "gpu-0"),
                new KeyValuePair("status", 500),
                new KeyValuePair("late", true),
                new KeyValuePair("why", null)))
        .isEqualTo(
            "{\"ts\":\"1970-01-01T00:00:00Z\",\"level\":\"WARN\",\"logger\":\"io.kvoy.Test\","
                + "\"thread\":\"main\",\"msg\":\"scrape failed\",\"worker\":\"gpu-0\","
                + "\"status\":500,\"late\":true,\"why\":null}\n");
  }

  @Test
  void aPairDoesNotHideAKeyOfOurs() {
    assertThat(line(null, "m", new KeyValuePair("level", "FAKE")))
        .contains("\"level\":\"WARN\"")
        .contains("\"_level\":\"FAKE\"");
  }

  @Test
  void aValueCannotStartANewLine() {
    assertThat(line(null, "a\nb", new KeyValuePair("k", "x\n{\"level\":\"ERROR\"}")))
        .containsOnlyOnce("\n")
        .endsWith("}\n");
  }

  @Test
  void longValuesAreCut() {
    String line = line(null, "m".repeat(5000), new KeyValuePair("k", "v".repeat(5000)));

    assertThat(line.length()).isLessThan(1500);
    assertThat(line).contains("m".repeat(1024) + "…").contains("v".repeat(256) + "…");
  }

  @Test
  void messagesOfParsersStayOutOfTheLog() {
    Exception parser = new NumberFormatException("For input string: \"" + PROMPT + "\"");

    assertThat(line(new IllegalArgumentException(PROMPT, parser), "failed"))
        .doesNotContain(PROMPT)
        .contains("\"error\":\"java.lang.IllegalArgumentException\"")
        .contains("caused by java.lang.NumberFormatException")
        .contains("JsonLineEncoderTest.messagesOfParsersStayOutOfTheLog");
  }

  @Test
  void messagesOfInputAndOutputErrorsAreShown() {
    assertThat(line(new IOException("Connection refused"), "failed"))
        .contains("\"error_msg\":\"Connection refused\"");
  }

  @Test
  void logbackConfigurationUsesTheEncoder() {
    Logger root = (Logger) org.slf4j.LoggerFactory.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);

    assertThat(root.getAppender("stderr"))
        .isInstanceOfSatisfying(
            ch.qos.logback.core.ConsoleAppender.class,
            appender -> {
              assertThat(appender.getEncoder()).isInstanceOf(JsonLineEncoder.class);
              assertThat(appender.getTarget()).isEqualTo("System.err");
            });
  }
}
