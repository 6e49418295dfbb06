// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import com.google.protobuf.ByteString;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
import io.envoyproxy.envoy.config.core.v3.HeaderValueOption;
import io.envoyproxy.envoy.config.core.v3.HeaderValueOption.HeaderAppendAction;
import io.envoyproxy.envoy.service.ext_proc.v3.BodyMutation;
import io.envoyproxy.envoy.service.ext_proc.v3.BodyResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.CommonResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.HeaderMutation;
import io.envoyproxy.envoy.service.ext_proc.v3.HeadersResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.ImmediateResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.StreamedBodyResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.TrailersResponse;
import io.envoyproxy.envoy.type.v3.HttpStatus;
import io.envoyproxy.envoy.type.v3.StatusCode;
import io.kvoy.envoy.ControlHeaders;
import io.kvoy.server.GatewayHeaders;
import io.kvoy.server.metrics.RequestOutcome;
import java.util.Locale;
import java.util.Map;

/** Every ext_proc message that Kvoy sends, built in one place. Stateless. */
final class EnvoyMessages {
  static final ProcessingResponse REQUEST_HEADERS_UNCHANGED =
      ProcessingResponse.newBuilder()
          .setRequestHeaders(HeadersResponse.getDefaultInstance())
          .build();
  static final ProcessingResponse REQUEST_BODY_UNCHANGED =
      ProcessingResponse.newBuilder().setRequestBody(BodyResponse.getDefaultInstance()).build();
  static final ProcessingResponse REQUEST_TRAILERS_UNCHANGED =
      ProcessingResponse.newBuilder()
          .setRequestTrailers(TrailersResponse.getDefaultInstance())
          .build();
  static final ProcessingResponse RESPONSE_BODY_UNCHANGED =
      ProcessingResponse.newBuilder().setResponseBody(BodyResponse.getDefaultInstance()).build();
  static final ProcessingResponse RESPONSE_TRAILERS_UNCHANGED =
      ProcessingResponse.newBuilder()
          .setResponseTrailers(TrailersResponse.getDefaultInstance())
          .build();

  private EnvoyMessages() {}

  /**
   * The destination as a request header mutation; {@code dropLength} where Envoy re-frames the
   * body.
   */
  static HeaderMutation routedHeaders(String destination, boolean dropLength) {
    HeaderMutation.Builder mutation =
        HeaderMutation.newBuilder().addSetHeaders(header(GatewayHeaders.DESTINATION, destination));
    for (String name : GatewayHeaders.CLIENT_MUST_NOT_SET) {
      if (!name.equals(GatewayHeaders.DESTINATION)) {
        mutation.addRemoveHeaders(name);
      }
    }
    if (dropLength) {
      mutation.addRemoveHeaders("content-length");
    }
    return mutation.build();
  }

  /** The same destination as dynamic metadata: gateways differ in which of the two they read. */
  static Struct routedMetadata(String destination) {
    return Struct.newBuilder()
        .putFields(
            ControlHeaders.METADATA_NAMESPACE,
            Value.newBuilder()
                .setStructValue(
                    Struct.newBuilder()
                        .putFields(
                            GatewayHeaders.DESTINATION,
                            Value.newBuilder().setStringValue(destination).build()))
                .build())
        .build();
  }

  static ProcessingResponse requestHeadersRouted(String destination, boolean dropLength) {
    return ProcessingResponse.newBuilder()
        .setRequestHeaders(
            HeadersResponse.newBuilder()
                .setResponse(
                    CommonResponse.newBuilder()
                        .setClearRouteCache(true)
                        .setHeaderMutation(routedHeaders(destination, dropLength))))
        .setDynamicMetadata(routedMetadata(destination))
        .build();
  }

  /**
   * BUFFERED mode: headers were let through before, the destination comes with the body's answer.
   */
  static ProcessingResponse bufferedBodyRouted(String destination) {
    return ProcessingResponse.newBuilder()
        .setRequestBody(
            BodyResponse.newBuilder()
                .setResponse(
                    CommonResponse.newBuilder()
                        .setClearRouteCache(true)
                        .setHeaderMutation(routedHeaders(destination, false))))
        .setDynamicMetadata(routedMetadata(destination))
        .build();
  }

  static ProcessingResponse requestBodyPiece(ByteString piece, boolean end) {
    return ProcessingResponse.newBuilder().setRequestBody(streamed(piece, end)).build();
  }

  static ProcessingResponse responseBodyPiece(ByteString piece, boolean end) {
    return ProcessingResponse.newBuilder().setResponseBody(streamed(piece, end)).build();
  }

  static ProcessingResponse responseHeaders(Map<String, String> set) {
    HeadersResponse.Builder answer = HeadersResponse.newBuilder();
    if (!set.isEmpty()) {
      HeaderMutation.Builder mutation = HeaderMutation.newBuilder();
      set.forEach((name, value) -> mutation.addSetHeaders(header(name, value)));
      answer.setResponse(CommonResponse.newBuilder().setHeaderMutation(mutation));
    }
    return ProcessingResponse.newBuilder().setResponseHeaders(answer).build();
  }

  static ProcessingResponse immediate(
      int status, byte[] jsonBody, int retryAfterSeconds, RequestOutcome outcome) {
    HeaderMutation.Builder headers =
        HeaderMutation.newBuilder().addSetHeaders(header("content-type", "application/json"));
    if (retryAfterSeconds > 0) {
      headers.addSetHeaders(header("retry-after", Integer.toString(retryAfterSeconds)));
    }
    return ProcessingResponse.newBuilder()
        .setImmediateResponse(
            ImmediateResponse.newBuilder()
                .setStatus(HttpStatus.newBuilder().setCodeValue(checkedStatus(status)))
                .setHeaders(headers)
                .setBody(ByteString.copyFrom(jsonBody))
                .setDetails("kvoy_" + outcome.name().toLowerCase(Locale.ROOT)))
        .build();
  }

  private static int checkedStatus(int status) {
    return StatusCode.forNumber(status) == null ? StatusCode.InternalServerError_VALUE : status;
  }

  private static BodyResponse streamed(ByteString piece, boolean end) {
    return BodyResponse.newBuilder()
        .setResponse(
            CommonResponse.newBuilder()
                .setBodyMutation(
                    BodyMutation.newBuilder()
                        .setStreamedResponse(
                            StreamedBodyResponse.newBuilder().setBody(piece).setEndOfStream(end))))
        .build();
  }

  private static HeaderValueOption header(String name, String value) {
    return HeaderValueOption.newBuilder()
        .setAppendAction(HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD)
        .setHeader(
            HeaderValue.newBuilder().setKey(name).setRawValue(ByteString.copyFromUtf8(value)))
        .build();
  }
}
