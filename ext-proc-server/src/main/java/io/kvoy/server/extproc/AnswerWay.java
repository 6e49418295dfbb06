// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import io.grpc.Context;
import io.grpc.Contexts;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.kvoy.envoy.AnswerReports;

/**
 * How the answer of a request comes to us, as the proxy's configuration says in the gRPC headers of
 * its stream. No client can write there.
 */
enum AnswerWay {
  /** On the same stream, after the request. */
  IN_LINE,
  /** Not on this stream, which ends with the request: access log records tell of the answer. */
  REPORTED,
  /** Not on this stream, which ends with the request: a {@link #COPY} of the answer comes. */
  COPIED,
  /** This stream is a copy of an answer; its request was decided on another one. */
  COPY;

  private static final Context.Key<AnswerWay> KEY =
      Context.keyWithDefault("kvoy-answer-way", IN_LINE);
  private static final Metadata.Key<String> HEADER =
      Metadata.Key.of(AnswerReports.WAY_HEADER, Metadata.ASCII_STRING_MARSHALLER);

  boolean isElsewhere() {
    return this == REPORTED || this == COPIED;
  }

  /** Of the stream that is being opened; in the service method only. */
  static AnswerWay ofCurrentStream() {
    return KEY.get();
  }

  /** Reads the header where there is one; streams without it cost nothing more. */
  static final class Interceptor implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
      String way = headers.get(HEADER);
      if (way == null) {
        return next.startCall(call, headers);
      }
      AnswerWay known =
          switch (way) {
            case AnswerReports.REPORTED -> REPORTED;
            case AnswerReports.COPIED -> COPIED;
            case AnswerReports.COPY -> COPY;
            default -> IN_LINE;
          };
      return Contexts.interceptCall(Context.current().withValue(KEY, known), call, headers, next);
    }
  }
}
