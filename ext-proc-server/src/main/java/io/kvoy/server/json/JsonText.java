// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.json;

import java.lang.reflect.RecordComponent;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * Writes records, collections and simple values as one line of JSON.
 *
 * <ul>
 *   <li>a record is an object of its components; a record that implements a sealed interface gets
 *       its simple name as {@code "type"} first, so that the cases are told apart
 *   <li>numbers and truth values are themselves, NaN and infinities are null
 *   <li>durations are milliseconds (the component's name should say so), instants ISO text
 *   <li>maps are objects, other iterables and arrays are lists, empty optionals are null
 *   <li>all else is its {@code toString}
 * </ul>
 *
 * <p>Depth is bounded, so that a value which holds itself ends in a word and not in a crash.
 */
public final class JsonText {
  /** Deepest nesting; our debug values need 6. */
  private static final int MAX_DEPTH = 32;

  private static final char[] HEX = "0123456789abcdef".toCharArray();

  private JsonText() {}

  /** The value as JSON. */
  public static String of(@Nullable Object value) {
    StringBuilder out = new StringBuilder(256);
    append(out, value);
    return out.toString();
  }

  /** Appends the value as JSON. */
  public static void append(StringBuilder out, @Nullable Object value) {
    append(out, value, 0);
  }

  private static void append(StringBuilder out, @Nullable Object value, int depth) {
    if (depth > MAX_DEPTH) {
      out.append("\"too deep\"");
      return;
    }
    switch (value) {
      case null -> out.append("null");
      case Boolean truth -> out.append(truth.booleanValue());
      case Double number -> appendDouble(out, number);
      case Float number -> appendDouble(out, number);
      case Number number -> out.append(number);
      case Duration duration -> appendDouble(out, duration.toNanos() / 1e6);
      case Instant instant -> string(out, instant.toString());
      case Path path -> string(out, path.toString());
      case Optional<?> optional -> append(out, optional.orElse(null), depth);
      case OptionalInt optional -> out.append(optional.isPresent() ? optional.getAsInt() : "null");
      case OptionalLong optional ->
          out.append(optional.isPresent() ? optional.getAsLong() : "null");
      case OptionalDouble optional -> appendDouble(out, optional.orElse(Double.NaN));
      case Map<?, ?> map -> {
        char before = '{';
        for (Map.Entry<?, ?> entry : map.entrySet()) {
          out.append(before);
          string(out, String.valueOf(entry.getKey()));
          out.append(':');
          append(out, entry.getValue(), depth + 1);
          before = ',';
        }
        out.append(before == '{' ? "{}" : "}");
      }
      case Iterable<?> items -> {
        char before = '[';
        for (Object item : items) {
          out.append(before);
          append(out, item, depth + 1);
          before = ',';
        }
        out.append(before == '[' ? "[]" : "]");
      }
      case Object[] items -> append(out, java.util.Arrays.asList(items), depth);
      case int[] items -> out.append(java.util.Arrays.toString(items));
      case long[] items -> out.append(java.util.Arrays.toString(items));
      case Record record -> appendRecord(out, record, depth);
      default -> string(out, value.toString());
    }
  }

  private static void appendRecord(StringBuilder out, Record record, int depth) {
    char before = '{';
    for (Class<?> face : record.getClass().getInterfaces()) {
      if (face.isSealed()) {
        out.append("{\"type\":");
        string(out, record.getClass().getSimpleName());
        before = ',';
        break;
      }
    }
    for (RecordComponent component : record.getClass().getRecordComponents()) {
      out.append(before);
      string(out, component.getName());
      out.append(':');
      append(out, read(record, component), depth + 1);
      before = ',';
    }
    out.append(before == '{' ? "{}" : "}");
  }

  private static @Nullable Object read(Record record, RecordComponent component) {
    try {
      // Records of other packages need not be public to be shown.
      component.getAccessor().setAccessible(true);
      return component.getAccessor().invoke(record);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("cannot read " + component, e);
    }
  }

  private static void appendDouble(StringBuilder out, double number) {
    if (Double.isNaN(number) || Double.isInfinite(number)) {
      out.append("null");
    } else if (number == Math.rint(number) && Math.abs(number) < 1e15) {
      out.append((long) number);
    } else {
      out.append(number);
    }
  }

  /** Appends a quoted string; what would not survive UTF-8 or a terminal is escaped. */
  public static void string(StringBuilder out, String text) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      switch (c) {
        case '"' -> out.append("\\\"");
        case '\\' -> out.append("\\\\");
        case '\n' -> out.append("\\n");
        case '\r' -> out.append("\\r");
        case '\t' -> out.append("\\t");
        default -> {
          if (isPlain(c) || isPaired(text, i)) {
            out.append(c);
          } else {
            out.append("\\u")
                .append(HEX[c >> 12])
                .append(HEX[(c >> 8) & 15])
                .append(HEX[(c >> 4) & 15])
                .append(HEX[c & 15]);
          }
        }
      }
    }
    out.append('"');
  }

  /** Everything but controls, surrogates, line separators and {@code <}, which opens a tag. */
  private static boolean isPlain(char c) {
    return c >= 0x20
        && c != '<'
        && !(c >= 0x7f && c < 0xa0)
        && c != 0x2028
        && c != 0x2029
        && !Character.isSurrogate(c);
  }

  private static boolean isPaired(String text, int at) {
    char c = text.charAt(at);
    return Character.isHighSurrogate(c)
        ? at + 1 < text.length() && Character.isLowSurrogate(text.charAt(at + 1))
        : Character.isLowSurrogate(c) && at > 0 && Character.isHighSurrogate(text.charAt(at - 1));
  }
}
