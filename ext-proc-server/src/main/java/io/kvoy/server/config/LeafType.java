// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import io.kvoy.scoring.fleet.Endpoint;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * How one Java type is written in the file.
 *
 * @param label name of the type in the documentation
 * @param expected what a value looks like, to be put after "expected"
 * @param notation which YAML scalars are accepted at all
 * @param parse text to value, null when the text is no value
 * @param write value to the text that {@code parse} reads back
 */
record LeafType<T>(
    String label,
    String expected,
    Notation notation,
    Function<String, @Nullable T> parse,
    Function<T, String> write) {

  /**
   * The YAML scalars that a type takes. Strict on purpose: the same documents become Kubernetes
   * objects, where {@code name: 5} and {@code port: "5"} are errors too.
   */
  enum Notation {
    /** Anything but null, truth values and numbers without quotes. */
    TEXT,
    /** A number without quotes. */
    NUMBER,
    /** {@code true} or {@code false} without quotes. */
    BOOLEAN,
    /** Text or number. */
    TEXT_OR_NUMBER;

    boolean accepts(YamlNode.Scalar scalar) {
      return switch (this) {
        case TEXT -> !scalar.isNull() && !scalar.isBoolean() && !scalar.isNumber();
        case NUMBER -> scalar.isNumber();
        case BOOLEAN -> scalar.isBoolean();
        case TEXT_OR_NUMBER -> !scalar.isNull() && !scalar.isBoolean();
      };
    }
  }

  private static final Map<Class<?>, LeafType<?>> TYPES =
      Map.of(
          String.class,
          new LeafType<String>("text", "text", Notation.TEXT, text -> text, text -> text),
          int.class,
          new LeafType<Integer>(
              "whole number",
              "a whole number",
              Notation.NUMBER,
              LeafType::parseInt,
              i -> Integer.toString(i)),
          boolean.class,
          new LeafType<Boolean>(
              "true or false",
              "true or false",
              Notation.BOOLEAN,
              LeafType::parseBoolean,
              b -> Boolean.toString(b)),
          Duration.class,
          new LeafType<Duration>(
              "duration",
              "a duration with its unit (ns, us, ms, s, m, h, d) such as 250ms",
              Notation.TEXT,
              Durations::parse,
              Durations::write),
          DataSize.class,
          new LeafType<DataSize>(
              "size",
              "a size with its unit (B, KiB, MiB, GiB) such as 32MiB",
              Notation.TEXT,
              DataSize::parse,
              DataSize::toString),
          Endpoint.class,
          new LeafType<Endpoint>(
              "address",
              "an address such as 10.0.0.7:8000 or [2001:db8::7]:8000",
              Notation.TEXT,
              LeafType::parseEndpoint,
              Endpoint::toString),
          ListenAddress.class,
          new LeafType<ListenAddress>(
              "listen address",
              "a port, host:port or off",
              Notation.TEXT_OR_NUMBER,
              LeafType::parseListenAddress,
              Objects::toString),
          Path.class,
          new LeafType<Path>("path", "a path", Notation.TEXT, LeafType::parsePath, Path::toString),
          LogLevel.class,
          ofEnum("level", LogLevel.class));

  private static final ClassValue<@Nullable LeafType<?>> WORDS =
      new ClassValue<>() {
        @Override
        @SuppressWarnings({"unchecked", "rawtypes"}) // Guarded by isEnum.
        protected @Nullable LeafType<?> computeValue(Class<?> type) {
          return type.isEnum() ? ofEnum("word", (Class) type) : null;
        }
      };

  /** The leaf type of a Java type, or null when the type is no leaf. */
  static @Nullable LeafType<?> of(Class<?> type) {
    LeafType<?> own = TYPES.get(type == Integer.class ? int.class : type);
    return own != null ? own : WORDS.get(type);
  }

  private static @Nullable Boolean parseBoolean(String text) {
    return text.equalsIgnoreCase("true")
        ? Boolean.TRUE
        : text.equalsIgnoreCase("false") ? Boolean.FALSE : null;
  }

  private static @Nullable Integer parseInt(String text) {
    if (!text.matches("-?[0-9]{1,18}")) {
      return null;
    }
    long value = Long.parseLong(text);
    return value == (int) value ? (Integer) (int) value : null;
  }

  private static @Nullable Endpoint parseEndpoint(String text) {
    Endpoint endpoint = Endpoint.parse(text);
    return endpoint != null && TextForm.HOST.accepts(endpoint.host()) ? endpoint : null;
  }

  private static @Nullable ListenAddress parseListenAddress(String text) {
    ListenAddress address = ListenAddress.parse(text);
    boolean isBindable =
        !(address instanceof ListenAddress.Tcp(String host, int _))
            || host.isEmpty()
            || TextForm.HOST.accepts(host);
    return isBindable ? address : null;
  }

  private static @Nullable Path parsePath(String text) {
    try {
      return text.isEmpty() ? null : Path.of(text);
    } catch (InvalidPathException _) {
      return null;
    }
  }

  private static <E extends Enum<E>> LeafType<E> ofEnum(String label, Class<E> type) {
    List<E> values = Arrays.asList(type.getEnumConstants());
    String spelled = values.stream().map(Enum::name).collect(Collectors.joining(", "));
    return new LeafType<>(
        label,
        "one of " + spelled,
        Notation.TEXT,
        text -> {
          for (E value : values) {
            if (value.name().equals(text.toUpperCase(Locale.ROOT))) {
              return value;
            }
          }
          return null;
        },
        Enum::name);
  }
}
