// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import com.google.protobuf.ByteString;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpBody;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingResponse;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.kvoy.inference.ApiKind;
import io.kvoy.inference.dialect.ErrorBody;
import io.kvoy.server.RequestHead;
import io.kvoy.server.RoutingDecision;
import io.kvoy.server.RoutingPipeline;
import io.kvoy.server.Understanding;
import io.kvoy.server.feedback.Dispatch;
import io.kvoy.server.metrics.RequestOutcome;
import io.kvoy.server.metrics.StreamEnd;
import io.netty.util.Timeout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One HTTP request on its way through Envoy: the server side of one ext_proc stream.
 *
 * <p>Called by gRPC on an event loop, by the decision threads when a request was read, and by the
 * timer when one took too long. All three meet under this object's monitor, which is held for
 * microseconds and never while reading, tokenizing or waiting.
 *
 * <table>
 * <caption>Phases</caption>
 * <tr><th>from</th><th>trigger</th><th>to</th></tr>
 * <tr><td>HEADERS</td><td>request headers with a body to come</td><td>BODY</td></tr>
 * <tr><td>HEADERS</td><td>request headers that end the request, an upgrade, or a mode without a whole body</td><td>DECIDING</td></tr>
 * <tr><td>BODY</td><td>end of stream or trailers</td><td>DECIDING</td></tr>
 * <tr><td>BODY</td><td>over the size limit, or too slow</td><td>CLOSED (413, 408)</td></tr>
 * <tr><td>DECIDING</td><td>understood, or the deadline (then by load alone)</td><td>ROUTED or CLOSED (rejected)</td></tr>
 * <tr><td>ROUTED</td><td>end of the response, seen or reported by a trailer</td><td>ENDED</td></tr>
 * <tr><td>any</td><td>stream cancelled or broken</td><td>CLOSED; a routed request that had not ended is aborted</td></tr>
 * </table>
 *
 * <p>In the request phase the stream is never completed with OK before headers and the whole body
 * were answered: Envoy 1.40 then sends an empty request to the worker. Every early exit is an
 * immediate response or an error status.
 *
 * <p>Envoy ends a normal exchange by cancelling the stream, so a cancel after the end of the
 * response is no error.
 */
final class Exchange implements StreamObserver<ProcessingRequest> {
  private static final Logger LOG = LoggerFactory.getLogger(Exchange.class);

  /** Largest body piece sent at once; some gateways cap a message at 64 KiB. */
  static final int PIECE_BYTES = 62_000;

  private enum Phase {
    HEADERS,
    BODY,
    DECIDING,
    ROUTED,
    ENDED,
    CLOSED
  }

  /** How the request phase of this exchange is to be answered. */
  private enum RequestAnswer {
    /** Nothing to come but headers: the destination goes with the header answer. */
    HEADERS_ONLY,
    /** Header answer, then the whole body echoed in pieces. */
    DUPLEX,
    /**
     * Header answer went out at once; the destination goes with the answer to the buffered body.
     */
    BUFFERED
  }

  private final RoutingPipeline pipeline;
  private final ExchangeContext context;
  private final ServerCallStreamObserver<ProcessingResponse> envoy;

  /** Answers waiting until the peer can take more; empty nearly always. */
  @GuardedBy("this")
  private final Deque<ProcessingResponse> unsent = new ArrayDeque<>();

  @GuardedBy("this")
  private Phase phase = Phase.HEADERS;

  @GuardedBy("this")
  private @Nullable BodyModes modes;

  @GuardedBy("this")
  private @Nullable RequestHead head;

  @GuardedBy("this")
  private RequestAnswer requestAnswer = RequestAnswer.HEADERS_ONLY;

  @GuardedBy("this")
  private List<ByteString> body = new ArrayList<>();

  @GuardedBy("this")
  private long bodyBytes;

  /** Bytes of the body that count against the budget of all exchanges. */
  @GuardedBy("this")
  private long held;

