// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import io.kvoy.inference.Json;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.SequencedMap;
import tools.jackson.core.JsonParser;
import tools.jackson.core.JsonToken;
import tools.jackson.core.ObjectReadContext;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.TokenStreamFactory;
import tools.jackson.core.json.JsonFactory;

/**
 * Jackson streaming parser set up for tokenizer files, and small subtrees of them as {@link Json}.
 * Callers catch {@code JacksonException}.
 */
public final class TokenizerJsonParser {

  /** Deepest nesting; real files stay under 10. */
  private static final int MAX_DEPTH = 64;

  /** Longest string, for chat templates; the largest known one is under 100 kB. */
  private static final int MAX_STRING_CHARS = 4 << 20;

  private static final JsonFactory FACTORY =
      JsonFactory.builder()
          // A vocabulary has 200,000 different names; keeping them would only fill a symbol table.
          .disable(TokenStreamFactory.Feature.CANONICALIZE_PROPERTY_NAMES)
          .disable(TokenStreamFactory.Feature.INTERN_PROPERTY_NAMES)
          .streamReadConstraints(
              StreamReadConstraints.builder()
                  .maxNestingDepth(MAX_DEPTH)
                  .maxStringLength(MAX_STRING_CHARS)
                  .build())
          .build();

  private TokenizerJsonParser() {}

  /** A parser before the first token; the caller closes it. */
  public static JsonParser open(String text) {
    return FACTORY.createParser(ObjectReadContext.empty(), text);
  }

  /** The whole document. */
  static Json read(String text) {
    try (JsonParser parser = open(text)) {
      parser.nextToken();
      return readValue(parser);
    }
  }

  /** The value that the parser stands at the start of; leaves it at the value's last token. */
  public static Json readValue(JsonParser parser) {
    return switch (parser.currentToken()) {
      case START_OBJECT -> readObject(parser);
      case START_ARRAY -> readArray(parser);
      case VALUE_STRING -> new Json.Str(parser.getString());
      case VALUE_TRUE -> new Json.Bool(true);
      case VALUE_FALSE -> new Json.Bool(false);
      case VALUE_NUMBER_FLOAT -> new Json.Real(parser.getDoubleValue());
      case VALUE_NUMBER_INT -> readInteger(parser);
      case VALUE_NULL -> Json.Null.NULL;
      case NOT_AVAILABLE, END_OBJECT, END_ARRAY, PROPERTY_NAME, VALUE_EMBEDDED_OBJECT ->
          throw new IllegalStateException("not at the start of a value");
      case null -> Json.Null.NULL;
    };
  }

  private static Json readInteger(JsonParser parser) {
    BigInteger value = parser.getBigIntegerValue();
    return value.bitLength() < Long.SIZE ? new Json.Int(value.longValue()) : new Json.BigInt(value);
  }

  private static Json.Obj readObject(JsonParser parser) {
    SequencedMap<String, Json> fields = new LinkedHashMap<>();
    while (parser.nextToken() == JsonToken.PROPERTY_NAME) {
      String name = parser.currentName();
      parser.nextToken();
      fields.put(name, readValue(parser));
    }
    return new Json.Obj(fields);
  }

  private static Json.Arr readArray(JsonParser parser) {
    var items = new ArrayList<Json>();
    while (parser.nextToken() != JsonToken.END_ARRAY) {
      items.add(readValue(parser));
    }
    return new Json.Arr(items);
  }
}
