// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.protobuf.ByteString;
import com.google.protobuf.Struct;
import com.google.protobuf.Value;
import io.envoyproxy.envoy.config.core.v3.HeaderMap;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
import io.envoyproxy.envoy.config.core.v3.HeaderValueOption;
import io.envoyproxy.envoy.config.core.v3.HeaderValueOption.HeaderAppendAction;
import io.envoyproxy.envoy.config.core.v3.Metadata;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode;
import io.envoyproxy.envoy.service.ext_proc.v3.ExternalProcessorGrpc;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpBody;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpHeaders;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpTrailers;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.ProtocolConfiguration;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.StreamObserver;
import io.kvoy.server.PipelineRig;
import io.kvoy.tokenizer.Tokenization;
import io.netty.util.HashedWheelTimer;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Scripted conversations with the ext_proc service, without a proxy. */
final class ExchangeTest {
  private static final String CHAT =
      "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
  private static final String FIRST_TOKEN =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";

  private final PipelineRig rig = new PipelineRig();
  private final ExecutorService decisionThreads = Executors.newFixedThreadPool(2);
  private final HashedWheelTimer timer = new HashedWheelTimer(5, TimeUnit.MILLISECONDS);
  private Duration bodyTimeout = Duration.ofSeconds(30);
  private Duration decisionDeadline = Duration.ofSeconds(30);
  private int maxStreams = 100;

  private final AtomicLong heldBytes = new AtomicLong();

  private Server server;
  private ManagedChannel channel;

  @BeforeEach
  void start() throws IOException {
    String name = InProcessServerBuilder.generateName();
    ExchangeContext context =
        new ExchangeContext(
            decisionThreads,
            timer,
            () -> new ExchangeLimits(1_000_000, 10_000, bodyTimeout, decisionDeadline, maxStreams),
            new AtomicInteger(),
            heldBytes,
            2_000_000,
            rig.metrics.server());
    server =
        InProcessServerBuilder.forName(name)
            .directExecutor()
            .addService(new ExtProcService(rig.pipeline, context))
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
  }

  /** One stream, seen from the proxy. */
  private final class Proxy implements StreamObserver<ProcessingResponse> {
    private final BlockingQueue<ProcessingResponse> answers = new LinkedBlockingQueue<>();
    private final CompletableFuture<Status> end = new CompletableFuture<>();
    private final StreamObserver<ProcessingRequest> kvoy;
    private final BodySendMode requestMode;
    private final BodySendMode responseMode;
    private boolean first = true;

    Proxy(BodySendMode requestMode, BodySendMode responseMode) {
      this.requestMode = requestMode;
      this.responseMode = responseMode;
      this.kvoy = ExternalProcessorGrpc.newStub(channel).process(this);
    }

    Proxy() {
      this(BodySendMode.FULL_DUPLEX_STREAMED, BodySendMode.FULL_DUPLEX_STREAMED);
    }

    @Override
    public void onNext(ProcessingResponse response) {
      answers.add(response);
    }

    @Override
    public void onError(Throwable error) {
      end.complete(Status.fromThrowable(error));
    }

    @Override
    public void onCompleted() {
      end.complete(Status.OK);
    }

    void send(ProcessingRequest.Builder message) {
      if (first) {
        message.setProtocolConfig(
            ProtocolConfiguration.newBuilder()
                .setRequestBodyMode(requestMode)
                .setResponseBodyMode(responseMode));
        first = false;
      }
      kvoy.onNext(message.build());
    }

    void requestHeaders(boolean end, String... more) {
      send(requestHeadersMessage(end, more));
    }

    void requestBody(String body, boolean end) {
      send(
          ProcessingRequest.newBuilder()
              .setRequestBody(
                  HttpBody.newBuilder()
                      .setBody(ByteString.copyFromUtf8(body))
                      .setEndOfStream(end)));
    }

    void responseHeaders(int status, String contentType, String served) {
      ProcessingRequest.Builder message =
          ProcessingRequest.newBuilder()
              .setResponseHeaders(
                  HttpHeaders.newBuilder()
                      .setHeaders(
                          headers(
                              ":status", Integer.toString(status), "content-type", contentType)));
      if (!served.isEmpty()) {
        message.setMetadataContext(
            Metadata.newBuilder()
                .putFilterMetadata(
                    "envoy.lb", struct("x-gateway-destination-endpoint-served", served)));
      }
      send(message);
    }

    void responseBody(String body, boolean end) {
      send(
          ProcessingRequest.newBuilder()
              .setResponseBody(
                  HttpBody.newBuilder()
                      .setBody(ByteString.copyFromUtf8(body))
                      .setEndOfStream(end)));
    }

