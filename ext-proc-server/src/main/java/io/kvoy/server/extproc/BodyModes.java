// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;

/**
 * How the proxy sends bodies, as it says in the first message of a stream. The proxy's word counts,
 * not our settings: each mode wants another kind of answer, and a wrong kind fails the request.
 */
record BodyModes(BodySendMode request, BodySendMode response) {
  /** For proxies that do not say: what the endpoint picker protocol demands. */
  static final BodyModes FULL_DUPLEX =
      new BodyModes(BodySendMode.FULL_DUPLEX_STREAMED, BodySendMode.FULL_DUPLEX_STREAMED);

  static BodyModes of(ProcessingRequest first) {
    return first.hasProtocolConfig()
        ? new BodyModes(
            first.getProtocolConfig().getRequestBodyMode(),
            first.getProtocolConfig().getResponseBodyMode())
        : FULL_DUPLEX;
  }

  boolean requestIsDuplex() {
    return request == BodySendMode.FULL_DUPLEX_STREAMED;
  }

  boolean requestIsBuffered() {
    return request == BodySendMode.BUFFERED || request == BodySendMode.BUFFERED_PARTIAL;
  }

  /** The one message with the body may hold its beginning only. */
  boolean requestMayBePartial() {
    return request == BodySendMode.BUFFERED_PARTIAL;
  }

  /** Request bodies do not come here at all. */
  boolean requestIsNotSent() {
    return request == BodySendMode.NONE;
  }

  /**
   * Whether a request's body may be replaced as a whole and each piece of its answer as it comes.
   */
  boolean areEditable() {
    boolean request = requestIsDuplex() || (requestIsBuffered() && !requestMayBePartial());
    return request && (responseIsDuplex() || responseIsStreamed());
  }

  boolean responseIsStreamed() {
    return response == BodySendMode.STREAMED;
  }

  boolean responseIsDuplex() {
    return response == BodySendMode.FULL_DUPLEX_STREAMED;
  }
}
