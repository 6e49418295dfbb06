// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;
import tools.jackson.core.ObjectReadContext;
import tools.jackson.core.json.JsonFactory;

/** Test resources as maps, lists, strings, BigIntegers, doubles and booleans. */
public final class TestJson {

  private TestJson() {}

  public static String resource(String name) {
    try (InputStream in = TestJson.class.getResourceAsStream("/kvcache/" + name)) {
      if (in == null) {
        throw new IllegalArgumentException("no test resource kvcache/" + name);
      }
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public static List<Map<String, Object>> lines(String name) {
    return resource(name).lines().filter(line -> !line.isBlank()).map(TestJson::object).toList();
  }

  public static Map<String, Object> object(String json) {
    try (JsonParser parser = new JsonFactory().createParser(ObjectReadContext.empty(), json)) {
      parser.nextToken();
      return asObject(value(parser));
    }
  }

  @SuppressWarnings("unchecked")
  public static Map<String, Object> asObject(@Nullable Object value) {
    return (Map<String, Object>) java.util.Objects.requireNonNull(value);
  }

  @SuppressWarnings("unchecked")
  public static List<Object> asList(@Nullable Object value) {
    return (List<Object>) java.util.Objects.requireNonNull(value);
  }

  public static int[] ints(@Nullable Object list) {
    return asList(list).stream().mapToInt(v -> ((BigInteger) v).intValueExact()).toArray();
  }

  public static String text(@Nullable Object value) {
    return (String) java.util.Objects.requireNonNull(value);
  }

  public static int integer(@Nullable Object value) {
    return ((BigInteger) java.util.Objects.requireNonNull(value)).intValueExact();
  }

  private static @Nullable Object value(JsonParser parser) {
    return switch (parser.currentToken()) {
      case START_OBJECT -> {
        Map<String, @Nullable Object> map = new LinkedHashMap<>();
        while (parser.nextToken() != JsonToken.END_OBJECT) {
          String name = parser.currentName();
          parser.nextToken();
          map.put(name, value(parser));
        }
        yield map;
      }
      case START_ARRAY -> {
        List<@Nullable Object> list = new ArrayList<>();
        while (parser.nextToken() != JsonToken.END_ARRAY) {
          list.add(value(parser));
        }
        yield list;
      }
      case VALUE_STRING -> parser.getString();
      case VALUE_NUMBER_INT -> parser.getBigIntegerValue();
      case VALUE_NUMBER_FLOAT -> parser.getDoubleValue();
      case VALUE_TRUE -> true;
      case VALUE_FALSE -> false;
      default -> null;
    };
  }
}
