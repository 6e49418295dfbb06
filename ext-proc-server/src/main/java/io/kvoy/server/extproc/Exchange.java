// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpBody;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingResponse;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.kvoy.inference.ApiKind;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.ConformanceHooks;
import io.kvoy.server.EditedBody;
import io.kvoy.server.OwnBytes;
import io.kvoy.server.RequestHead;
import io.kvoy.server.RoutingDecision;
import io.kvoy.server.RoutingPipeline;
import io.kvoy.server.Understanding;
import io.kvoy.server.feedback.Dispatch;
import io.kvoy.server.metrics.RequestOutcome;
import io.kvoy.server.metrics.StreamEnd;
import io.kvoy.server.queue.WaitingRoom;
import io.netty.util.Timeout;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.LinkedHashMap;
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
 * microseconds and never while waiting. Small bodies may be read under it, on the event loop: see
 * {@link InlineReading}.
 *
 * <table>
 * <caption>Phases</caption>
 * <tr><th>from</th><th>trigger</th><th>to</th></tr>
 * <tr><td>HEADERS</td><td>request headers with a body to come</td><td>BODY</td></tr>
 * <tr><td>HEADERS</td><td>any other message: the proxy leaves the request's headers out</td><td>UNSEEN</td></tr>
 * <tr><td>HEADERS</td><td>request headers that end the request, an upgrade, or a mode without a whole body</td><td>DECIDING</td></tr>
 * <tr><td>BODY</td><td>end of stream or trailers</td><td>DECIDING</td></tr>
 * <tr><td>BODY</td><td>over the size limit, or too slow</td><td>CLOSED (413, 408)</td></tr>
 * <tr><td>DECIDING</td><td>understood, or the deadline (then by load alone)</td><td>ROUTED, WAITING or CLOSED (rejected)</td></tr>
 * <tr><td>WAITING</td><td>a worker can take it, or its time is over</td><td>ROUTED or CLOSED (rejected)</td></tr>
 * <tr><td>ROUTED</td><td>end of the response, seen or told by a trailer</td><td>ENDED</td></tr>
 * <tr><td>ROUTED</td><td>last request answer sent, when the answer comes another way</td><td>ENDED (the book goes on)</td></tr>
 * <tr><td>any</td><td>stream cancelled or broken</td><td>CLOSED; a routed request that had not ended is aborted</td></tr>
 * </table>
 *
 * <p>In the request phase the stream is never completed with OK before headers and the whole body
 * were answered: Envoy 1.40 then sends an empty request to the worker. Every early exit is an
 * immediate response or an error status.
 *
 * <p>A normal exchange is ended by us once the last phase was answered. Where we cannot see that it
 * was the last one (trailers that are not sent to us) Envoy cancels the stream, so a cancel after
 * the end of the response is no error.
 */
final class Exchange implements StreamObserver<ProcessingRequest> {
  private static final Logger LOG = LoggerFactory.getLogger(Exchange.class);

  /** Largest body piece sent at once; some gateways cap a message at 64 KiB. */
  static final int PIECE_BYTES = 62_000;

  private enum Phase {
    HEADERS,
    /**
     * The proxy does not send request headers. It has chosen a worker by then, so nothing is picked
     * or booked: every message is answered as if it were not ours.
     */
    UNSEEN,
    BODY,
    DECIDING,
    /** No worker can take it yet. */
    WAITING,
    ROUTED,
    ENDED,
    CLOSED
  }

  /** How the request phase of this exchange is to be answered. */
  private enum RequestAnswer {
    /** The request is its headers: the destination goes with the header answer. */
    HEADERS_ONLY,
    /**
     * As above, and then a body passes that nobody waits for: each message is answered as it comes
     * (an upgrade, or STREAMED mode).
     */
    HEADERS_FIRST,
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

  private final AnswerWay answerWay;

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

  /** The body is not the client's but ours, in one piece. */
  @GuardedBy("this")
  private boolean isEdited;

