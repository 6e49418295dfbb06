// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.log;

import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.SimpleFormatter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Hands what libraries log through {@code java.util.logging} (gRPC, the JDK's HTTP server) to
 * SLF4J, so that there is one stream of lines in one form.
 */
public final class JulForwarder extends Handler {
  private final SimpleFormatter formatter = new SimpleFormatter();

  JulForwarder() {}

  /** Replaces the handlers of {@code java.util.logging}; called once at start. */
  public static void install() {
    LogManager.getLogManager().reset();
    java.util.logging.Logger root = java.util.logging.Logger.getLogger("");
    root.setLevel(Level.INFO);
    root.addHandler(new JulForwarder());
  }

  @Override
  public void publish(LogRecord record) {
    String name = record.getLoggerName();
    Logger log = LoggerFactory.getLogger(name == null ? "java.util.logging" : name);
    log.atLevel(level(record.getLevel()))
        .setCause(record.getThrown())
        .log(formatter.formatMessage(record));
  }

  private static org.slf4j.event.Level level(Level level) {
    int value = level.intValue();
    if (value >= Level.SEVERE.intValue()) {
      return org.slf4j.event.Level.ERROR;
    }
    if (value >= Level.WARNING.intValue()) {
      return org.slf4j.event.Level.WARN;
    }
    return value >= Level.INFO.intValue()
        ? org.slf4j.event.Level.INFO
        : org.slf4j.event.Level.DEBUG;
  }

  @Override
  public void flush() {
    // Logback's appender writes through.
  }

  @Override
  public void close() {
    // Nothing is held.
  }
}
