// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.inference.ApiKind;
import io.kvoy.scoring.fleet.Endpoint;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/**
 * What the request headers say, as far as routing needs it.
 *
 * @param method HTTP method, upper case
 * @param path request path with query
 * @param api what the path asks for; {@link ApiKind#OTHER} unless the method is POST
 * @param requestId the proxy's request id, or one of our own making
 * @param contentEncoding lower case, empty when absent
 * @param subset endpoints that the proxy allows, null when it gave no hint
 * @param wishes what the caller asks of the decision
 * @param editable whether the proxy lets us change the request's body and each piece of the answer
 */
public record RequestHead(
    String method,
    String path,
    ApiKind api,
    String requestId,
    String contentEncoding,
    @Nullable List<Endpoint> subset,
    Wishes wishes,
    boolean editable) {

  /** Of a request that asks for nothing in particular. */
  public RequestHead(
      String method,
      String path,
      ApiKind api,
      String requestId,
      String contentEncoding,
      @Nullable List<Endpoint> subset,
      boolean editable) {
    this(method, path, api, requestId, contentEncoding, subset, Wishes.NONE, editable);
  }

  private static final int MAX_REQUEST_ID_CHARS = 128;

  /** The proxy's request id where it is a usable one, one of our own making otherwise. */
  public static String requestIdOr(String given) {
    return given.isEmpty() || given.length() > MAX_REQUEST_ID_CHARS
        ? UUID.randomUUID().toString()
        : given;
  }

  /** The same, with the word of the proxy's body modes. */
  public RequestHead withEditable(boolean value) {
    return new RequestHead(method, path, api, requestId, contentEncoding, subset, wishes, value);
  }

  /** The same with other wishes. */
  public RequestHead with(Wishes other) {
    return new RequestHead(method, path, api, requestId, contentEncoding, subset, other, editable);
  }
}