  @GuardedBy("this")
  private boolean endedByTrailers;

  @GuardedBy("this")
  private @Nullable Timeout timer;

  @GuardedBy("this")
  private @Nullable Dispatch dispatch;

  /** What is known before the tokens are; written by a decision thread, read at the deadline. */
  private volatile @Nullable Understanding early;

  /** Whether the end of the stream was counted; several callbacks may tell it. */
  @GuardedBy("this")
  private boolean counted;

  /** Whether one message is owed to flow control, see {@link #takeNext}. */
  @GuardedBy("this")
  private boolean requestOwed;

  Exchange(
      RoutingPipeline pipeline,
      ExchangeContext context,
      ServerCallStreamObserver<ProcessingResponse> envoy) {
    this.pipeline = pipeline;
    this.context = context;
    this.envoy = envoy;
    context.openStreams().incrementAndGet();
    context.metrics().streamOpened();
    envoy.setOnReadyHandler(this::onReady);
    envoy.setOnCancelHandler(this::onGone);
  }

  @Override
  public void onNext(ProcessingRequest message) {
    synchronized (this) {
      if (modes == null) {
        modes = BodyModes.of(message);
      }
      switch (message.getRequestCase()) {
        case REQUEST_HEADERS -> onRequestHeaders(message, modes);
        case REQUEST_BODY -> onRequestBody(message.getRequestBody(), modes);
        case REQUEST_TRAILERS -> onRequestTrailers();
        case RESPONSE_HEADERS -> onResponseHeaders(message);
        case RESPONSE_BODY -> onResponseBody(message.getResponseBody(), modes);
        case RESPONSE_TRAILERS -> onResponseTrailers();
        case REQUEST_NOT_SET -> unexpected();
      }
      takeNext();
    }
  }

  /**
   * A message out of turn, such as a second end of stream after the first one (seen on bodies over
   * 1 MB).
   */
  @GuardedBy("this")
  private void unexpected() {
    LOG.debug("message out of turn phase={}", phase);
  }

  @Override
  public void onError(Throwable error) {
    onGone();
  }

  /** Envoy closed its half: nothing more comes. What was routed and not ended is an abort. */
  @Override
  public void onCompleted() {
    synchronized (this) {
      boolean unanswered = phase == Phase.HEADERS || phase == Phase.BODY || phase == Phase.DECIDING;
      boolean closed = phase == Phase.CLOSED;
      close();
      if (closed || envoy.isCancelled()) {
        return;
      }
      if (unanswered) {
        envoy.onError(
            Status.CANCELLED
                .withDescription("the proxy ended the stream before the request was answered")
                .asRuntimeException());
      } else {
        envoy.onCompleted();
      }
    }
  }

  // ---- request ----

  @GuardedBy("this")
  private void onRequestHeaders(ProcessingRequest message, BodyModes modes) {
    if (phase != Phase.HEADERS) {
      unexpected();
      return;
    }
    head = HeaderReader.requestHead(message);
    ExchangeLimits limits = context.limits().get();
    if (context.openStreams().get() > limits.maxStreams()) {
      reject(503, RequestOutcome.OVERLOADED, "The router is at its limit of open requests.");
      return;
    }
    if (message.getRequestHeaders().getHeaders().getSerializedSize() > limits.maxHeaderBytes()) {
      reject(431, RequestOutcome.TOO_LARGE, "The request headers are larger than the limit.");
      return;
    }
    boolean noBody =
        message.getRequestHeaders().getEndOfStream()
            || HeaderReader.isUpgrade(message.getRequestHeaders());
    if (noBody) {
      requestAnswer = RequestAnswer.HEADERS_ONLY;
      decide(pipeline.unread(head, "no_body"));
    } else if (modes.requestIsDuplex()) {
      requestAnswer = RequestAnswer.DUPLEX;
      awaitBody();
    } else if (modes.requestIsBuffered()) {
      requestAnswer = RequestAnswer.BUFFERED;
      send(EnvoyMessages.REQUEST_HEADERS_UNCHANGED);
      awaitBody();
    } else {
      // STREAMED sends the headers on before the body ends, NONE sends no body at all: both must be
      // decided now, without having seen the prompt.
      requestAnswer = RequestAnswer.HEADERS_ONLY;
      decide(pipeline.unread(head, "body_not_sent"));
    }
  }

