// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.handler;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.google.protobuf.ByteString;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.StreamObserver;
import io.kvoy.handler.v1.Aborted;
import io.kvoy.handler.v1.Ended;
import io.kvoy.handler.v1.FirstToken;
import io.kvoy.handler.v1.InferenceHandlerGrpc;
import io.kvoy.handler.v1.PickRequest;
import io.kvoy.handler.v1.PickResponse;
import io.kvoy.handler.v1.Picked;
import io.kvoy.handler.v1.ReportRequest;
import io.kvoy.handler.v1.RequestHead;
import io.kvoy.handler.v1.Usage;
import io.kvoy.server.DoorShare;
import io.kvoy.server.PipelineRig;
import io.kvoy.server.extproc.ExchangeLimits;
import io.kvoy.server.feedback.DispatchBook;
import io.kvoy.tokenizer.Tokenization;
import io.netty.util.HashedWheelTimer;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Scripted conversations with the inference handler over the real pipeline. */
final class InferenceHandlerTest {
  private static final String CHAT =
      "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";

  private PipelineRig rig = new PipelineRig();
  private final ExecutorService decisionThreads = Executors.newFixedThreadPool(2);
  private final HashedWheelTimer timer = new HashedWheelTimer(5, TimeUnit.MILLISECONDS);
  private final AtomicInteger open = new AtomicInteger();
  private final AtomicLong heldBytes = new AtomicLong();
  private final AtomicLong bookNanos = new AtomicLong();
  private final Random secrets = new Random(1);
  private final DispatchBook book =
      new DispatchBook(secrets::nextLong, bookNanos::get, () -> Duration.ofMinutes(1));

  private Duration bodyTimeout = Duration.ofSeconds(30);
  private Duration decisionDeadline = Duration.ofSeconds(30);
  private int maxStreams = 100;
  private Server server;
  private ManagedChannel channel;

  @BeforeEach
  void start() throws IOException {
    String name = InProcessServerBuilder.generateName();
    DoorShare share =
        new DoorShare(decisionThreads, timer, open, new AtomicLong(), heldBytes, 2_000_000);
    server =
        InProcessServerBuilder.forName(name)
            .directExecutor()
            .addService(
                new HandlerService(
                    new HandlerContext(
                        rig.pipeline,
                        share,
                        () ->
                            new ExchangeLimits(
                                1_000_000, 10_000, bodyTimeout, decisionDeadline, maxStreams),
                        book,
                        rig.metrics.server())))
            .build()
            .start();
    channel = InProcessChannelBuilder.forName(name).directExecutor().build();
  }

  @AfterEach
  void stop() {
    channel.shutdownNow();
    server.shutdownNow();
    decisionThreads.shutdownNow();
    timer.stop();
    rig.close();
    assertThat(heldBytes.get()).as("bytes of bodies still held").isZero();
    assertThat(open.get()).as("calls still counted").isZero();
  }

  // ---- a caller ----

  /** One call of Pick with all that came back. */
  private final class Call {
    final List<PickResponse> answers = new ArrayList<>();
    final CompletableFuture<List<PickResponse>> done = new CompletableFuture<>();
    final StreamObserver<PickRequest> out =
        InferenceHandlerGrpc.newStub(channel)
            .pick(
                new StreamObserver<>() {
                  @Override
                  public void onNext(PickResponse answer) {
                    answers.add(answer);
                  }

                  @Override
                  public void onError(Throwable error) {
                    done.completeExceptionally(error);
                  }

                  @Override
                  public void onCompleted() {
                    done.complete(answers);
                  }
                });

    Call head(RequestHead.Builder head) {
      out.onNext(PickRequest.newBuilder().setHead(head).build());
      return this;
    }

    Call head() {
      return head(RequestHead.newBuilder().setPath("/v1/chat/completions"));
    }

    Call body(String piece) {
      out.onNext(PickRequest.newBuilder().setBody(ByteString.copyFromUtf8(piece)).build());
      return this;
    }

    List<PickResponse> end() {
      out.onCompleted();
      return answers();
    }

    List<PickResponse> answers() {
      return done.orTimeout(10, TimeUnit.SECONDS).join();
    }

    Status.Code status() {
      try {
        answers();
        return Status.Code.OK;
      } catch (RuntimeException e) {
        return Status.fromThrowable(e).getCode();
      }
    }
  }