  /** Whether the body is not needed any more, other than by {@link #unsent}. */
  @GuardedBy("this")
  private boolean bodyDropped;

  @GuardedBy("this")
  private boolean endedByTrailers;

  /** Whether the buffered body, sent in one message, was said to be the end. */
  @GuardedBy("this")
  private boolean wholeBodyEnded;

  /** Request headers of the client that a worker must not see. */
  @GuardedBy("this")
  private List<String> remove = List.of();

  /** To be ended with OK when the last answer is out. */
  @GuardedBy("this")
  private boolean completing;

  /** Ended with OK by us. */
  @GuardedBy("this")
  private boolean completed;

  @GuardedBy("this")
  private @Nullable Timeout timer;

  @GuardedBy("this")
  private @Nullable Dispatch dispatch;

  /** Where it waits for a worker. */
  @GuardedBy("this")
  private WaitingRoom.@Nullable Place<RoutingDecision> place;

  /** The dispatch's id in the book, when its answer comes another way. */
  @GuardedBy("this")
  private @Nullable String flight;

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
      ServerCallStreamObserver<ProcessingResponse> envoy,
      AnswerWay answerWay) {
    this.pipeline = pipeline;
    this.context = context;
    this.envoy = envoy;
    this.answerWay = answerWay;
    context.openStreams().incrementAndGet();
    context.startedStreams().incrementAndGet();
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
      if (phase == Phase.HEADERS && !message.hasRequestHeaders()) {
        phase = Phase.UNSEEN;
        pipeline.rejected(ApiKind.OTHER, RequestOutcome.UNSEEN);
      }
      switch (message.getRequestCase()) {
        case REQUEST_HEADERS -> onRequestHeaders(message, modes);
        case REQUEST_BODY -> onRequestBody(message.getRequestBody(), modes);
        case REQUEST_TRAILERS -> onRequestTrailers();
        case RESPONSE_HEADERS -> onResponseHeaders(message);
        case RESPONSE_BODY -> onResponseBody(message.getResponseBody(), modes);
        case RESPONSE_TRAILERS -> onResponseTrailers(modes);
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
      boolean unanswered =
          switch (phase) {
            case HEADERS, BODY, DECIDING, WAITING -> true;
            case UNSEEN, ROUTED, ENDED, CLOSED -> false;
          };
      boolean closed = phase == Phase.CLOSED || completed;
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
    head =
        HeaderReader.requestHead(message)
            .withEditable(!answerWay.isElsewhere() && modes.areEditable());
    if (context.conformanceHooks()) {
      String named = HeaderReader.find(message.getRequestHeaders(), ConformanceHooks.SELECTION);
      if (named != null) {
        RequestHead asked = headOrThrow();
        head = asked.with(asked.wishes().withEndpoints(ConformanceHooks.selection(named)));
      }
    }
    ExchangeLimits limits = context.limits().get();
    if (context.openStreams().get() > limits.maxStreams()) {
      reject(RequestOutcome.OVERLOADED, "The router is at its limit of open requests.");
      return;
    }
    if (message.getRequestHeaders().getHeaders().getSerializedSize() > limits.maxHeaderBytes()) {
      reject(RequestOutcome.HEADERS_TOO_LARGE, RequestOutcome.HEADERS_TOO_LARGE.message());
      return;
    }
    remove = HeaderReader.headersToRemove(message.getRequestHeaders());
    if (message.getRequestHeaders().getEndOfStream()) {
      requestAnswer = RequestAnswer.HEADERS_ONLY;
      decide(pipeline.unread(head, "no_body"));
    } else if (HeaderReader.isUpgrade(message.getRequestHeaders())) {
      // Nobody knows when it ends: whoever waits for the end waits for ever.
      requestAnswer = RequestAnswer.HEADERS_FIRST;
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
      // decided at once, without having seen the prompt.
      requestAnswer =
          modes.requestIsNotSent() ? RequestAnswer.HEADERS_ONLY : RequestAnswer.HEADERS_FIRST;
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
    boolean restOfCutBody =
        requestAnswer == RequestAnswer.BUFFERED && modes.requestMayBePartial() && !wholeBodyEnded;
    if (phase == Phase.UNSEEN) {
      sendRequestBodyUnchanged(chunk, modes);
      return;
    }
    if (phase == Phase.ROUTED && (requestAnswer == RequestAnswer.HEADERS_FIRST || restOfCutBody)) {
      sendRequestBodyUnchanged(chunk, modes);
      if (chunk.getEndOfStream()) {
        wholeBodyEnded = true;
        requestAnswered();
      }
      return;
    }
    if (phase != Phase.BODY) {
      unexpected();
      return;
    }
    bodyBytes += chunk.getBody().size();
    long maxBodyBytes = context.limits().get().maxBodyBytes();
    if (bodyBytes > maxBodyBytes && modes.requestMayBePartial()) {
      cancelTimer();
      wholeBodyEnded = chunk.getEndOfStream();
      decide(pipeline.unread(headOrThrow(), "body_cut"));
      return;
    }
    if (bodyBytes > maxBodyBytes) {
      reject(
          RequestOutcome.TOO_LARGE,
          "Request body is larger than the limit of " + maxBodyBytes + " bytes.");
      return;
    }
    if (!chunk.getBody().isEmpty()) {
      if (!hold(chunk.getBody().size())) {
        return;
      }
      body.add(chunk.getBody());
    }
    wholeBodyEnded = chunk.getEndOfStream();
    if (wholeBodyEnded) {
      understand();
    } else if (modes.requestIsBuffered()) {
      // Buffered bodies come in one message. Without the end of stream trailers follow (which we
      // may not get to see), or a partial mode has cut the body: then it cannot be read.
      if (modes.requestMayBePartial()) {
        cancelTimer();
        decide(pipeline.unread(headOrThrow(), "body_cut"));
      } else {
        understand();
      }
    }
  }

  /**
   * Counts bytes against the budget of all exchanges; beyond it the request is refused.
   *
   * @return false when it was
   */
  @GuardedBy("this")
  private boolean hold(long bytes) {
    held += bytes;
    if (context.heldBytes().addAndGet(bytes) <= context.maxHeldBytes()) {
      return true;
    }
    reject(RequestOutcome.OVERLOADED, "The router holds too many request bodies.");
    return false;
  }

  @GuardedBy("this")
  private void sendRequestBodyUnchanged(HttpBody chunk, BodyModes modes) {
    send(
        modes.requestIsDuplex()
            ? EnvoyMessages.requestBodyPiece(chunk.getBody(), chunk.getEndOfStream())
            : EnvoyMessages.REQUEST_BODY_UNCHANGED);
  }

  @GuardedBy("this")
  private void onRequestTrailers() {
    switch (phase) {
      case UNSEEN -> send(EnvoyMessages.REQUEST_TRAILERS_UNCHANGED);
      case BODY -> {
        // With trailers no body message carries the end of stream: the trailers end the request.
        endedByTrailers = true;
        understand();
      }
      case ROUTED -> {
        send(EnvoyMessages.REQUEST_TRAILERS_UNCHANGED);
        requestAnswered();
      }
      case DECIDING, WAITING -> endedByTrailers = true;
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
    byte[] bytes = OwnBytes.of(body, Math.toIntExact(bodyBytes));
    if (context.inline().allows(bytes.length)) {
      read(known, bytes);
      if (phase != Phase.DECIDING) {
        return;
      }
      // Somebody else was asked for the tokens.
    } else {
      try {
        context.decisionThreads().execute(() -> read(known, bytes));
      } catch (RejectedExecutionException _) {
        // Too many requests wait for a decision thread: by load alone is late by nothing.
        decide(pipeline.unread(known, "overload"));
        return;
      }
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

  /**
   * On a decision thread or, small bodies, an event loop. What was answered or given up while it
   * waited for a thread is not read.
   */
  private void read(RequestHead known, byte[] bytes) {
    synchronized (this) {
      if (phase != Phase.DECIDING) {
        return;
      }
    }
    long start = System.nanoTime();
    pipeline.understand(known, bytes, parsed -> early = parsed, this::onUnderstood);
    context.inline().took(bytes.length, System.nanoTime() - start);
  }

  private void onUnderstood(Understanding understanding) {
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
        reject(RequestOutcome.BODY_TIMEOUT, RequestOutcome.BODY_TIMEOUT.message());
      }
    }
  }

  @GuardedBy("this")
  private void decide(Understanding understanding) {
    cancelTimer();
    early = null;
    RoutingDecision decision;
    try {
      decision = pipeline.decide(understanding, mayWait() ? this::onPlaced : null);
    } catch (RuntimeException bug) {
      failed(bug);
      return;
    }
    settle(decision);
  }

  /** Whether nothing of the request comes before it is answered. */
  @GuardedBy("this")
  private boolean mayWait() {
    BodyModes known = modes;
    boolean isCut = known != null && known.requestMayBePartial() && !wholeBodyEnded;
    return requestAnswer != RequestAnswer.HEADERS_FIRST && !isCut;
  }

  private boolean onPlaced(RoutingDecision decision) {
    synchronized (this) {
      if (phase != Phase.WAITING) {
        return false;
      }
      place = null;
      try {
        settle(decision);
        return true;
      } catch (RuntimeException bug) {
        failed(bug);
        return false;
      }
    }
  }

  /** Nobody else would answer: in full duplex Envoy waits for ever. */
  @GuardedBy("this")
  private void failed(RuntimeException bug) {
    LOG.error("decision_failed", bug);
    reject(RequestOutcome.INTERNAL_ERROR, RequestOutcome.INTERNAL_ERROR.message());
  }

  /**
   * @return whether it was waiting, and has no decision yet
   */
  @GuardedBy("this")
  private boolean leaveWaitingRoom() {
    WaitingRoom.Place<RoutingDecision> left = place;
    place = null;
    return left != null && left.leave();
  }

  @GuardedBy("this")
  private void settle(RoutingDecision decision) {
    switch (decision) {
      case RoutingDecision.Wait(var waiting, long bytes) -> {
        place = waiting;
        phase = Phase.WAITING;
        if (!hold(bytes)) {
          var _ = leaveWaitingRoom();
        }
        return;
      }
      case RoutingDecision.Route(Dispatch routed, EditedBody edited) -> {
        dispatch = routed;
        phase = Phase.ROUTED;
        if (edited != null) {
          replaceBody(edited);
        }
        flight =
            answerWay.isElsewhere()
                ? context.book().keep(routed, answerWay == AnswerWay.REPORTED)
                : null;
        sendRouted(new EnvoyMessages.Routed(routed.destinations(), flight, remove));
      }
      case RoutingDecision.Reject reject -> sendImmediate(EnvoyMessages.immediate(reject));
    }
    dropBody();
  }

  /**
   * From here on the edited body is the request's. It goes out decoded, and the answer must come
   * without an encoding that would hide the chunk to be taken out.
   */
  @GuardedBy("this")
  private void replaceBody(EditedBody edited) {
    body = List.of(UnsafeByteOperations.unsafeWrap(edited.bytes()));
    bodyBytes = edited.bytes().length;
    isEdited = true;
    List<String> more = new ArrayList<>(remove);
    more.add("content-encoding");
    more.add("accept-encoding");
    remove = more;
  }

  @GuardedBy("this")
  private void sendRouted(EnvoyMessages.Routed routed) {
    switch (requestAnswer) {
      case HEADERS_ONLY -> send(EnvoyMessages.requestHeadersRouted(routed, false));
      case HEADERS_FIRST -> {
        BodyModes known = modes;
        send(
            known != null && known.requestIsBuffered()
                ? EnvoyMessages.tunnelRouted(routed, known.response(), answerWay.isElsewhere())
                : EnvoyMessages.requestHeadersRouted(routed, false));
      }
      case BUFFERED -> {
        if (endedByTrailers && bodyBytes == 0) {
          // No body message came that could carry the destination.
          send(EnvoyMessages.requestTrailersRouted(routed));
          requestAnswered();
          return;
        }
        send(EnvoyMessages.bufferedBodyRouted(routed, isEdited ? body.getFirst() : null));
        if (!wholeBodyEnded && !endedByTrailers) {
          // Trailers, or the rest of a cut body, come next.
          return;
        }
      }
      case DUPLEX -> {
        send(EnvoyMessages.requestHeadersRouted(routed, true));
        sendBody();
      }
    }
    if (endedByTrailers) {
      send(EnvoyMessages.REQUEST_TRAILERS_UNCHANGED);
    }
    if (requestAnswer != RequestAnswer.HEADERS_FIRST) {
      requestAnswered();
    }
  }

  /**
   * Headers and the whole body were answered; where nothing more is to come, so ends the stream.
   */
  @GuardedBy("this")
  private void requestAnswered() {
    if (answerWay.isElsewhere() && phase == Phase.ROUTED) {
      phase = Phase.ENDED;
      finish();
    }
  }

  /**
   * All phases were answered: ends the stream with OK as soon as the answers are out. Left to Envoy
   * it would end by a cancel, for which gRPC makes an exception with a stack trace.
   */
  @GuardedBy("this")
  private void finish() {
    countEnd(StreamEnd.COMPLETE);
    completing = true;
    completeWhenSent();
  }

  @GuardedBy("this")
  private void completeWhenSent() {
    if (completing && unsent.isEmpty() && !envoy.isCancelled()) {
      completing = false;
      completed = true;
      envoy.onCompleted();
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
      // A local reply of Envoy before we decided, or a request that we were not shown: the request
      // phase is over, nothing is to be booked for it any more.
      cancelTimer();
      if (leaveWaitingRoom()) {
        pipeline.rejected(headOrThrow().api(), RequestOutcome.CLIENT_GONE);
      }
      dropBody();
      if (phase != Phase.UNSEEN) {
        phase = Phase.ENDED;
      }
      send(EnvoyMessages.responseHeaders(Map.of()));
      return;
    }
    routed.responseHeaders(
        HeaderReader.status(headers),
        HeaderReader.find(headers, "content-type"),
        HeaderReader.find(headers, "content-encoding"),
        HeaderReader.servedBy(message),
        HeaderReader.answered(message));
    send(EnvoyMessages.responseHeaders(shownHeaders(routed, message)));
    if (headers.getEndOfStream()) {
      end(routed);
    }
  }

  private Map<String, String> shownHeaders(Dispatch routed, ProcessingRequest message) {
    Map<String, String> explained = routed.explainHeaders();
    if (!context.conformanceHooks()) {
      return explained;
    }
    Endpoint served = HeaderReader.servedBy(message);
    Map<String, String> shown = new LinkedHashMap<>(explained);
    shown.put(ConformanceHooks.SERVED, served == null ? "" : served.toString());
    return shown;
  }

  @GuardedBy("this")
  private void onResponseBody(HttpBody chunk, BodyModes modes) {
    if (phase == Phase.CLOSED) {
      return;
    }
    Dispatch routed = phase == Phase.ROUTED ? dispatch : null;
    if (routed != null && isEdited) {
      routed.responseBody(chunk.getBody().asReadOnlyByteBuffer());
      sendShown(routed, chunk, modes);
    } else {
      send(
          modes.responseIsDuplex()
              ? EnvoyMessages.responseBodyPiece(chunk.getBody(), chunk.getEndOfStream())
              : EnvoyMessages.RESPONSE_BODY_UNCHANGED);
      if (routed != null) {
        routed.responseBody(chunk.getBody().asReadOnlyByteBuffer());
      }
    }
    if (routed != null && chunk.getEndOfStream()) {
      end(routed);
    }
  }

  /** Sends what the client is to see of a piece, which may be nothing yet. */
  @GuardedBy("this")
  @SuppressWarnings("ReferenceEquality") // the same buffer back means unchanged
  private void sendShown(Dispatch routed, HttpBody chunk, BodyModes modes) {
    ByteBuffer whole = chunk.getBody().asReadOnlyByteBuffer();
    ByteBuffer shown = routed.forClient(whole, chunk.getEndOfStream());
    boolean isChanged = shown != whole;
    ByteString piece = isChanged ? ByteString.copyFrom(shown) : chunk.getBody();
    if (modes.responseIsDuplex()) {
      if (!piece.isEmpty() || chunk.getEndOfStream()) {
        send(EnvoyMessages.responseBodyPiece(piece, chunk.getEndOfStream()));
      }
    } else {
      send(
          isChanged
              ? EnvoyMessages.responseBodyReplaced(piece)
              : EnvoyMessages.RESPONSE_BODY_UNCHANGED);
    }
  }

  @GuardedBy("this")
  private void onResponseTrailers(BodyModes modes) {
    if (phase == Phase.CLOSED) {
      return;
    }
    Dispatch routed = phase == Phase.ROUTED ? dispatch : null;
    if (routed != null && isEdited) {
      ByteBuffer rest = routed.restForClient();
      if (rest.hasRemaining() && modes.responseIsDuplex()) {
        send(EnvoyMessages.responseBodyPiece(ByteString.copyFrom(rest), false));
      }
    }
    send(EnvoyMessages.RESPONSE_TRAILERS_UNCHANGED);
    if (routed != null) {
      end(routed);
    }
  }

  @GuardedBy("this")
  private void end(Dispatch routed) {
    phase = Phase.ENDED;
    routed.ended();
    finish();
  }

  // ---- the stream itself ----

  @GuardedBy("this")
  private void reject(RequestOutcome outcome, String message) {
    cancelTimer();
    ApiKind api = headOrThrow().api();
    pipeline.rejected(api, outcome);
    sendImmediate(EnvoyMessages.immediate(RoutingDecision.Reject.of(api, outcome, message)));
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
    if (completing || completed) {
      return;
    }
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
      if (bodyDropped && held > 0) {
        dropBody();
      }
      if (unsent.isEmpty() && requestOwed) {
        requestOwed = false;
        envoy.request(1);
      }
      completeWhenSent();
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
    if (phase == Phase.BODY || phase == Phase.DECIDING || leaveWaitingRoom()) {
      pipeline.rejected(headOrThrow().api(), RequestOutcome.CLIENT_GONE);
    }
    boolean open = phase == Phase.ROUTED || completing;
    completing = false;
    boolean isOver = phase == Phase.ENDED || phase == Phase.CLOSED || phase == Phase.UNSEEN;
    countEnd(isOver ? StreamEnd.COMPLETE : StreamEnd.CANCELLED);
    phase = Phase.CLOSED;
    unsent.clear();
    dropBody();
    Dispatch routed = dispatch;
    if (open && routed != null) {
      if (flight != null) {
        context.book().tell(flight, Dispatch::aborted);
      } else {
        routed.aborted();
      }
    }
  }

  /** What waits to be echoed to a slow reader goes on counting against the budget. */
  @GuardedBy("this")
  private void dropBody() {
    // A callback may come in the middle of the echo, which still needs the body.
    bodyDropped = true;
    body = List.of();
    if (unsent.isEmpty()) {
      context.heldBytes().addAndGet(-held);
      held = 0;
    }
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
}
