// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import com.google.protobuf.ByteString;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
import io.envoyproxy.envoy.config.core.v3.HeaderValueOption;
import io.envoyproxy.envoy.config.core.v3.HeaderValueOption.HeaderAppendAction;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.HeaderSendMode;
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
import io.kvoy.envoy.AnswerReports;
import io.kvoy.envoy.ControlHeaders;
import io.kvoy.server.GatewayHeaders;
import io.kvoy.server.RoutingDecision;
import io.kvoy.server.metrics.RequestOutcome;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

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
   * Where a request goes and what is to be written for it.
   *
   * @param destination endpoint, or several in the order to try them
   * @param flight id under which the proxy is to tell of the answer, null when it comes in line
   * @param remove request headers that a worker must not see
   */
  record Routed(String destination, @Nullable String flight, List<String> remove) {}

  private static HeaderMutation routedHeaders(Routed routed, boolean dropLength) {
    HeaderMutation.Builder mutation =
        HeaderMutation.newBuilder()
            .addSetHeaders(header(GatewayHeaders.DESTINATION, routed.destination()))
            .addAllRemoveHeaders(routed.remove());
    if (dropLength) {
      mutation.addRemoveHeaders("content-length");
    }
    return mutation.build();
  }

  /** The same destination as dynamic metadata: gateways differ in which of the two they read. */
  private static Struct routedMetadata(Routed routed) {
    Struct.Builder metadata =
        Struct.newBuilder()
            .putFields(
                ControlHeaders.METADATA_NAMESPACE,
                field(GatewayHeaders.DESTINATION, routed.destination()));
    if (routed.flight() != null) {
      metadata.putFields(AnswerReports.NAMESPACE, field(AnswerReports.FLIGHT, routed.flight()));
    }
    return metadata.build();
  }

  private static Value field(String name, String value) {
    return Value.newBuilder()
        .setStructValue(
            Struct.newBuilder().putFields(name, Value.newBuilder().setStringValue(value).build()))
        .build();
  }

  /**
   * The answer to request headers.
   *
   * @param dropLength where the proxy re-frames the body
   */
  static ProcessingResponse requestHeadersRouted(Routed routed, boolean dropLength) {
    return ProcessingResponse.newBuilder()
        .setRequestHeaders(
            HeadersResponse.newBuilder()
                .setResponse(
                    CommonResponse.newBuilder()
                        .setClearRouteCache(true)
                        .setHeaderMutation(routedHeaders(routed, dropLength))))
        .setDynamicMetadata(routedMetadata(routed))
        .build();
  }

  /**
   * The answer to request headers of an upgrade or CONNECT where bodies are buffered: Envoy would
   * wait for an end that never comes before it sends even the headers on, so the body is not to be
   * sent here. Envoy follows it where {@code allow_mode_override} is configured.
   *
   * @param response the answer's body goes on as configured
   */
  static ProcessingResponse tunnelRouted(
      Routed routed, BodySendMode response, boolean isAnswerElsewhere) {
    HeaderSendMode responseHeaders = isAnswerElsewhere ? HeaderSendMode.SKIP : HeaderSendMode.SEND;
    HeaderSendMode responseTrailers =
        response == BodySendMode.FULL_DUPLEX_STREAMED ? HeaderSendMode.SEND : HeaderSendMode.SKIP;
    return requestHeadersRouted(routed, false).toBuilder()
        .setModeOverride(
            ProcessingMode.newBuilder()
                .setRequestHeaderMode(HeaderSendMode.SEND)
                .setRequestBodyMode(BodySendMode.NONE)
                .setRequestTrailerMode(HeaderSendMode.SKIP)
                .setResponseHeaderMode(responseHeaders)
                .setResponseBodyMode(response)
                .setResponseTrailerMode(responseTrailers))
        .build();
  }

  /**
   * BUFFERED mode: headers were let through before, the destination comes with the body's answer.
   *
   * @param edited the body to send on, null for the one that came
   */
  static ProcessingResponse bufferedBodyRouted(Routed routed, @Nullable ByteString edited) {
    HeaderMutation headers = routedHeaders(routed, false);
    CommonResponse.Builder answer = CommonResponse.newBuilder().setClearRouteCache(true);
    if (edited == null) {
      answer.setHeaderMutation(headers);
    } else {
      // The proxy refuses a body whose length is not the one in the headers.
      answer
          .setHeaderMutation(
              headers.toBuilder()
                  .addSetHeaders(header("content-length", Integer.toString(edited.size()))))
          .setBodyMutation(BodyMutation.newBuilder().setBody(edited));
    }
    return ProcessingResponse.newBuilder()
        .setRequestBody(BodyResponse.newBuilder().setResponse(answer))
        .setDynamicMetadata(routedMetadata(routed))
        .build();
  }

  /** STREAMED mode: other bytes in place of a piece of the answer, possibly none. */
  static ProcessingResponse responseBodyReplaced(ByteString piece) {
    BodyMutation.Builder mutation = BodyMutation.newBuilder();
    if (piece.isEmpty()) {
      mutation.setClearBody(true);
    } else {
      mutation.setBody(piece);
    }
    return ProcessingResponse.newBuilder()
        .setResponseBody(
            BodyResponse.newBuilder()
                .setResponse(CommonResponse.newBuilder().setBodyMutation(mutation)))
        .build();
  }

  /**
   * BUFFERED mode, headers and trailers without a body: trailers cannot change headers any more, so
   * the destination goes by metadata alone.
   */
  static ProcessingResponse requestTrailersRouted(Routed routed) {
    return ProcessingResponse.newBuilder()
        .setRequestTrailers(TrailersResponse.getDefaultInstance())
        .setDynamicMetadata(routedMetadata(routed))
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

  static ProcessingResponse immediate(RoutingDecision.Reject reject) {
    RequestOutcome outcome = reject.outcome();
    HeaderMutation.Builder headers =
        HeaderMutation.newBuilder().addSetHeaders(header("content-type", "application/json"));
    if (reject.retryAfterSeconds() > 0) {
      headers.addSetHeaders(header("retry-after", Integer.toString(reject.retryAfterSeconds())));
    }
    if (outcome.dropReason() != null) {
      headers.addSetHeaders(header(GatewayHeaders.DROPPED_REASON, outcome.dropReason()));
    }
    return ProcessingResponse.newBuilder()
        .setImmediateResponse(
            ImmediateResponse.newBuilder()
                .setStatus(HttpStatus.newBuilder().setCodeValue(checkedStatus(reject.status())))
                .setHeaders(headers)
                .setBody(ByteString.copyFrom(reject.body()))
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
