// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.handler;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.kvoy.handler.v1.PickRequest;
import io.kvoy.handler.v1.PickResponse;
import io.kvoy.handler.v1.Picked;
import io.kvoy.handler.v1.Rejected;
import io.kvoy.inference.ApiKind;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.server.EditedBody;
import io.kvoy.server.OwnBytes;
import io.kvoy.server.RequestHead;
import io.kvoy.server.RoutingDecision;
import io.kvoy.server.Understanding;
import io.kvoy.server.Wishes;
import io.kvoy.server.extproc.ExchangeLimits;
import io.kvoy.server.feedback.DecisionRecord;
import io.kvoy.server.feedback.Dispatch;
import io.kvoy.server.metrics.RequestOutcome;
import io.kvoy.server.queue.WaitingRoom;
import io.netty.util.Timeout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * One request of a gateway, from its head to its pick.
 *
 * <p>Called by gRPC on an event loop, by the decision threads when the request was read, and by the
 * timer when it took too long. All meet under this object's monitor, which is held for
 * microseconds.
 *
 * <table>
 * <caption>Phases</caption>
 * <tr><th>from</th><th>trigger</th><th>to</th></tr>
 * <tr><td>HEAD</td><td>the head, of an API that is read</td><td>BODY</td></tr>
 * <tr><td>HEAD</td><td>the head, of any other path</td><td>ANSWERED</td></tr>
 * <tr><td>BODY</td><td>the caller closes its half</td><td>DECIDING</td></tr>
 * <tr><td>BODY</td><td>over the size limit, or too slow</td><td>ANSWERED (413, 408)</td></tr>
 * <tr><td>DECIDING</td><td>understood, or the deadline (then by load alone)</td><td>ANSWERED</td></tr>
 * <tr><td>any</td><td>cancelled, or messages out of order</td><td>CLOSED; what was picked is aborted unless the answer was delivered</td></tr>
 * </table>
 */
final class PickCall implements StreamObserver<PickRequest> {
  private static final Logger LOG = LoggerFactory.getLogger(PickCall.class);

  private static final int MAX_PATH_CHARS = 8 << 10;
  private static final int MAX_ENCODING_CHARS = 64;
  private static final int MAX_ALLOWED_ENDPOINTS = 4096;
  private static final int PIECE_BYTES = 1 << 18;

  private enum Phase {
    HEAD,
    BODY,
    DECIDING,
    /** No worker can take it yet. */
    WAITING,
    ANSWERED,
    CLOSED
  }

  private final HandlerContext context;
  private final ServerCallStreamObserver<PickResponse> caller;

  @GuardedBy("this")
  private Phase phase = Phase.HEAD;

  @GuardedBy("this")
  private @Nullable RequestHead head;

  @GuardedBy("this")
  private List<ByteString> body = new ArrayList<>();

  @GuardedBy("this")
  private long held;

  @GuardedBy("this")
  private @Nullable Timeout timer;

  /** Pieces of the changed body that wait until the caller can take more. */
  @GuardedBy("this")
  private final Deque<PickResponse> unsent = new ArrayDeque<>();

  /** What was picked, until the answer is known to be delivered. */
  @GuardedBy("this")
  private @Nullable String flight;

  /** What is known before the tokens are; written by a decision thread, read at the deadline. */
  private volatile @Nullable Understanding early;

  /** Where it waits for a worker. */
  @GuardedBy("this")
  private WaitingRoom.@Nullable Place<RoutingDecision> place;

  @GuardedBy("this")
  private boolean counted;

  PickCall(HandlerContext context, ServerCallStreamObserver<PickResponse> caller) {
    this.context = context;
    this.caller = caller;
    context.share().openStreams().incrementAndGet();
    context.share().startedStreams().incrementAndGet();
    caller.setOnReadyHandler(this::onReady);
    caller.setOnCancelHandler(this::onCancelled);
    caller.setOnCloseHandler(this::onDelivered);
  }

  @Override
  public void onNext(PickRequest message) {
    synchronized (this) {
      switch (message.getPartCase()) {
        case HEAD -> onHead(message.getHead());
        case BODY -> onBody(message.getBody());
        // A part of a later version.
        case PART_NOT_SET -> {}
      }
      if (phase != Phase.CLOSED) {
        caller.request(1);
      }
    }
  }

  @Override
  public void onError(Throwable error) {
    onCancelled();
  }

  @Override
  public void onCompleted() {
    synchronized (this) {
      switch (phase) {
        case HEAD -> fail("the head must come before the end");
        case BODY -> understand();
        case DECIDING, WAITING, ANSWERED, CLOSED -> {}
      }
    }
  }