    ProcessingResponse next() throws InterruptedException {
      ProcessingResponse answer = answers.poll(10, TimeUnit.SECONDS);
      assertThat(answer).as("an answer within 10 s").isNotNull();
      return answer;
    }

    /** Takes the header answer and returns the destination in it. */
    String destination() throws InterruptedException {
      ProcessingResponse answer = next();
      assertThat(answer.hasRequestHeaders()).as(answer.toString()).isTrue();
      return destinationIn(answer);
    }

    /** Takes body pieces up to the last one. */
    String echoedBody() throws InterruptedException {
      StringBuilder body = new StringBuilder();
      while (true) {
        var streamed =
            next().getRequestBody().getResponse().getBodyMutation().getStreamedResponse();
        assertThat(streamed.getBody().size()).isLessThanOrEqualTo(Exchange.PIECE_BYTES);
        body.append(streamed.getBody().toStringUtf8());
        if (streamed.getEndOfStream()) {
          return body.toString();
        }
      }
    }
  }

  private static ProcessingRequest.Builder requestHeadersMessage(boolean end, String... more) {
    List<String> pairs =
        new ArrayList<>(List.of(":method", "POST", ":path", "/v1/chat/completions"));
    pairs.addAll(List.of(more));
    return ProcessingRequest.newBuilder()
        .setRequestHeaders(
            HttpHeaders.newBuilder()
                .setHeaders(headers(pairs.toArray(String[]::new)))
                .setEndOfStream(end));
  }

  private static HeaderMap headers(String... pairs) {
    HeaderMap.Builder map = HeaderMap.newBuilder();
    for (int i = 0; i < pairs.length; i += 2) {
      map.addHeaders(
          HeaderValue.newBuilder()
              .setKey(pairs[i])
              .setRawValue(ByteString.copyFromUtf8(pairs[i + 1])));
    }
    return map.build();
  }

  private static Struct struct(String key, String value) {
    return Struct.newBuilder()
        .putFields(key, Value.newBuilder().setStringValue(value).build())
        .build();
  }

  private static String destinationIn(ProcessingResponse answer) {
    var mutation =
        answer.hasRequestHeaders()
            ? answer.getRequestHeaders().getResponse().getHeaderMutation()
            : answer.getRequestBody().getResponse().getHeaderMutation();
    List<HeaderValueOption> set = mutation.getSetHeadersList();
    assertThat(set).hasSize(1);
    assertThat(set.getFirst().getAppendAction())
        .isEqualTo(HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD);
    String inHeader = set.getFirst().getHeader().getRawValue().toStringUtf8();
    String inMetadata =
        answer
            .getDynamicMetadata()
            .getFieldsOrThrow("envoy.lb")
            .getStructValue()
            .getFieldsOrThrow("x-gateway-destination-endpoint")
            .getStringValue();
    assertThat(inHeader).isEqualTo(inMetadata);
    return inHeader;
  }

  @Test
  void wholeBodyIsAnsweredWithTheDestinationFirstAndThenTheBody() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    assertThat(proxy.answers).isEmpty();
    proxy.requestBody(CHAT.substring(0, 20), false);
    proxy.requestBody(CHAT.substring(20), false);
    proxy.requestBody("", true);

