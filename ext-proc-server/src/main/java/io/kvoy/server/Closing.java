// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import java.util.ArrayDeque;
import java.util.Deque;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What was started, to be stopped in reverse order, once. Thread-safe. */
final class Closing implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(Closing.class);

  private record Part(String name, Runnable close) {}

  @GuardedBy("this")
  private final Deque<Part> parts = new ArrayDeque<>();

  synchronized void add(String name, Runnable close) {
    parts.push(new Part(name, close));
  }

  /** Stops everything; a part that fails does not keep the others running. */
  @Override
  public synchronized void close() {
    while (!parts.isEmpty()) {
      Part part = parts.pop();
      try {
        part.close().run();
      } catch (RuntimeException e) {
        LOG.warn("stop_failed part=\"{}\"", part.name(), e);
      }
    }
  }
}
