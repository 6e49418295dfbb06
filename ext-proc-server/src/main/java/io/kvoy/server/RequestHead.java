// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import io.kvoy.inference.ApiKind;
import io.kvoy.scoring.fleet.Endpoint;
import java.util.List;
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
 */
public record RequestHead(
    String method,
    String path,
    ApiKind api,
    String requestId,
    String contentEncoding,
    @Nullable List<Endpoint> subset) {}