  private Picked pick() {
    List<PickResponse> answers = new Call().head().body(CHAT).end();
    assertThat(answers).hasSize(1);
    return answers.getFirst().getPicked();
  }

  private boolean report(ReportRequest.Builder report) {
    return InferenceHandlerGrpc.newBlockingStub(channel).report(report.build()).getKnown();
  }

  private static ReportRequest.Builder of(Picked picked) {
    return ReportRequest.newBuilder().setFlight(picked.getFlight());
  }

  // ---- picks ----

  @Test
  void aPickNamesAWorkerAndReservesItsWork() {
    Picked picked = pick();

    assertThat(rig.addresses()).contains(picked.getEndpoint());
    assertThat(picked.getFlight()).hasSize(16);
    assertThat(picked.getDecisionId()).isNotEmpty();
    assertThat(picked.getMode()).isEqualTo("exact");
    assertThat(picked.getBodyChanged()).isFalse();
    assertThat(rig.inFlightAt(picked.getEndpoint())).isEqualTo(1);
    assertThat(rig.queuedTokens()).isEqualTo(100);
  }

  @Test
  void DISC_02_aCallWaitsUntilThereIsAWorker() throws Exception {
    channel.shutdownNow();
    server.shutdownNow();
    rig.close();
    rig = PipelineRig.withoutWorkers(2);
    start();
    Call gone = new Call().head().body(CHAT);
    gone.out.onCompleted();
    Call waiting =
        new Call()
            .head(
                RequestHead.newBuilder()
                    .setPath("/v1/chat/completions")
                    .setObjective("first")
                    .setFairnessId("team"))
            .body(CHAT);
    waiting.out.onCompleted();
    await().untilAsserted(() -> assertThat(rig.waiting()).isEqualTo(2));
    assertThat(new Call().head().body(CHAT).end().getFirst().getRejected().getStatus())
        .as("the queue is full")
        .isEqualTo(429);
    ((ClientCallStreamObserver<PickRequest>) gone.out).cancel("the client left", null);
    await().untilAsserted(() -> assertThat(rig.waiting()).isEqualTo(1));

    rig.setPresent(true);

    Picked picked = waiting.answers().getFirst().getPicked();
    assertThat(rig.inFlightAt(picked.getEndpoint())).isEqualTo(1);
    assertThat(rig.inFlight()).isEqualTo(1);
  }

  @Test
  void aBodyInPiecesIsOneBody() {
    Call call = new Call().head();
    for (int i = 0; i < CHAT.length(); i++) {
      call.body(CHAT.substring(i, i + 1));
    }

    assertThat(call.end().getFirst().getPicked().getMode()).isEqualTo("exact");
    assertThat(rig.tokenized()).isEqualTo(1);
  }

  @Test
  void otherPathsAreDecidedAtTheHead() {
    List<PickResponse> answers =
        new Call().head(RequestHead.newBuilder().setMethod("GET").setPath("/v1/models")).answers();

    assertThat(answers.getFirst().getPicked().getMode()).isEqualTo("untokenized");
  }

  @Test
  void onlyAllowedWorkersArePicked() {
    for (String allowed : rig.addresses()) {
      RequestHead.Builder head =
          RequestHead.newBuilder().setPath("/v1/chat/completions").addAllowedEndpoints(allowed);
      Picked picked = new Call().head(head).body(CHAT).end().getFirst().getPicked();

      assertThat(picked.getEndpoint()).isEqualTo(allowed);
    }
    RequestHead.Builder nobody =
        RequestHead.newBuilder().setPath("/v1/chat/completions").setRestrictToAllowed(true);
    assertThat(new Call().head(nobody).body(CHAT).end().getFirst().getRejected().getStatus())
        .isEqualTo(503);
  }

  @Test
  void rejectionsSpeakTheCallersDialect() {
    List<PickResponse> broken =
        new Call().head(RequestHead.newBuilder().setPath("/v1/messages")).body("{\"model\":").end();

    assertThat(broken).hasSize(1);
    assertThat(broken.getFirst().getRejected().getStatus()).isEqualTo(400);
    assertThat(broken.getFirst().getRejected().getBody().toStringUtf8())
        .startsWith("{\"type\":\"error\"");
    assertThat(broken.getFirst().getRejected().getReason()).isNotEmpty();
    assertThat(rig.inFlight()).isZero();
  }