  @GuardedBy("this")
  private void awaitBody() {
    phase = Phase.BODY;
    timer =
        context
            .timer()
            .newTimeout(
                _ -> onBodyTimeout(),
                context.limits().get().bodyTimeout().toMillis(),
                TimeUnit.MILLISECONDS);
  }

  @GuardedBy("this")
  private void onRequestBody(HttpBody chunk, BodyModes modes) {
    if (phase != Phase.BODY) {
      if (phase == Phase.ROUTED && !modes.requestIsDuplex() && !modes.requestIsBuffered()) {
        send(EnvoyMessages.REQUEST_BODY_UNCHANGED);
      } else {
        unexpected();
      }
      return;
    }
    bodyBytes += chunk.getBody().size();
    long maxBodyBytes = context.limits().get().maxBodyBytes();
    if (bodyBytes > maxBodyBytes) {
      reject(
          413,
          RequestOutcome.TOO_LARGE,
          "Request body is larger than the limit of " + maxBodyBytes + " bytes.");
      return;
    }
    if (!chunk.getBody().isEmpty()) {
      held += chunk.getBody().size();
      if (context.heldBytes().addAndGet(chunk.getBody().size()) > context.maxHeldBytes()) {
        reject(503, RequestOutcome.OVERLOADED, "The router holds too many request bodies.");
        return;
      }
      body.add(chunk.getBody());
    }
    if (chunk.getEndOfStream()) {
      understand();
    }
  }

  @GuardedBy("this")
  private void onRequestTrailers() {
    switch (phase) {
      case BODY -> {
        // With trailers no body message carries the end of stream: the trailers end the request.
        endedByTrailers = true;
        understand();
      }
      case ROUTED -> send(EnvoyMessages.REQUEST_TRAILERS_UNCHANGED);
      case DECIDING -> endedByTrailers = true;
      case HEADERS, ENDED, CLOSED -> unexpected();
    }
  }

  /** The whole request is here: read it on a decision thread, under our own deadline. */
  @GuardedBy("this")
  private void understand() {
    cancelTimer();
    phase = Phase.DECIDING;
    RequestHead known = headOrThrow();
    context.metrics().requestBytes(known.api(), bodyBytes);
    byte[] bytes = join(body, bodyBytes);
    try {
      context.decisionThreads().execute(() -> read(known, bytes));
    } catch (RejectedExecutionException _) {
      // Too many requests wait for a decision thread: by load alone is late by nothing.
      decide(pipeline.unread(known, "overload"));
      return;
    }
    // In full duplex Envoy's own message timeout does not fire, so nobody else guards this wait.
    timer =
        context
            .timer()
            .newTimeout(
                _ -> onDecisionDeadline(),
                context.limits().get().decisionDeadline().toMillis(),
                TimeUnit.MILLISECONDS);
  }

  /** On a decision thread. What was answered or given up while it waited for one is not read. */
  private void read(RequestHead known, byte[] bytes) {
    synchronized (this) {
      if (phase != Phase.DECIDING) {
        return;
      }
    }
    Understanding understanding = pipeline.understand(known, bytes, parsed -> early = parsed);
    synchronized (this) {
      if (phase == Phase.DECIDING) {
        decide(understanding);
      }
    }
  }

  private void onDecisionDeadline() {
    synchronized (this) {
      if (phase == Phase.DECIDING) {
        Understanding parsed = early;
        decide(parsed != null ? parsed : pipeline.unread(headOrThrow(), "deadline"));
      }
    }
  }

