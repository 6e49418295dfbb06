// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference;

import java.math.BigInteger;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SequencedMap;
import org.jspecify.annotations.Nullable;

/**
 * A JSON value as Python's {@code json.loads} would see it: integers of any size stay integers,
 * {@code 1.0} stays a float, the last of several equal keys wins, key order is kept. Immutable.
 */
public sealed interface Json {

  /** {@code null}. */
  enum Null implements Json {
    NULL
  }

  /** {@code true} or {@code false}. */
  record Bool(boolean value) implements Json {}

  /** An integer that fits 64 bits. */
  record Int(long value) implements Json {}

  /** An integer that does not fit 64 bits. */
  record BigInt(BigInteger value) implements Json {}

  /** A number written with a fraction or an exponent. */
  record Real(double value) implements Json {}

  /** A string; may hold lone surrogates if the document did. */
  record Str(String value) implements Json {}

  /** An array. */
  record Arr(List<Json> items) implements Json {
    public Arr {
      items = List.copyOf(items);
    }
  }

  /** An object in document order. */
  record Obj(SequencedMap<String, Json> fields) implements Json {
    public Obj {
      if (!(fields instanceof FewFields)) {
        fields =
            fields.size() <= FewFields.MAX
                ? new FewFields(fields)
                : Collections.unmodifiableSequencedMap(new LinkedHashMap<>(fields));
      }
    }

    public static Obj of(Map<String, Json> fields) {
      return new Obj(new LinkedHashMap<>(fields));
    }

    /** The field's value, or null when absent; a JSON null comes back as {@link Null#NULL}. */
    public @Nullable Json get(String key) {
      return fields.get(key);
    }
  }

  /** The string's value, or null when this is not a string. */
  default @Nullable String asString() {
    return this instanceof Str(String value) ? value : null;
  }
}
