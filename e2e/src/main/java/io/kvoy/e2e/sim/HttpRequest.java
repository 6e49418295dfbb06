// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * One HTTP request, read whole.
 *
 * @param path without the query
 * @param query without the question mark, empty when there is none
 * @param headers by lower-case name; the last of equal names wins
 */
@SuppressWarnings("ArrayRecordComponent") // Never compared.
record HttpRequest(
    String method, String path, String query, Map<String, String> headers, byte[] body) {

  @Nullable String header(String lowerCaseName) {
    return headers.get(lowerCaseName);
  }
}
