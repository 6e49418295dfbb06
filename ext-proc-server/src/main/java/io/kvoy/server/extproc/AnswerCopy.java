// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import io.envoyproxy.envoy.service.ext_proc.v3.HttpBody;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.kvoy.server.feedback.Dispatch;
import io.kvoy.server.feedback.DispatchBook;
import io.kvoy.server.metrics.ServerMeters;
import io.kvoy.server.metrics.StreamEnd;
import java.util.function.Consumer;

/**
 * One answer, copied to us while it goes its way: a stream of Envoy's observability mode, on which
 * nothing is answered. It begins with the headers of the routed request. Called by gRPC on an event
 * loop, one call at a time.
 */
final class AnswerCopy implements StreamObserver<ProcessingRequest> {
  private final DispatchBook book;
  private final ServerMeters metrics;
  private final StreamObserver<ProcessingResponse> envoy;
  private String flight = "";
  private boolean seenEnd;
  private boolean closed;

  AnswerCopy(
      DispatchBook book, ServerMeters metrics, ServerCallStreamObserver<ProcessingResponse> envoy) {
    this.book = book;
    this.metrics = metrics;
    this.envoy = envoy;
    envoy.setOnCancelHandler(this::close);
    metrics.streamOpened();
  }

  @Override
  public void onNext(ProcessingRequest message) {
    if (seenEnd) {
      return;
    }
    switch (message.getRequestCase()) {
      case RESPONSE_HEADERS -> {
        var headers = message.getResponseHeaders();
        flight = HeaderReader.flight(message);
        tell(
            dispatch ->
                dispatch.responseHeaders(
                    HeaderReader.status(headers),
                    HeaderReader.find(headers, "content-type"),
                    HeaderReader.find(headers, "content-encoding"),
                    HeaderReader.servedBy(message),
                    HeaderReader.answered(message)));
        endIf(headers.getEndOfStream());
      }
      case RESPONSE_BODY -> {
        HttpBody chunk = message.getResponseBody();
        tell(dispatch -> dispatch.responseBody(chunk.getBody().asReadOnlyByteBuffer()));
        endIf(chunk.getEndOfStream());
      }
      case RESPONSE_TRAILERS -> endIf(true);
      // Known from here on: the stream's end without an answer is a client that left.
      case REQUEST_HEADERS -> flight = HeaderReader.flight(message);
      case REQUEST_BODY, REQUEST_TRAILERS, REQUEST_NOT_SET -> {}
    }
  }

  private void endIf(boolean end) {
    if (end) {
      seenEnd = true;
      tell(Dispatch::ended);
    }
  }

  private void tell(Consumer<Dispatch> what) {
    if (!flight.isEmpty()) {
      book.tell(flight, what);
    }
  }

  @Override
  public void onError(Throwable error) {
    close();
  }

  @Override
  public void onCompleted() {
    close();
    envoy.onCompleted();
  }

  /** The copy ends; before the end of the answer that means that the answer broke off. */
  private void close() {
    if (closed) {
      return;
    }
    closed = true;
    metrics.streamClosed(seenEnd ? StreamEnd.COMPLETE : StreamEnd.CANCELLED);
    if (!seenEnd) {
      tell(Dispatch::aborted);
    }
  }
}
