// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

import io.kvoy.inference.Json;
import java.nio.charset.StandardCharsets;

/**
 * Writes {@link Json} in its shortest form, for bodies that Kvoy itself makes or changes. Lone
 * surrogates become escapes, so the bytes are always UTF-8.
 */
public final class JsonWriter {
  private JsonWriter() {}

  /** Compact text, characters outside ASCII as themselves. */
  public static String text(Json value) {
    return PythonJson.dumps(value, PythonJson.Style.COMPACT);
  }

  /** Compact UTF-8 bytes. */
  public static byte[] bytes(Json value) {
    String text = text(value);
    if (LoneSurrogates.in(text)) {
      text = PythonJson.dumps(value, new PythonJson.Style(true, null, ",", ":", false));
    }
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