    assertThat(proxy.destination()).isIn(rig.addresses());
    assertThat(proxy.echoedBody()).isEqualTo(CHAT);
    assertThat(rig.inFlight()).isEqualTo(1);
  }

  @ParameterizedTest
  @ValueSource(ints = {1, 61_999, 62_000, 62_001, 300_000})
  void BODY_03_bodiesAreEchoedByteExactInSmallPieces(int size) throws Exception {
    String body = CHAT.replace("hi", "x".repeat(size));
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(body, true);

    proxy.destination();
    assertThat(proxy.echoedBody()).isEqualTo(body);
  }

  @Test
  void BODY_01_secondEndOfStreamChangesNothing() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, true);
    proxy.requestBody(CHAT, true);
    proxy.destination();
    proxy.echoedBody();
    proxy.requestBody(CHAT, true);

    assertThat(proxy.answers).isEmpty();
    assertThat(rig.inFlight()).isEqualTo(1);
    assertThat(rig.tokenized()).isEqualTo(1);
  }

  @Test
  void BODY_05_trailersEndTheRequest() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, false);
    proxy.send(
        ProcessingRequest.newBuilder().setRequestTrailers(HttpTrailers.getDefaultInstance()));

    proxy.destination();
    var piece = proxy.next().getRequestBody().getResponse().getBodyMutation().getStreamedResponse();
    assertThat(piece.getBody().toStringUtf8()).isEqualTo(CHAT);
    assertThat(piece.getEndOfStream()).isFalse();
    assertThat(proxy.next().hasRequestTrailers()).isTrue();
  }

  @Test
  void BODY_06_upgradesAreAnsweredAtTheHeaders() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false, "upgrade", "websocket");

    assertThat(proxy.destination()).isIn(rig.addresses());
    assertThat(rig.tokenized()).isZero();
  }

  @Test
  void BODY_07_responsePhasesWorkWithoutAnyRequestPhase() throws Exception {
    Proxy proxy = new Proxy();
    proxy.responseHeaders(200, "text/event-stream", "");
    assertThat(proxy.next().hasResponseHeaders()).isTrue();
    proxy.responseBody(FIRST_TOKEN, true);
    var echoed =
        proxy.next().getResponseBody().getResponse().getBodyMutation().getStreamedResponse();
    assertThat(echoed.getBody().toStringUtf8()).isEqualTo(FIRST_TOKEN);
    assertThat(echoed.getEndOfStream()).isTrue();
  }

  @Test
  void BODY_02_bodiesOverTheLimitAreRefusedInTheCallersShape() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody("x".repeat(1_000_000), false);
    assertThat(proxy.answers).isEmpty();
    proxy.requestBody("x", false);

    var refused = proxy.next().getImmediateResponse();
    assertThat(refused.getStatus().getCodeValue()).isEqualTo(413);
    assertThat(refused.getBody().toStringUtf8()).startsWith("{\"error\":{\"message\":");
    assertThat(rig.inFlight()).isZero();
  }

  @Test
  void BODY_09_slowBodiesAreGivenUp() throws Exception {
    bodyTimeout = Duration.ofMillis(30);
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody("{", false);

    assertThat(proxy.next().getImmediateResponse().getStatus().getCodeValue()).isEqualTo(408);
  }

  @Test
  void EXTP_01_stalledTokenizerMeansAPickByLoadAndTheLateResultIsDropped() throws Exception {
    decisionDeadline = Duration.ofMillis(30);
    CountDownLatch stalled = new CountDownLatch(1);
    rig.tokenizer =
        _ -> {
          try {
            stalled.await();
          } catch (InterruptedException _) {
            Thread.currentThread().interrupt();
          }
          return new Tokenization.Exact(List.of(new int[100]));
        };
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, true);

    assertThat(proxy.destination()).isIn(rig.addresses());
    assertThat(proxy.echoedBody()).isEqualTo(CHAT);
    stalled.countDown();
    decisionThreads.shutdown();
    assertThat(decisionThreads.awaitTermination(10, TimeUnit.SECONDS)).isTrue();
    assertThat(rig.inFlight()).isEqualTo(1);
    assertThat(proxy.answers).isEmpty();
  }

  @Test
  void EXTP_08_requestPhaseNeverEndsWithOkBeforeTheAnswer() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody("{", false);
    proxy.kvoy.onCompleted();

    assertThat(proxy.end.get(10, TimeUnit.SECONDS).isOk()).isFalse();
    assertThat(rig.inFlight()).isZero();
  }

  @Test
  void HDR_01_controlHeadersOfClientsAreRemoved() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(true, "x-gateway-destination-endpoint", "192.0.2.66:8000");

    ProcessingResponse answer = proxy.next();
    assertThat(destinationIn(answer)).isIn(rig.addresses());
    assertThat(answer.getRequestHeaders().getResponse().getHeaderMutation().getRemoveHeadersList())
        .contains(
            "x-gateway-destination-endpoint-served",
            "x-gateway-destination-endpoint-subset",
            "x-prefiller-host-port",
            "x-kvoy-target");
  }

  @Test
  void STREAM_01_reservationLastsToTheEndOfTheStream() throws Exception {
    Proxy proxy = routed();
    proxy.responseHeaders(200, "text/event-stream", "");
    assertThat(rig.queuedTokens()).isPositive();
    proxy.responseBody(FIRST_TOKEN, false);
    assertThat(rig.queuedTokens()).isZero();
    assertThat(rig.inFlight()).isEqualTo(1);
    proxy.responseBody("data: [DONE]\n\n", false);
    assertThat(rig.inFlight()).isEqualTo(1);
    proxy.responseBody("", true);

    assertThat(rig.inFlight()).isZero();
    assertThat(rig.lessons()).isEqualTo(1);
  }

  @Test
  void STREAM_02_abortReleasesOnce() throws Exception {
    Proxy proxy = routed();
    proxy.responseHeaders(200, "text/event-stream", "");
    proxy.kvoy.onError(Status.CANCELLED.asRuntimeException());

    assertThat(rig.inFlight()).isZero();
    assertThat(rig.lessons()).isZero();
  }

  @Test
  void EXTP_05_servedEndpointGetsTheBooking() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, true);
    String picked = proxy.destination();
    proxy.echoedBody();
    String other =
        rig.addresses().stream()
            .filter(address -> !address.equals(picked))
            .findFirst()
            .orElseThrow();
    proxy.responseHeaders(200, "text/event-stream", other);

    assertThat(rig.inFlightAt(picked)).isZero();
    assertThat(rig.inFlightAt(other)).isEqualTo(1);
    proxy.responseBody(FIRST_TOKEN, true);
    assertThat(rig.inFlight()).isZero();
    assertThat(rig.lessons()).as("the prediction was for another worker").isZero();
  }

  @Test
  void bufferedModeLetsHeadersThroughAndRoutesWithTheBody() throws Exception {
    Proxy proxy = new Proxy(BodySendMode.BUFFERED, BodySendMode.NONE);
    proxy.requestHeaders(false);
    assertThat(proxy.next().getRequestHeaders().getResponse().hasHeaderMutation()).isFalse();
    proxy.requestBody(CHAT, true);

    ProcessingResponse answer = proxy.next();
    assertThat(answer.hasRequestBody()).isTrue();
    assertThat(destinationIn(answer)).isIn(rig.addresses());
    assertThat(answer.getRequestBody().getResponse().hasBodyMutation()).isFalse();
  }

  @Test
  void subsetHintRestrictsThePickToExactlyItsEndpoints() throws Exception {
    for (String only : rig.addresses()) {
      Proxy proxy = new Proxy();
      proxy.send(withSubset(only));
      assertThat(proxy.destination()).isEqualTo(only);
    }
    Proxy none = new Proxy();
    none.send(withSubset("192.0.2.1:1"));
    var refused = none.next().getImmediateResponse();
    assertThat(refused.getStatus().getCodeValue()).isEqualTo(503);
    assertThat(
            refused.getHeaders().getSetHeadersList().stream()
                .map(header -> header.getHeader().getKey())
                .collect(Collectors.toSet()))
        .contains("retry-after");
  }

  private static ProcessingRequest.Builder withSubset(String endpoint) {
    return requestHeadersMessage(true)
        .setMetadataContext(
            Metadata.newBuilder()
                .putFilterMetadata(
                    "envoy.lb.subset_hint",
                    struct("x-gateway-destination-endpoint-subset", endpoint)));
  }

  @Test
  void PARSE_02_errorsHoldNoBodyText() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody("{\"model\":\"m\",\"messages\":[\"call +1 555 0100 ", true);

    var refused = proxy.next().getImmediateResponse();
    assertThat(refused.getStatus().getCodeValue()).isEqualTo(400);
    String body = refused.getBody().toString(StandardCharsets.UTF_8);
    assertThat(body).doesNotContain("555").hasSizeLessThan(512);
  }

  @Test
  void allBodiesTogetherAreBounded() throws Exception {
    List<Proxy> slow = new ArrayList<>();
    for (int i = 0; i < 3; i++) {
      Proxy proxy = new Proxy();
      proxy.requestHeaders(false);
      proxy.requestBody("x".repeat(900_000), false);
      slow.add(proxy);
    }
    assertThat(slow.getLast().next().getImmediateResponse().getStatus().getCodeValue())
        .isEqualTo(503);
    slow.getFirst().kvoy.onError(Status.CANCELLED.asRuntimeException());
    slow.get(1).kvoy.onError(Status.CANCELLED.asRuntimeException());

    assertThat(heldBytes).hasValue(0);
  }

  @Test
  void localReplyOfTheProxyEndsTheRequestPhase() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, false);
    proxy.responseHeaders(504, "text/plain", "");
    assertThat(proxy.next().hasResponseHeaders()).isTrue();
    proxy.requestBody("", true);

    assertThat(proxy.answers).isEmpty();
    assertThat(rig.inFlight()).isZero();
    assertThat(heldBytes).hasValue(0);
  }

  @Test
  void overTheLimitOfStreamsNewOnesAreRefused() throws Exception {
    maxStreams = 0;
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);

    assertThat(proxy.next().getImmediateResponse().getStatus().getCodeValue()).isEqualTo(503);
  }

  private Proxy routed() throws InterruptedException {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, true);
    proxy.destination();
    proxy.echoedBody();
    return proxy;
  }
}