  @GuardedBy("this")
  private void onHead(io.kvoy.handler.v1.RequestHead given) {
    if (phase != Phase.HEAD) {
      fail("a second head");
      return;
    }
    if (given.getPath().isEmpty() || given.getPath().length() > MAX_PATH_CHARS) {
      fail("path must have 1 to " + MAX_PATH_CHARS + " characters");
      return;
    }
    if (given.getAllowedEndpointsCount() > MAX_ALLOWED_ENDPOINTS) {
      fail("more than " + MAX_ALLOWED_ENDPOINTS + " allowed_endpoints");
      return;
    }
    List<Endpoint> allowed = new ArrayList<>(given.getAllowedEndpointsCount());
    for (String text : given.getAllowedEndpointsList()) {
      Endpoint endpoint = Endpoint.parse(text);
      if (endpoint == null) {
        fail("an entry of allowed_endpoints is not ip:port");
        return;
      }
      allowed.add(endpoint);
    }
    head = requestHead(given, allowed);
    if (context.share().openStreams().get() > context.limits().get().maxStreams()) {
      reject(RequestOutcome.OVERLOADED, "The router is at its limit of open requests.");
    } else if (head.api() == ApiKind.OTHER) {
      phase = Phase.DECIDING;
      decide(context.pipeline().unread(head, "not_an_inference_path"));
    } else {
      phase = Phase.BODY;
      timer =
          context
              .share()
              .timer()
              .newTimeout(
                  _ -> onBodyTimeout(),
                  context.limits().get().bodyTimeout().toMillis(),
                  TimeUnit.MILLISECONDS);
    }
  }

  private static RequestHead requestHead(
      io.kvoy.handler.v1.RequestHead given, List<Endpoint> allowed) {
    String method = given.getMethod().isEmpty() ? "POST" : given.getMethod();
    String encoding = given.getContentEncoding();
    return new RequestHead(
        method,
        given.getPath(),
        method.equals("POST") ? Dialects.ofPath(given.getPath()) : ApiKind.OTHER,
        RequestHead.requestIdOr(given.getRequestId()),
        encoding.length() > MAX_ENCODING_CHARS
            ? "unknown"
            : encoding.toLowerCase(Locale.ROOT).strip(),
        allowed.isEmpty() && !given.getRestrictToAllowed() ? null : allowed,
        new Wishes(0, List.of(), given.getSession(), given.getObjective(), given.getFairnessId()),
        given.getCanEdit());
  }

  @GuardedBy("this")
  private void onBody(ByteString piece) {
    switch (phase) {
      case HEAD -> fail("the head must come before the body");
      case BODY -> {
        ExchangeLimits limits = context.limits().get();
        if (held + piece.size() > limits.maxBodyBytes()) {
          reject(
              RequestOutcome.TOO_LARGE,
              "Request body is larger than the limit of " + limits.maxBodyBytes() + " bytes.");
          return;
        }
        if (!hold(piece.size())) {
          return;
        }
        if (!piece.isEmpty()) {
          body.add(piece);
        }
      }
      // Sent before the caller saw the answer.
      case DECIDING, WAITING, ANSWERED, CLOSED -> {}
    }
  }

  /**
   * Counts bytes against the budget of all calls; beyond it the request is refused.
   *
   * @return false when it was
   */
  @GuardedBy("this")
  private boolean hold(long bytes) {
    held += bytes;
    if (context.share().heldBytes().addAndGet(bytes) <= context.share().maxHeldBytes()) {
      return true;
    }
    reject(RequestOutcome.OVERLOADED, "The router holds too many request bodies.");
    return false;
  }

  // ---- decision ----

  /** The whole request is here: read it on a decision thread, under our own deadline. */
  @GuardedBy("this")
  private void understand() {
    cancelTimer();
    phase = Phase.DECIDING;
    RequestHead known = headOrThrow();
    context.metrics().requestBytes(known.api(), held);
    byte[] bytes = OwnBytes.of(body, Math.toIntExact(held));
    try {
      context.share().decisionThreads().execute(() -> read(known, bytes));
    } catch (RejectedExecutionException _) {
      decide(context.pipeline().unread(known, "overload"));
      return;
    }
    timer =
        context
            .share()
            .timer()
            .newTimeout(
                _ -> onDecisionDeadline(),
                context.limits().get().decisionDeadline().toMillis(),
                TimeUnit.MILLISECONDS);
  }