  private void onBodyTimeout() {
    synchronized (this) {
      if (phase == Phase.BODY) {
        reject(408, RequestOutcome.BODY_TIMEOUT, "The request body did not arrive in time.");
      }
    }
  }

  @GuardedBy("this")
  private void decide(Understanding understanding) {
    cancelTimer();
    early = null;
    RoutingDecision decision;
    try {
      decision = pipeline.decide(understanding);
    } catch (RuntimeException bug) {
      // Nobody else would answer: in full duplex Envoy waits for ever.
      LOG.error("decision_failed", bug);
      reject(500, RequestOutcome.INTERNAL_ERROR, "The router failed to decide.");
      return;
    }
    switch (decision) {
      case RoutingDecision.Route(Dispatch routed) -> {
        dispatch = routed;
        phase = Phase.ROUTED;
        sendRouted(routed.destination().toString());
      }
      case RoutingDecision.Reject(
              int status,
              byte[] error,
              RequestOutcome outcome,
              int retryAfter) ->
          sendImmediate(EnvoyMessages.immediate(status, error, retryAfter, outcome));
    }
    dropBody();
  }

  @GuardedBy("this")
  private void sendRouted(String destination) {
    switch (requestAnswer) {
      case HEADERS_ONLY -> send(EnvoyMessages.requestHeadersRouted(destination, false));
      case BUFFERED -> send(EnvoyMessages.bufferedBodyRouted(destination));
      case DUPLEX -> {
        send(EnvoyMessages.requestHeadersRouted(destination, true));
        sendBody();
      }
    }
    if (endedByTrailers) {
      send(EnvoyMessages.REQUEST_TRAILERS_UNCHANGED);
    }
  }

  /** Echoes the body in order; the last piece ends the stream unless trailers do. */
  @GuardedBy("this")
  private void sendBody() {
    long left = bodyBytes;
    if (left == 0) {
      if (!endedByTrailers) {
        send(EnvoyMessages.requestBodyPiece(ByteString.EMPTY, true));
      }
      return;
    }
    for (ByteString chunk : body) {
      for (int from = 0; from < chunk.size(); from += PIECE_BYTES) {
        ByteString piece = chunk.substring(from, Math.min(chunk.size(), from + PIECE_BYTES));
        left -= piece.size();
        send(EnvoyMessages.requestBodyPiece(piece, left == 0 && !endedByTrailers));
      }
    }
  }

  // ---- response ----

  @GuardedBy("this")
  private void onResponseHeaders(ProcessingRequest message) {
    var headers = message.getResponseHeaders();
    if (phase == Phase.CLOSED) {
      return;
    }
    Dispatch routed = dispatch;
    if (routed == null) {
      // A local reply of Envoy before we decided, or a stream that starts at the response: the
      // request phase is over, nothing is to be booked for it any more.
      cancelTimer();
      dropBody();
      phase = Phase.ENDED;
      send(EnvoyMessages.responseHeaders(Map.of()));
      return;
    }
    routed.responseHeaders(
        HeaderReader.status(headers),
        HeaderReader.find(headers, "content-type"),
        HeaderReader.find(headers, "content-encoding"),
        HeaderReader.servedBy(message));
    send(EnvoyMessages.responseHeaders(routed.explainHeaders()));
    if (headers.getEndOfStream()) {
      end(routed);
    }
  }

  @GuardedBy("this")
  private void onResponseBody(HttpBody chunk, BodyModes modes) {
    if (phase == Phase.CLOSED) {
      return;
    }
    send(
        modes.responseIsDuplex()
            ? EnvoyMessages.responseBodyPiece(chunk.getBody(), chunk.getEndOfStream())
            : EnvoyMessages.RESPONSE_BODY_UNCHANGED);
    Dispatch routed = dispatch;
    if (routed != null && phase == Phase.ROUTED) {
      routed.responseBody(chunk.getBody().asReadOnlyByteBuffer());
      if (chunk.getEndOfStream()) {
        end(routed);
      }
    }
  }

