// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.log;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import java.util.HashMap;
import java.util.Map;

/**
 * Sets the levels of loggers while the process runs.
 *
 * <p>Called by the wiring at start and after each reload, one call at a time. A logger that the
 * last call set and the next one does not name goes back to what {@code logback.xml} gave it.
 */
public final class LogLevels {
  private final LoggerContext context;
  private final Level initialRoot;
  private final Map<String, Level> overridden = new HashMap<>();

  /** Works on the process's loggers. */
  public LogLevels(LoggerContext context) {
    this.context = context;
    this.initialRoot = root().getLevel();
  }

  /**
   * Applies levels.
   *
   * @param root level of all loggers that have none of their own, a Logback word such as INFO
   * @param levels level word by logger name
   */
  public void apply(String root, Map<String, String> levels) {
    overridden.forEach((name, level) -> context.getLogger(name).setLevel(level));
    overridden.clear();
    root().setLevel(Level.toLevel(root, initialRoot));
    levels.forEach(
        (name, word) -> {
          Logger logger = context.getLogger(name);
          overridden.put(name, logger.getLevel());
          logger.setLevel(Level.toLevel(word, initialRoot));
        });
  }

  private Logger root() {
    return context.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME);
  }
}
