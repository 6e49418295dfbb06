// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import io.kvoy.inference.json.JsonLimits;
import io.kvoy.inference.json.JsonReader;
import org.jspecify.annotations.Nullable;

/**
 * How request bodies are read; made once from the configuration and shared.
 *
 * @param reader the bounded JSON reader
 * @param defaultModel model of a request that names none; null refuses such a request
 */
public record ParseOptions(JsonReader reader, @Nullable String defaultModel) {

  /** Default limits, and no default model. */
  public static final ParseOptions DEFAULTS =
      new ParseOptions(new JsonReader(JsonLimits.DEFAULTS), null);

  public ParseOptions {
    if (defaultModel != null && defaultModel.isEmpty()) {
      throw new IllegalArgumentException("the default model must have a name, or be left out");
    }
  }
}