  /** On a decision thread. */
  private void read(RequestHead known, byte[] bytes) {
    synchronized (this) {
      if (phase != Phase.DECIDING) {
        return;
      }
    }
    context.pipeline().understand(known, bytes, parsed -> early = parsed, this::onUnderstood);
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
        decide(parsed != null ? parsed : context.pipeline().unread(headOrThrow(), "deadline"));
      }
    }
  }

  private void onBodyTimeout() {
    synchronized (this) {
      if (phase == Phase.BODY) {
        reject(RequestOutcome.BODY_TIMEOUT, "The request body did not arrive in time.");
      }
    }
  }

  @GuardedBy("this")
  private void decide(Understanding understanding) {
    cancelTimer();
    early = null;
    RoutingDecision decision;
    try {
      decision = context.pipeline().decide(understanding, this::onPlaced);
    } catch (RuntimeException bug) {
      failed(bug);
      return;
    }
    settle(decision);
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

  /** Nobody else would answer. */
  @GuardedBy("this")
  private void failed(RuntimeException bug) {
    LOG.error("decision_failed", bug);
    reject(RequestOutcome.INTERNAL_ERROR, RequestOutcome.INTERNAL_ERROR.message());
  }

  @GuardedBy("this")
  private void leaveWaitingRoom() {
    if (place != null) {
      var _ = place.leave();
      place = null;
    }
  }

  @GuardedBy("this")
  private void settle(RoutingDecision decision) {
    switch (decision) {
      case RoutingDecision.Wait(var waiting, long bytes) -> {
        place = waiting;
        phase = Phase.WAITING;
        if (!hold(bytes)) {
          leaveWaitingRoom();
        }
      }
      case RoutingDecision.Route(Dispatch dispatch, EditedBody edited) -> {
        String id = context.book().keep(dispatch, false);
        flight = id;
        answer(PickResponse.newBuilder().setPicked(picked(id, dispatch, edited != null)).build());
        if (edited != null) {
          sendBody(edited.bytes());
        }
        finish();
      }
      case RoutingDecision.Reject rejected -> answerRejected(rejected);
    }
  }

  private static Picked picked(String id, Dispatch dispatch, boolean bodyChanged) {
    DecisionRecord decision = dispatch.decision();
    return Picked.newBuilder()
        .setFlight(id)
        .setEndpoint(dispatch.destination().toString())
        .addAllFallbackEndpoints(dispatch.fallbacks().stream().map(Endpoint::toString).toList())
        .setBodyChanged(bodyChanged)
        .setDecisionId(decision.id())
        .setMode(decision.mode())
        .setDegraded(decision.degraded())
        .setPredictedTtftMs(dispatch.predictedMillis())
        .setPredictedCachedTokens(dispatch.predictedCachedTokens())
        .build();
  }

  // ---- answer ----

  @GuardedBy("this")
  private void reject(RequestOutcome outcome, String message) {
    ApiKind api = headOrThrow().api();
    context.pipeline().rejected(api, outcome);
    answerRejected(RoutingDecision.Reject.of(api, outcome, message));
  }

  @GuardedBy("this")
  private void answerRejected(RoutingDecision.Reject rejected) {
    answer(
        PickResponse.newBuilder()
            .setRejected(
                Rejected.newBuilder()
                    .setStatus(rejected.status())
                    .setBody(UnsafeByteOperations.unsafeWrap(rejected.body()))
                    .setRetryAfterSeconds(rejected.retryAfterSeconds())
                    .setReason(rejected.outcome().name().toLowerCase(Locale.ROOT)))
            .build());
    finish();
  }

  @GuardedBy("this")
  private void sendBody(byte[] bytes) {
    ByteString whole = UnsafeByteOperations.unsafeWrap(bytes);
    for (int from = 0; from < whole.size(); from += PIECE_BYTES) {
      answer(
          PickResponse.newBuilder()
              .setBody(whole.substring(from, Math.min(whole.size(), from + PIECE_BYTES)))
              .build());
    }
  }

  @GuardedBy("this")
  private void answer(PickResponse response) {
    if (unsent.isEmpty() && caller.isReady()) {
      write(response);
    } else {
      unsent.add(response);
    }
  }

  @GuardedBy("this")
  private void write(PickResponse response) {
    if (!caller.isCancelled()) {
      caller.onNext(response);
    }
  }

  /** All of the answer is written or queued. */
  @GuardedBy("this")
  private void finish() {
    cancelTimer();
    phase = Phase.ANSWERED;
    dropBody();
    completeWhenSent();
  }

  @GuardedBy("this")
  private void completeWhenSent() {
    if (phase == Phase.ANSWERED && unsent.isEmpty()) {
      phase = Phase.CLOSED;
      countEnd();
      if (!caller.isCancelled()) {
        caller.onCompleted();
      }
    }
  }

  private void onReady() {
    synchronized (this) {
      while (caller.isReady() && !unsent.isEmpty()) {
        write(unsent.remove());
      }
      completeWhenSent();
    }
  }

  @GuardedBy("this")
  private void fail(String problem) {
    cancelTimer();
    phase = Phase.CLOSED;
    unsent.clear();
    dropBody();
    countEnd();
    caller.onError(Status.INVALID_ARGUMENT.withDescription(problem).asRuntimeException());
  }

  /** The caller has all of the answer: from here on its reports tell, or the book's patience. */
  private void onDelivered() {
    synchronized (this) {
      flight = null;
    }
  }

  /** The caller left: nobody will forward what was picked. */
  private void onCancelled() {
    synchronized (this) {
      cancelTimer();
      leaveWaitingRoom();
      phase = Phase.CLOSED;
      unsent.clear();
      dropBody();
      countEnd();
      String undelivered = flight;
      flight = null;
      if (undelivered != null) {
        context.book().tell(undelivered, Dispatch::aborted);
      }
    }
  }

  // ---- bookkeeping ----

  @GuardedBy("this")
  private void dropBody() {
    body = List.of();
    context.share().heldBytes().addAndGet(-held);
    held = 0;
  }

  @GuardedBy("this")
  private void countEnd() {
    if (!counted) {
      counted = true;
      context.share().openStreams().decrementAndGet();
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
      throw Status.INTERNAL.withDescription("request head not seen").asRuntimeException();
    }
    return head;
  }
}
