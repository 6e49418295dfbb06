// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.log;

import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.classic.spi.IThrowableProxy;
import ch.qos.logback.classic.spi.StackTraceElementProxy;
import ch.qos.logback.core.encoder.EncoderBase;
import io.kvoy.server.json.JsonText;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;
import org.slf4j.event.KeyValuePair;

/**
 * One log event as one flat JSON object on one line.
 *
 * <p>Keys: {@code ts} (UTC), {@code level}, {@code logger}, {@code thread}, {@code msg}, then the
 * event's key-value pairs and the MDC; a pair that would hide one of ours gets an underscore in
 * front. An exception adds {@code error} (class), {@code stack} and, for exceptions whose messages
 * are written by the JDK's I/O, gRPC or ourselves, {@code error_msg}. Parsers put their input into
 * messages; those of all other exceptions are left out.
 *
 * <p>Called by Logback on the logging thread under the appender's lock.
 */
public final class JsonLineEncoder extends EncoderBase<ILoggingEvent> {
  /** Longest message; ours are constants, those of libraries carry arguments. */
  private static final int MAX_MESSAGE_CHARS = 1024;

  /** Longest value. */
  private static final int MAX_VALUE_CHARS = 256;

  /** Most frames of one exception; enough to leave the JDK and reach our code. */
  private static final int MAX_FRAMES = 24;

  /** Most exceptions of one chain. */
  private static final int MAX_CAUSES = 5;

  private static final Set<String> OWN_KEYS =
      Set.of("ts", "level", "logger", "thread", "msg", "error", "error_msg", "stack");

  /** Prefixes of exception classes whose messages hold no input. */
  private static final List<String> SPEAKING =
      List.of("io.kvoy.", "java.io.", "java.net.", "java.nio.", "javax.net.", "io.grpc.");

  /** Single classes of that kind. */
  private static final Set<String> SPEAKING_CLASSES =
      Set.of(
          "java.lang.NullPointerException",
          "java.lang.ClassCastException",
          "java.lang.OutOfMemoryError",
          "java.lang.NoClassDefFoundError",
          "java.lang.UnsatisfiedLinkError");

  @Override
  public byte @Nullable [] headerBytes() {
    return null;
  }

  @Override
  public byte @Nullable [] footerBytes() {
    return null;
  }

  @Override
  public byte[] encode(ILoggingEvent event) {
    StringBuilder out = new StringBuilder(256);
    Instant at = event.getInstant();
    out.append("{\"ts\":\"")
        .append(at == null ? Instant.ofEpochMilli(event.getTimeStamp()) : at)
        .append('"');
    text(out, "level", event.getLevel().toString());
    text(out, "logger", event.getLoggerName());
    text(out, "thread", event.getThreadName());
    text(out, "msg", cut(event.getFormattedMessage(), MAX_MESSAGE_CHARS));
    List<KeyValuePair> pairs = event.getKeyValuePairs();
    if (pairs != null) {
      for (KeyValuePair pair : pairs) {
        value(out, pair.key, pair.value);
      }
    }
    for (Map.Entry<String, String> entry : event.getMDCPropertyMap().entrySet()) {
      value(out, entry.getKey(), entry.getValue());
    }
    if (event.getThrowableProxy() != null) {
      error(out, event.getThrowableProxy());
    }
    return out.append("}\n").toString().getBytes(StandardCharsets.UTF_8);
  }

  private static void text(StringBuilder out, String key, @Nullable String value) {
    out.append(',');
    JsonText.string(out, key);
    out.append(':');
    JsonText.append(out, value);
  }

  private static void value(StringBuilder out, String key, @Nullable Object value) {
    out.append(',');
    JsonText.string(out, OWN_KEYS.contains(key) ? "_" + key : cut(key, MAX_VALUE_CHARS));
    out.append(':');
    if (value instanceof Number || value instanceof Boolean || value == null) {
      JsonText.append(out, value);
    } else {
      JsonText.string(out, cut(value.toString(), MAX_VALUE_CHARS));
    }
  }

  private static void error(StringBuilder out, IThrowableProxy thrown) {
    text(out, "error", thrown.getClassName());
    String message = thrown.getMessage();
    if (message != null && isSpeaking(thrown.getClassName())) {
      text(out, "error_msg", cut(message, MAX_VALUE_CHARS));
    }
    StringBuilder stack = new StringBuilder();
    IThrowableProxy link = thrown;
    for (int i = 0; link != null && i < MAX_CAUSES; i++, link = link.getCause()) {
      stack.append(i == 0 ? "" : "\ncaused by ").append(link.getClassName());
      StackTraceElementProxy[] frames = link.getStackTraceElementProxyArray();
      int shown = Math.min(MAX_FRAMES, frames.length - link.getCommonFrames());
      for (int f = 0; f < shown; f++) {
        stack.append("\n at ").append(frames[f].getStackTraceElement());
      }
    }
    text(out, "stack", stack.toString());
  }

  private static boolean isSpeaking(String className) {
    return SPEAKING_CLASSES.contains(className)
        || SPEAKING.stream().anyMatch(className::startsWith);
  }

  private static String cut(@Nullable String text, int chars) {
    if (text == null) {
      return "";
    }
    return text.length() <= chars ? text : text.substring(0, chars) + "…";
  }
}