  @Test
  void aBodyOverTheLimitIsRefusedBeforeItsEnd() {
    Call call = new Call().head();
    call.body("x".repeat(600_000)).body("x".repeat(600_000)).body("more, which is ignored");

    assertThat(call.answers().getFirst().getRejected().getStatus()).isEqualTo(413);
  }

  @Test
  void bodiesOfAllCallsTogetherAreBounded() {
    List<Call> calls = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      calls.add(new Call().head().body("x".repeat(900_000)));
    }

    assertThat(calls.getLast().answers().getFirst().getRejected().getStatus()).isEqualTo(503);
    calls.subList(0, 2).forEach(call -> call.out.onError(Status.CANCELLED.asRuntimeException()));
  }

  @Test
  void callsBeyondTheLimitAreRefused() {
    maxStreams = 1;
    Call first = new Call().head();

    assertThat(new Call().head().answers().getFirst().getRejected().getStatus()).isEqualTo(503);
    first.body(CHAT).end();
  }

  @Test
  void aSlowBodyIsGivenUp() {
    bodyTimeout = Duration.ofMillis(50);

    assertThat(new Call().head().body("{").answers().getFirst().getRejected().getStatus())
        .isEqualTo(408);
  }

  @Test
  void aStalledTokenizerMeansAPickByLoad() throws InterruptedException {
    decisionDeadline = Duration.ofMillis(50);
    CountDownLatch stalled = new CountDownLatch(1);
    rig.tokenizer =
        _ -> {
          try {
            stalled.await();
          } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
          }
          return new Tokenization.Exact(List.of(new int[100]));
        };

    Picked picked = new Call().head().body(CHAT).end().getFirst().getPicked();

    assertThat(picked.getDegraded()).contains("deadline");
    stalled.countDown();
    decisionThreads.shutdown();
    assertThat(decisionThreads.awaitTermination(10, TimeUnit.SECONDS)).isTrue();
    assertThat(rig.inFlight()).as("the late result picks no second time").isEqualTo(1);
  }

  @Test
  void theCallerGetsTheChangedBodyWhereItCanEdit() throws IOException {
    channel.shutdownNow();
    server.shutdownNow();
    rig.close();
    rig = new PipelineRig(true);
    start();
    RequestHead.Builder head =
        RequestHead.newBuilder().setPath("/v1/chat/completions").setCanEdit(true);
    String longChat = CHAT.replace("hi", "h".repeat(600_000));

    List<PickResponse> answers = new Call().head(head).body(longChat).end();

    assertThat(answers.getFirst().getPicked().getBodyChanged()).isTrue();
    StringBuilder body = new StringBuilder();
    for (PickResponse piece : answers.subList(1, answers.size())) {
      assertThat(piece.getBody().size()).isBetween(1, 1 << 20);
      body.append(piece.getBody().toString(StandardCharsets.UTF_8));
    }
    assertThat(body.toString()).contains("\"include_usage\":true").contains("h".repeat(600_000));

    List<PickResponse> whole = new Call().head().body(CHAT).end();
    assertThat(whole).hasSize(1);
    assertThat(whole.getFirst().getPicked().getBodyChanged()).isFalse();
  }

  // ---- messages that make no sense ----

  @Test
  void messagesOutOfOrderAreInvalid() {
    assertThat(new Call().body("x").status()).isEqualTo(Status.Code.INVALID_ARGUMENT);
    assertThat(new Call().head().head().status()).isEqualTo(Status.Code.INVALID_ARGUMENT);
    Call empty = new Call();
    empty.out.onCompleted();
    assertThat(empty.status()).isEqualTo(Status.Code.INVALID_ARGUMENT);
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "far too long"})
  void aHeadWithoutAUsablePathIsInvalid(String path) {
    String used = path.isEmpty() ? path : "/" + path.repeat(1_000);

    assertThat(new Call().head(RequestHead.newBuilder().setPath(used)).status())
        .isEqualTo(Status.Code.INVALID_ARGUMENT);
  }

  @Test
  void endpointsThatAreNoneAreInvalid() {
    RequestHead.Builder head =
        RequestHead.newBuilder().setPath("/v1/chat/completions").addAllowedEndpoints("worker-1");

    assertThat(new Call().head(head).status()).isEqualTo(Status.Code.INVALID_ARGUMENT);
    assertThatThrownBy(
            () -> report(of(pick()).setServedEndpoint("worker-1").setEnded(Ended.newBuilder())))
        .isInstanceOf(StatusRuntimeException.class)
        .hasMessageContaining("INVALID_ARGUMENT");
    assertThatThrownBy(() -> report(of(pick())))
        .isInstanceOf(StatusRuntimeException.class)
        .hasMessageContaining("INVALID_ARGUMENT");
  }

  // ---- reports ----

  @Test
  void firstTokenReleasesThePrefillAndTheEndTheRest() {
    Picked picked = pick();

    assertThat(report(of(picked).setFirstToken(FirstToken.newBuilder().setAfterMicros(42_000))))
        .isTrue();
    assertThat(rig.queuedTokens()).isZero();
    assertThat(rig.inFlight()).isEqualTo(1);
    assertThat(rig.lessons()).isEqualTo(1);

    Ended.Builder ended =
        Ended.newBuilder()
            .setStatus(200)
            .setUsage(Usage.newBuilder().setPromptTokens(100).setCachedTokens(0));
    assertThat(report(of(picked).setEnded(ended))).isTrue();
    assertThat(rig.inFlight()).isZero();
    assertThat(rig.reportedPromptTokens()).isEqualTo(100);
    assertThat(report(of(picked).setEnded(ended))).as("a second end").isFalse();
    assertThat(rig.inFlight()).isZero();
  }

  @Test
  void reportsInAnyOrderAndTwiceCountOnce() {
    Picked picked = pick();
    FirstToken.Builder first = FirstToken.newBuilder();

    assertThat(report(of(picked).setFirstToken(first))).isTrue();
    assertThat(report(of(picked).setFirstToken(first))).isTrue();
    assertThat(rig.lessons()).isEqualTo(1);
    assertThat(report(of(picked).setEnded(Ended.newBuilder().setStatus(200)))).isTrue();
    assertThat(report(of(picked).setFirstToken(first))).isFalse();
    assertThat(rig.inFlight()).isZero();
    assertThat(rig.queuedTokens()).isZero();
  }

  @Test
  void abortsReleaseEverything() {
    for (Aborted.Cause cause :
        List.of(
            Aborted.Cause.CAUSE_UNSPECIFIED,
            Aborted.Cause.CAUSE_CLIENT_LEFT,
            Aborted.Cause.CAUSE_UNREACHABLE,
            Aborted.Cause.CAUSE_BROKEN)) {
      assertThat(report(of(pick()).setAborted(Aborted.newBuilder().setCause(cause)))).isTrue();
      assertThat(rig.inFlight()).as(cause.name()).isZero();
      assertThat(rig.queuedTokens()).as(cause.name()).isZero();
    }
  }

  @Test
  void whatWasRetriedIsBookedWhereItWasServed() {
    Picked picked = pick();
    String other =
        rig.addresses().stream()
            .filter(a -> !a.equals(picked.getEndpoint()))
            .findFirst()
            .orElseThrow();

    assertThat(report(of(picked).setServedEndpoint(other).setFirstToken(FirstToken.newBuilder())))
        .isTrue();

    assertThat(rig.inFlightAt(picked.getEndpoint())).isZero();
    assertThat(rig.inFlightAt(other)).isEqualTo(1);
  }

  @Test
  void anUnknownFlightIsSaidToBeUnknown() {
    assertThat(
            report(
                ReportRequest.newBuilder()
                    .setFlight("0123456789abcdef")
                    .setEnded(Ended.newBuilder().setStatus(200))))
        .isFalse();
  }

  @Test
  void aLostCallerExpires() {
    pick();
    bookNanos.addAndGet(Duration.ofMinutes(2).toNanos());

    assertThat(book.sweep()).isEqualTo(1);
    assertThat(rig.inFlight()).isZero();
  }

  @Test
  void aCallerThatLeavesBeforeTheAnswerReservesNothing() throws InterruptedException {
    CountDownLatch reading = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    rig.tokenizer =
        _ -> {
          reading.countDown();
          try {
            goOn.await();
          } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
          }
          return new Tokenization.Exact(List.of(new int[100]));
        };
    Call call = new Call().head().body(CHAT);
    call.out.onCompleted();
    reading.await();
    channel.shutdownNow();
    await().atMost(Duration.ofSeconds(10)).until(() -> open.get() == 0);
    goOn.countDown();
    decisionThreads.shutdown();
    assertThat(decisionThreads.awaitTermination(10, TimeUnit.SECONDS)).isTrue();

    assertThat(rig.inFlight()).isZero();
    assertThat(book.size()).isZero();
  }
}
