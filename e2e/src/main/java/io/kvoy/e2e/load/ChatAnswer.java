// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.load;

import java.util.Map;

/**
 * What a client saw of one streamed chat request.
 *
 * @param status HTTP status, 0 when the connection failed
 * @param ttftMillis from sending to the first generated text, NaN when none came
 * @param totalMillis from sending to the end
 * @param text generated text
 * @param promptTokens as the worker reported, -1 when it did not
 * @param cachedTokens as the worker reported, -1 when it did not
 * @param completionTokens as the worker reported, -1 when it did not
 * @param headers response headers, names in lower case, first value of each
 * @param error what went wrong, empty when nothing did
 */
public record ChatAnswer(
    int status,
    double ttftMillis,
    double totalMillis,
    String text,
    long promptTokens,
    long cachedTokens,
    long completionTokens,
    Map<String, String> headers,
    String error) {

  public boolean ok() {
    return status == 200 && error.isEmpty() && !Double.isNaN(ttftMillis);
  }

  /** The header's value, empty when absent. */
  public String header(String name) {
    return headers.getOrDefault(name, "");
  }
}
