// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.stream;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** What kind of answer body passes by, known from the response headers. */
public enum BodyForm {
  /** {@code text/event-stream}. */
  EVENT_STREAM,
  /** One JSON document. */
  JSON,
  /** Anything else, or an encoded body: counted, not read. */
  OPAQUE;

  /**
   * The form that the headers announce.
   *
   * @param contentType value of {@code content-type}, null when absent
   * @param contentEncoding value of {@code content-encoding}, null when absent
   */
  public static BodyForm of(@Nullable String contentType, @Nullable String contentEncoding) {
    boolean plain =
        contentEncoding == null
            || contentEncoding.isBlank()
            || contentEncoding.strip().equalsIgnoreCase("identity");
    if (contentType == null || !plain) {
      return OPAQUE;
    }
    int parameters = contentType.indexOf(';');
    String media = parameters < 0 ? contentType : contentType.substring(0, parameters);
    return switch (media.strip().toLowerCase(Locale.ROOT)) {
      case "text/event-stream" -> EVENT_STREAM;
      case "application/json" -> JSON;
      default -> OPAQUE;
    };
  }
}