  @GuardedBy("this")
  private void onResponseTrailers() {
    if (phase == Phase.CLOSED) {
      return;
    }
    send(EnvoyMessages.RESPONSE_TRAILERS_UNCHANGED);
    Dispatch routed = dispatch;
    if (routed != null && phase == Phase.ROUTED) {
      end(routed);
    }
  }

  @GuardedBy("this")
  private void end(Dispatch routed) {
    phase = Phase.ENDED;
    routed.ended();
  }

  // ---- the stream itself ----

  @GuardedBy("this")
  private void reject(int status, RequestOutcome outcome, String message) {
    cancelTimer();
    ApiKind api = headOrThrow().api();
    pipeline.rejected(api, outcome);
    sendImmediate(EnvoyMessages.immediate(status, ErrorBody.of(api, status, message), 0, outcome));
    dropBody();
  }

  /** An immediate response is the last word: the exchange is over and nothing may follow it. */
  @GuardedBy("this")
  private void sendImmediate(ProcessingResponse response) {
    phase = Phase.CLOSED;
    unsent.clear();
    countEnd(StreamEnd.COMPLETE);
    if (!envoy.isCancelled()) {
      envoy.onNext(response);
      envoy.onCompleted();
    }
  }

  @GuardedBy("this")
  private void send(ProcessingResponse response) {
    if (!unsent.isEmpty() || !envoy.isReady()) {
      unsent.add(response);
    } else {
      write(response);
    }
  }

  @GuardedBy("this")
  private void write(ProcessingResponse response) {
    try {
      envoy.onNext(response);
    } catch (StatusRuntimeException e) {
      // The peer cancelled in the same moment; onGone follows or has been.
      LOG.debug("answer not sent: {}", e.getStatus().getCode());
    }
  }

  /**
   * Asks for one more message once our answers are out, so that a slow reader cannot make us hoard.
   */
  @GuardedBy("this")
  private void takeNext() {
    if (unsent.isEmpty()) {
      envoy.request(1);
    } else {
      requestOwed = true;
    }
  }

  private void onReady() {
    synchronized (this) {
      while (envoy.isReady() && !unsent.isEmpty()) {
        write(unsent.remove());
      }
      if (unsent.isEmpty() && requestOwed) {
        requestOwed = false;
        envoy.request(1);
      }
    }
  }

  private void onGone() {
    synchronized (this) {
      close();
    }
  }

  @GuardedBy("this")
  private void close() {
    cancelTimer();
    boolean open = phase == Phase.ROUTED;
    countEnd(
        phase == Phase.ENDED || phase == Phase.CLOSED ? StreamEnd.COMPLETE : StreamEnd.CANCELLED);
    phase = Phase.CLOSED;
    unsent.clear();
    dropBody();
    Dispatch routed = dispatch;
    if (open && routed != null) {
      routed.aborted();
    }
  }

  @GuardedBy("this")
  private void dropBody() {
    body = List.of();
    context.heldBytes().addAndGet(-held);
    held = 0;
  }

  @GuardedBy("this")
  private void countEnd(StreamEnd end) {
    if (!counted) {
      counted = true;
      context.openStreams().decrementAndGet();
      context.metrics().streamClosed(end);
    }
  }

  @GuardedBy("this")
  private void cancelTimer() {
    if (timer != null) {
      timer.cancel();
      timer = null;
    }
  }

  @GuardedBy("this")
  private RequestHead headOrThrow() {
    if (head == null) {
      throw Status.INTERNAL.withDescription("request headers not seen").asRuntimeException();
    }
    return head;
  }

  private static byte[] join(List<ByteString> chunks, long bytes) {
    byte[] whole = new byte[Math.toIntExact(bytes)];
    int at = 0;
    for (ByteString chunk : chunks) {
      chunk.copyTo(whole, at);
      at += chunk.size();
    }
    return whole;
  }
}
