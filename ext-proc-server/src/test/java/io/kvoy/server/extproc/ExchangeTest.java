// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.extproc;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

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
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import io.kvoy.envoy.AnswerReports;
import io.kvoy.inference.stream.TokenUsage;
import io.kvoy.server.PipelineRig;
import io.kvoy.server.feedback.AnswerReport;
import io.kvoy.server.feedback.DispatchBook;
import io.kvoy.tokenizer.Tokenization;
import io.netty.util.HashedWheelTimer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Random;
import java.util.Set;
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
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Scripted conversations with the ext_proc service, without a proxy. */
final class ExchangeTest {
  private static final String CHAT =
      "{\"model\":\"m\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
  private static final String FIRST_TOKEN =
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";

  private PipelineRig rig = new PipelineRig();
  private final ExecutorService decisionThreads = Executors.newFixedThreadPool(2);
  private final InlineReading inline = new InlineReading();
  private final HashedWheelTimer timer = new HashedWheelTimer(5, TimeUnit.MILLISECONDS);
  private Duration bodyTimeout = Duration.ofSeconds(30);
  private Duration decisionDeadline = Duration.ofSeconds(30);
  private int maxStreams = 100;

  private final AtomicLong heldBytes = new AtomicLong();
  private final Random secrets = new Random(1);
  private final AtomicLong bookNanos = new AtomicLong();
  private final DispatchBook book =
      new DispatchBook(secrets::nextLong, bookNanos::get, () -> Duration.ofMinutes(1));

  private Server server;
  private ManagedChannel channel;
  private boolean conformanceHooks;

  @BeforeEach
  void start() throws IOException {
    String name = InProcessServerBuilder.generateName();
    ExchangeContext context =
        new ExchangeContext(
            decisionThreads,
            inline,
            timer,
            () -> new ExchangeLimits(1_000_000, 10_000, bodyTimeout, decisionDeadline, maxStreams),
            new AtomicInteger(),
            new AtomicLong(),
            heldBytes,
            2_000_000,
            book,
            conformanceHooks,
            rig.metrics.server());
    server =
        InProcessServerBuilder.forName(name)
            .directExecutor()
            .addService(ExtProcService.of(rig.pipeline, context))
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

  /** Starts the service anew over a pool that asks for usage. */
  private void injectUsage() throws IOException {
    channel.shutdownNow();
    server.shutdownNow();
    rig.close();
    rig = new PipelineRig(true);
    start();
  }

  /** Starts the service anew over a pool whose requests wait, without workers. */
  private void letRequestsWait() throws IOException {
    channel.shutdownNow();
    server.shutdownNow();
    rig.close();
    rig = PipelineRig.withoutWorkers(100);
    start();
  }

  private void awaitWaiting(int requests) {
    await().untilAsserted(() -> assertThat(rig.waiting()).isEqualTo(requests));
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
      this(requestMode, responseMode, "");
    }

    Proxy(BodySendMode requestMode, BodySendMode responseMode, String answerWay) {
      this.requestMode = requestMode;
      this.responseMode = responseMode;
      io.grpc.Metadata headers = new io.grpc.Metadata();
      if (!answerWay.isEmpty()) {
        headers.put(
            io.grpc.Metadata.Key.of(
                AnswerReports.WAY_HEADER, io.grpc.Metadata.ASCII_STRING_MARSHALLER),
            answerWay);
      }
      this.kvoy =
          ExternalProcessorGrpc.newStub(channel)
              .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers))
              .process(this);
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

    /** An answer of Envoy's own; it names the worker that was tried last all the same. */
    void localReply(int status, String tried, String details) {
      send(
          ProcessingRequest.newBuilder()
              .setResponseHeaders(
                  HttpHeaders.newBuilder()
                      .setHeaders(
                          headers(
                              ":status", Integer.toString(status), "content-type", "text/plain"))
                      .setEndOfStream(true))
              .putAttributes(
                  "envoy.filters.http.ext_proc",
                  Struct.newBuilder()
                      .putFields(
                          "upstream.address", Value.newBuilder().setStringValue(tried).build())
                      .putFields(
                          "response.code_details",
                          Value.newBuilder().setStringValue(details).build())
                      .build()));
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

    /** Takes answers until each of these kinds has come; an unwanted kind fails. */
    void take(Set<ProcessingResponse.ResponseCase> kinds, StringBuilder body)
        throws InterruptedException {
      Set<ProcessingResponse.ResponseCase> left = new HashSet<>(kinds);
      while (!left.isEmpty()) {
        ProcessingResponse answer = next();
        assertThat(kinds).contains(answer.getResponseCase());
        left.remove(answer.getResponseCase());
        var piece =
            answer.hasRequestBody()
                ? answer.getRequestBody().getResponse()
                : answer.getResponseBody().getResponse();
        body.append(piece.getBodyMutation().getStreamedResponse().getBody().toStringUtf8());
      }
    }

    /** The proxy has nothing more to send; where Kvoy has ended the stream before, nothing. */
    void close() {
      if (!end.isDone()) {
        kvoy.onCompleted();
      }
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

  private static final String ASKING =
      CHAT.substring(0, CHAT.length() - 1) + ",\"stream_options\":{\"include_usage\":true}}";
  private static final String USAGE = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9}}\n\n";
  private static final String DONE = "data: [DONE]\n\n";

  private static List<String> removed(ProcessingResponse answer) {
    var response =
        answer.hasRequestHeaders()
            ? answer.getRequestHeaders().getResponse()
            : answer.getRequestBody().getResponse();
    return response.getHeaderMutation().getRemoveHeadersList();
  }

  @Test
  void BODY_03_usageIsAskedForAndItsChunkHiddenAgain() throws Exception {
    injectUsage();
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false, "content-length", Integer.toString(CHAT.length()));
    proxy.requestBody(CHAT, true);

    ProcessingResponse headers = proxy.next();
    assertThat(removed(headers)).contains("content-length", "accept-encoding", "content-encoding");
    assertThat(proxy.echoedBody()).isEqualTo(ASKING);
    proxy.responseHeaders(200, "text/event-stream", "");
    proxy.next();
    StringBuilder shown = new StringBuilder();
    proxy.responseBody(FIRST_TOKEN, false);
    shown.append(piece(proxy.next()));
    proxy.responseBody(USAGE + DONE, true);
    shown.append(piece(proxy.next()));

    assertThat(shown.toString()).isEqualTo(FIRST_TOKEN + DONE);
    assertThat(rig.inFlight()).isZero();
    assertThat(rig.reportedPromptTokens()).isEqualTo(9);
  }

  private static String piece(ProcessingResponse answer) {
    return answer
        .getResponseBody()
        .getResponse()
        .getBodyMutation()
        .getStreamedResponse()
        .getBody()
        .toStringUtf8();
  }

  @Test
  void HDR_03_aBufferedBodyIsReplacedTogetherWithItsLengthAndItsEncodingIsGone() throws Exception {
    injectUsage();
    Proxy proxy = new Proxy(BodySendMode.BUFFERED, BodySendMode.STREAMED);
    proxy.requestHeaders(false, "content-encoding", "gzip");
    assertThat(proxy.next().hasRequestHeaders()).isTrue();
    ByteArrayOutputStream zipped = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(zipped)) {
      gzip.write(CHAT.getBytes(StandardCharsets.UTF_8));
    }
    proxy.send(
        ProcessingRequest.newBuilder()
            .setRequestBody(
                HttpBody.newBuilder()
                    .setBody(ByteString.copyFrom(zipped.toByteArray()))
                    .setEndOfStream(true)));

    ProcessingResponse body = proxy.next();
    var response = body.getRequestBody().getResponse();
    assertThat(response.getBodyMutation().getBody().toStringUtf8()).isEqualTo(ASKING);
    assertThat(removed(body)).contains("content-encoding").doesNotContain("content-length");
    assertThat(response.getHeaderMutation().getSetHeadersList())
        .extracting(
            option ->
                option.getHeader().getKey() + "=" + option.getHeader().getRawValue().toStringUtf8())
        .contains("content-length=" + ASKING.length());
    proxy.responseHeaders(200, "text/event-stream", "");
    proxy.next();
    proxy.responseBody(FIRST_TOKEN, false);
    assertThat(proxy.next().getResponseBody().hasResponse()).as("left as it is").isFalse();
    proxy.responseBody(USAGE, false);
    assertThat(proxy.next().getResponseBody().getResponse().getBodyMutation().getClearBody())
        .isTrue();
    proxy.responseBody(DONE, true);
    assertThat(proxy.next().getResponseBody().hasResponse()).isFalse();
    assertThat(rig.reportedPromptTokens()).isEqualTo(9);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "\"stream\":false",
        "\"stream\":true,\"n\":2",
        "\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":true}",
        "\"stream\":true,\"stream_options\":{\"include_usage\":true}"
      })
  void usageIsNotAskedForWhereItComesAnywayOrCannotBeHidden(String fields) throws Exception {
    injectUsage();
    String body = CHAT.replace("\"stream\":true", fields);
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(body, true);

    assertThat(removed(proxy.next())).doesNotContain("accept-encoding");
    assertThat(proxy.echoedBody()).isEqualTo(body);
  }

  @ParameterizedTest
  @EnumSource(
      value = BodySendMode.class,
      names = {"NONE", "BUFFERED", "BUFFERED_PARTIAL"})
  void usageIsNotAskedForWhereTheAnswerCannotBeChangedAsItComes(BodySendMode answers)
      throws Exception {
    injectUsage();
    Proxy proxy = new Proxy(BodySendMode.FULL_DUPLEX_STREAMED, answers);
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, true);
    proxy.next();

    assertThat(proxy.echoedBody()).isEqualTo(CHAT);
  }

  @Test
  void API_06_aRequestThatContinuesAnAnswerGoesToItsWorkerAndAnInventedIdChoosesNobody()
      throws Exception {
    Set<String> first = new HashSet<>();
    for (int i = 0; i < 10; i++) {
      String id = "resp_" + i;
      Proxy proxy = response("\"input\":\"hi\"");
      String destination = proxy.destination();
      first.add(destination);
      proxy.echoedBody();
      proxy.responseHeaders(200, "application/json", "");
      proxy.responseBody("{\"id\":\"" + id + "\",\"object\":\"response\"}", true);
      proxy.next();
      proxy.next();

      assertThat(
              response("\"input\":\"go on\",\"previous_response_id\":\"" + id + "\"").destination())
          .isEqualTo(destination);
    }
    assertThat(first).as("the pick alone spreads them").hasSize(2);
    assertThat(response("\"input\":\"x\",\"previous_response_id\":\"resp_none\"").destination())
        .isIn(rig.addresses());
  }

  private Proxy response(String fields) {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false, ":path", "/v1/responses");
    proxy.requestBody("{\"model\":\"m\"," + fields + "}", true);
    return proxy;
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

  /**
   * Bits of a subset: request headers, body, trailers, response headers, body. Of the empty one a
   * proxy opens no stream.
   */
  static List<Arguments> subsetsOfPhases() {
    List<Arguments> all = new ArrayList<>();
    for (int subset = 1; subset < 32; subset++) {
      for (BodySendMode request :
          List.of(
              BodySendMode.FULL_DUPLEX_STREAMED,
              BodySendMode.BUFFERED,
              BodySendMode.BUFFERED_PARTIAL,
              BodySendMode.STREAMED)) {
        for (BodySendMode response :
            List.of(BodySendMode.FULL_DUPLEX_STREAMED, BodySendMode.STREAMED)) {
          all.add(Arguments.of(subset, request, response));
        }
      }
    }
    return all;
  }

  @ParameterizedTest
  @MethodSource("subsetsOfPhases")
  void BODY_07_everyPhaseIsAnsweredWhateverOtherPhasesAreLeftOut(
      int subset, BodySendMode request, BodySendMode response) throws Exception {
    boolean hasBody = (subset & 2) != 0;
    boolean hasTrailers = (subset & 4) != 0;
    boolean hasAnswer = (subset & 16) != 0;
    Proxy proxy =
        new Proxy(hasBody ? request : BodySendMode.NONE, hasAnswer ? response : BodySendMode.NONE);
    if ((subset & 1) != 0) {
      proxy.requestHeaders(!hasBody && !hasTrailers);
    }
    if (hasBody) {
      proxy.requestBody(CHAT, !hasTrailers);
    }
    if (hasTrailers) {
      proxy.send(
          ProcessingRequest.newBuilder().setRequestTrailers(HttpTrailers.getDefaultInstance()));
    }
    Set<ProcessingResponse.ResponseCase> wanted = new HashSet<>();
    if ((subset & 1) != 0) {
      wanted.add(ProcessingResponse.ResponseCase.REQUEST_HEADERS);
    }
    if (hasBody) {
      wanted.add(ProcessingResponse.ResponseCase.REQUEST_BODY);
    }
    if (hasTrailers) {
      wanted.add(ProcessingResponse.ResponseCase.REQUEST_TRAILERS);
    }
    StringBuilder passed = new StringBuilder();
    proxy.take(wanted, passed);
    if (hasBody && request == BodySendMode.FULL_DUPLEX_STREAMED) {
      assertThat(passed).hasToString(CHAT);
    }
    assertThat(rig.inFlight()).isEqualTo(subset & 1);

    wanted.clear();
    if ((subset & 8) != 0) {
      proxy.responseHeaders(200, "text/event-stream", "");
      wanted.add(ProcessingResponse.ResponseCase.RESPONSE_HEADERS);
    }
    if (hasAnswer) {
      proxy.responseBody(FIRST_TOKEN, true);
      wanted.add(ProcessingResponse.ResponseCase.RESPONSE_BODY);
    }
    passed.setLength(0);
    proxy.take(wanted, passed);
    if (hasAnswer && response == BodySendMode.FULL_DUPLEX_STREAMED) {
      assertThat(passed).hasToString(FIRST_TOKEN);
    }
    proxy.close();
    assertThat(proxy.end.get(10, TimeUnit.SECONDS).isOk()).isTrue();
    assertThat(proxy.answers).isEmpty();
    assertThat(rig.inFlight()).isZero();
    assertThat(heldBytes).hasValue(0);
  }

  @Test
  void BODY_06_ofAnUpgradeABufferingProxyIsToldNotToWaitForTheBody() throws Exception {
    for (BodySendMode mode : List.of(BodySendMode.BUFFERED, BodySendMode.BUFFERED_PARTIAL)) {
      Proxy proxy = new Proxy(mode, BodySendMode.STREAMED);
      proxy.requestHeaders(false, "upgrade", "websocket");

      ProcessingResponse answer = proxy.next();
      assertThat(destinationIn(answer)).isIn(rig.addresses());
      assertThat(answer.getModeOverride().getRequestBodyMode()).isEqualTo(BodySendMode.NONE);
      assertThat(answer.getModeOverride().getResponseBodyMode()).isEqualTo(BodySendMode.STREAMED);
    }
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
  void smallBodiesAreReadWhereTheyArriveOnceThatHasProvenToBeQuick() throws Exception {
    List<Thread> readers = Collections.synchronizedList(new ArrayList<>());
    rig.tokenizer =
        _ -> {
          readers.add(Thread.currentThread());
          return new Tokenization.Exact(List.of(new int[100]));
        };
    route();
    assertThat(readers.getLast()).isNotSameAs(Thread.currentThread());

    // The first read may have been slow, and says so at some time after its answer.
    await()
        .untilAsserted(
            () -> {
              for (int i = 0; i < InlineReading.PROOF; i++) {
                inline.took(CHAT.length(), InlineReading.QUICK_NANOS);
              }
              route();
              assertThat(readers.getLast()).isSameAs(Thread.currentThread());
            });

    inline.took(CHAT.length(), InlineReading.QUICK_NANOS + 1);
    route();
    assertThat(readers.getLast()).isNotSameAs(Thread.currentThread());
  }

  private void route() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, true);
    assertThat(proxy.destination()).isIn(rig.addresses());
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
    List<String> forged =
        List.of(
            "x-gateway-destination-endpoint-served",
            "x-gateway-destination-endpoint-subset",
            "x-prefiller-host-port",
            "x-llm-d-inference-fairness-id",
            "x-llm-d-slo-ttft-ms",
            "x-kvoy-target");
    List<String> pairs =
        new ArrayList<>(List.of("x-gateway-destination-endpoint", "192.0.2.66:8000"));
    forged.forEach(name -> pairs.addAll(List.of(name, "1")));
    proxy.requestHeaders(true, pairs.toArray(String[]::new));

    ProcessingResponse answer = proxy.next();
    assertThat(destinationIn(answer)).isIn(rig.addresses());
    assertThat(answer.getRequestHeaders().getResponse().getHeaderMutation().getRemoveHeadersList())
        .containsExactlyInAnyOrderElementsOf(forged);
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
    assertThat(proxy.end.get(10, TimeUnit.SECONDS).isOk())
        .as("ended by us, not by the proxy's cancel")
        .isTrue();
  }

  @Test
  void STREAM_02_clientThatLeavesBeforeTheDecisionIsCountedAndHoldsNothing() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody("{", false);
    proxy.kvoy.onError(Status.CANCELLED.asRuntimeException());

    assertThat(rig.inFlight()).isZero();
    assertThat(heldBytes).hasValue(0);
    ByteArrayOutputStream page = new ByteArrayOutputStream();
    rig.metrics.writePage(page);
    assertThat(page.toString(StandardCharsets.UTF_8))
        .containsPattern("kvoy_requests_total\\{[^}]*outcome=\"client_gone\"[^}]*} 1\\.0");
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
  void requestThatWaitsKeepsItsBodyAndItsTrailers() throws Exception {
    letRequestsWait();
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, true);
    Proxy trailing = new Proxy();
    trailing.requestHeaders(false);
    trailing.requestBody(CHAT, false);
    trailing.send(
        ProcessingRequest.newBuilder().setRequestTrailers(HttpTrailers.getDefaultInstance()));
    Proxy buffered = new Proxy(BodySendMode.BUFFERED, BodySendMode.NONE);
    buffered.requestHeaders(false, "x-gateway-inference-objective", "first");
    buffered.next();
    buffered.requestBody(CHAT, true);
    awaitWaiting(3);
    assertThat(heldBytes.get()).as("bodies that wait count").isPositive();
    // What comes twice, or too late, changes nothing.
    proxy.requestBody(CHAT, true);

    rig.setPresent(true);

    assertThat(proxy.destination()).isIn(rig.addresses());
    assertThat(proxy.echoedBody()).isEqualTo(CHAT);
    assertThat(trailing.destination()).isIn(rig.addresses());
    assertThat(
            trailing
                .next()
                .getRequestBody()
                .getResponse()
                .getBodyMutation()
                .getStreamedResponse()
                .getBody()
                .toStringUtf8())
        .isEqualTo(CHAT);
    assertThat(trailing.next().hasRequestTrailers()).isTrue();
    assertThat(destinationIn(buffered.next())).isIn(rig.addresses());
    await().untilAsserted(() -> assertThat(heldBytes).hasValue(0));
    assertThat(rig.inFlight()).isEqualTo(3);
  }

  @Test
  void DISC_02_clientThatLeavesWhileItWaitsIsBookedNowhere() throws Exception {
    letRequestsWait();
    Proxy aborted = new Proxy();
    aborted.requestHeaders(false);
    aborted.requestBody(CHAT, true);
    Proxy halfClosed = new Proxy();
    halfClosed.requestHeaders(false);
    halfClosed.requestBody(CHAT, true);
    Proxy answered = new Proxy();
    answered.requestHeaders(false);
    answered.requestBody(CHAT, true);
    awaitWaiting(3);

    aborted.kvoy.onError(Status.CANCELLED.asRuntimeException());
    halfClosed.kvoy.onCompleted();
    answered.localReply(504, "", "stream_idle_timeout");
    awaitWaiting(0);
    rig.setPresent(true);
    Thread.sleep(100);

    assertThat(rig.inFlight()).isZero();
    assertThat(heldBytes).hasValue(0);
    assertThat(halfClosed.end.get(10, TimeUnit.SECONDS).getCode()).isEqualTo(Status.Code.CANCELLED);
  }

  @Test
  void whatStreamsItsBodyDoesNotWait() throws Exception {
    letRequestsWait();
    Proxy proxy = new Proxy(BodySendMode.STREAMED, BodySendMode.NONE);
    proxy.requestHeaders(false);

    assertThat(proxy.next().getImmediateResponse().getStatus().getCodeValue()).isEqualTo(503);
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
  void subsetHintOfIpv6EndpointsIsUnderstoodInBrackets() throws Exception {
    String worker = "[2001:db8::7]:8000";
    assertThat(rig.addresses()).contains(worker);
    Proxy proxy = new Proxy();
    proxy.send(withSubset("192.0.2.1:8000, " + worker));
    assertThat(proxy.destination()).isEqualTo(worker);
    Proxy otherPort = new Proxy();
    otherPort.send(withSubset("[2001:db8::7]:8001"));
    assertThat(otherPort.next().getImmediateResponse().getStatus().getCodeValue()).isEqualTo(503);
  }

  @Test
  void servedMetadataIsBelievedBeforeTheAddressAttributeAndThatBeforeOurOwnPick() throws Exception {
    List<String> addresses = rig.addresses();
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, true);
    String picked = proxy.destination();
    proxy.echoedBody();
    String other = addresses.stream().filter(a -> !a.equals(picked)).findFirst().orElseThrow();
    proxy.send(
        ProcessingRequest.newBuilder()
            .setResponseHeaders(
                HttpHeaders.newBuilder()
                    .setHeaders(
                        HeaderMap.newBuilder()
                            .addHeaders(
                                HeaderValue.newBuilder()
                                    .setKey(":status")
                                    .setRawValue(ByteString.copyFromUtf8("200")))))
            .setMetadataContext(
                Metadata.newBuilder()
                    .putFilterMetadata(
                        "envoy.lb", struct("x-gateway-destination-endpoint-served", other)))
            .putAttributes("envoy.filters.http.ext_proc", struct("upstream.address", picked)));
    proxy.next();

    assertThat(rig.inFlightAt(picked)).isZero();
    assertThat(rig.inFlightAt(other)).isEqualTo(1);
  }

  @Test
  void sloHeadersAreReadByBothNamesAndTheNewOneWins() {
    assertThat(ttftMillis("x-slo-ttft-ms", "300")).isEqualTo(300);
    assertThat(ttftMillis("x-llm-d-slo-ttft-ms", "200")).isEqualTo(200);
    assertThat(ttftMillis("x-llm-d-slo-ttft-ms", "200", "x-slo-ttft-ms", "300")).isEqualTo(200);
    assertThat(ttftMillis("x-slo-ttft-ms", "300", "x-llm-d-slo-ttft-ms", "soon")).isEqualTo(300);
    assertThat(ttftMillis()).isZero();
  }

  @Test
  void sessionsAreReadByEachClientsName() {
    assertThat(session("x-session-affinity", "a", "session_id", "b", "x-session-id", "c"))
        .isEqualTo("c");
    assertThat(session("session_id", "b", "x-claude-code-session-id", "d")).isEqualTo("d");
    assertThat(session("x-session-id", "x".repeat(129))).isEmpty();
    assertThat(session()).isEmpty();
  }

  private static String session(String... headers) {
    return HeaderReader.requestHead(requestHeadersMessage(true, headers).build())
        .wishes()
        .session();
  }

  private static int ttftMillis(String... headers) {
    return HeaderReader.requestHead(requestHeadersMessage(true, headers).build())
        .wishes()
        .ttftMillis();
  }

  @Test
  void conformanceTestsChooseTheirEndpointOnlyWhereTheFlagIsSet() throws Exception {
    int others = 0;
    for (int i = 0; i < 4; i++) {
      // Those before it are still in flight, so they do not all go to one.
      String wanted = "10.0.0.1:8000";
      Proxy ignored = new Proxy();
      ignored.requestHeaders(true, "test-epp-endpoint-selection", wanted);
      others += ignored.destination().equals(wanted) ? 0 : 1;
    }
    assertThat(others).isPositive();
    stop();
    conformanceHooks = true;
    start();
    for (String wanted : rig.addresses()) {
      Proxy proxy = new Proxy();
      proxy.requestHeaders(true, "test-epp-endpoint-selection", "192.0.2.1:80," + wanted);
      assertThat(proxy.destination()).isEqualTo(wanted);
      proxy.responseHeaders(200, "application/json", wanted);
      assertThat(proxy.next().getResponseHeaders().getResponse().getHeaderMutation().toString())
          .contains("x-conformance-test-served-endpoint", wanted);
    }
    Proxy nobody = new Proxy();
    nobody.requestHeaders(true, "test-epp-endpoint-selection", "192.0.2.1");
    assertThat(nobody.destination()).as("no match: all").isIn(rig.addresses());
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

  /** The picked worker's address after as many answers of this kind as eject one. */
  private String afterLocalReplies(String details) throws Exception {
    String first = "";
    for (int i = 0; i < 10; i++) {
      Proxy proxy = new Proxy();
      proxy.requestHeaders(false);
      proxy.requestBody(CHAT, true);
      String picked = proxy.destination();
      first = first.isEmpty() ? picked : first;
      proxy.localReply(503, picked, details);
    }
    assertThat(rig.inFlight()).isZero();
    return first;
  }

  @Test
  void EXTP_05_envoysOwn503AfterEveryWorkerRefusedIsAFailedConnectionNotBackPressure()
      throws Exception {
    String refusing =
        afterLocalReplies(
            "upstream_reset_before_response_started{remote_connection_failure|"
                + "delayed_connect_error:_Connection_refused}");

    assertThat(rig.isHeldOff(refusing)).isFalse();
    assertThat(rig.isEjected(refusing)).isTrue();
  }

  @Test
  void aWorkersOwn503IsBackPressure() throws Exception {
    String full = afterLocalReplies("via_upstream");

    assertThat(rig.isHeldOff(full)).isTrue();
    assertThat(rig.isEjected(full)).isFalse();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"upstream_reset_before_response_started{overflow}", "no_healthy_upstream"})
  void whatEnvoyAnswersWithoutHavingTriedAWorkerIsNoWorkersFault(String details) throws Exception {
    String picked = afterLocalReplies(details);

    assertThat(rig.isHeldOff(picked)).isFalse();
    assertThat(rig.isEjected(picked)).isFalse();
  }

  @Test
  void overTheLimitOfStreamsNewOnesAreRefused() throws Exception {
    maxStreams = 0;
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false);

    assertThat(proxy.next().getImmediateResponse().getStatus().getCodeValue()).isEqualTo(503);
  }

  private static String flightIn(ProcessingResponse answer) {
    return answer
        .getDynamicMetadata()
        .getFieldsOrThrow(AnswerReports.NAMESPACE)
        .getStructValue()
        .getFieldsOrThrow(AnswerReports.FLIGHT)
        .getStringValue();
  }

  private void report(String flight, AnswerReport.Progress progress, OptionalLong firstByte) {
    AnswerReport report = new AnswerReport(progress, 200, null, firstByte, TokenUsage.NOT_REPORTED);
    assertThat(book.report(flight, report)).isTrue();
  }

  @Test
  void answersToldLaterEndTheStreamWithTheRequestAndAreBookedByReports() throws Exception {
    for (BodySendMode mode : List.of(BodySendMode.BUFFERED, BodySendMode.FULL_DUPLEX_STREAMED)) {
      Proxy proxy = new Proxy(mode, BodySendMode.NONE, AnswerReports.REPORTED);
      proxy.requestHeaders(false);
      proxy.requestBody(CHAT, true);
      if (mode == BodySendMode.BUFFERED) {
        proxy.next();
      }
      ProcessingResponse answer = proxy.next();
      if (mode == BodySendMode.FULL_DUPLEX_STREAMED) {
        assertThat(proxy.echoedBody()).isEqualTo(CHAT);
      }
      String flight = flightIn(answer);

      assertThat(flight).matches("[0-9a-f]{16}");
      assertThat(proxy.end.get(10, TimeUnit.SECONDS).isOk()).isTrue();
      assertThat(rig.inFlight()).isEqualTo(1);
      assertThat(rig.queuedTokens()).isPositive();
      report(flight, AnswerReport.Progress.RUNNING, OptionalLong.empty());
      assertThat(rig.queuedTokens()).isPositive();
      report(flight, AnswerReport.Progress.RUNNING, OptionalLong.of(5_000));
      assertThat(rig.queuedTokens()).isZero();
      assertThat(rig.inFlight()).isEqualTo(1);
      report(flight, AnswerReport.Progress.COMPLETE, OptionalLong.of(5_000));
      assertThat(rig.inFlight()).isZero();
      assertThat(book.size()).isZero();
    }
    assertThat(rig.lessons()).isEqualTo(2);
  }

  @Test
  void clientThatLeavesBeforeTheAnswerIsSentFreesTheBookToo() throws Exception {
    Proxy proxy = new Proxy(BodySendMode.STREAMED, BodySendMode.NONE, AnswerReports.REPORTED);
    proxy.requestHeaders(false);
    proxy.destination();
    assertThat(rig.inFlight()).isEqualTo(1);
    proxy.kvoy.onError(Status.CANCELLED.asRuntimeException());

    assertThat(rig.inFlight()).isZero();
    assertThat(book.size()).isZero();
  }

  @Test
  void requestOfWhichNoReportComesIsGivenUpOnceOthersAreReported() throws Exception {
    List<String> flights = new ArrayList<>();
    for (int i = 0; i < 2; i++) {
      Proxy proxy =
          new Proxy(BodySendMode.FULL_DUPLEX_STREAMED, BodySendMode.NONE, AnswerReports.REPORTED);
      proxy.requestHeaders(false);
      proxy.requestBody(CHAT, true);
      flights.add(flightIn(proxy.next()));
    }
    bookNanos.addAndGet(Duration.ofSeconds(11).toNanos());
    assertThat(book.sweep()).as("no reports at all: the channel may be down").isZero();
    report(flights.getFirst(), AnswerReport.Progress.RUNNING, OptionalLong.empty());
    assertThat(book.sweep()).isEqualTo(1);
    assertThat(rig.inFlight()).isEqualTo(1);

    bookNanos.addAndGet(Duration.ofMinutes(1).toNanos());
    assertThat(book.sweep()).isEqualTo(1);
    assertThat(rig.inFlight()).isZero();
  }

  /** Routes a request whose answer does not pass here; the name under which it is told of. */
  private String routedFlight(String answers) throws Exception {
    Proxy proxy = new Proxy(BodySendMode.BUFFERED, BodySendMode.NONE, answers);
    proxy.requestHeaders(false);
    proxy.requestBody(CHAT, true);
    proxy.next();
    return flightIn(proxy.next());
  }

  private static Metadata metadata(String flight) {
    return Metadata.newBuilder()
        .putFilterMetadata(AnswerReports.NAMESPACE, struct(AnswerReports.FLIGHT, flight))
        .build();
  }

  @Test
  void copiedAnswerIsBookedAsIfItHadPassedHere() throws Exception {
    String flight = routedFlight(AnswerReports.REPORTED);
    Proxy copy = new Proxy(BodySendMode.NONE, BodySendMode.STREAMED, AnswerReports.COPY);
    copy.send(
        ProcessingRequest.newBuilder()
            .setMetadataContext(metadata(flight))
            .setResponseHeaders(
                HttpHeaders.newBuilder()
                    .setHeaders(headers(":status", "200", "content-type", "text/event-stream"))));
    assertThat(rig.queuedTokens()).isPositive();
    copy.responseBody(FIRST_TOKEN, false);
    assertThat(rig.queuedTokens()).isZero();
    assertThat(rig.inFlight()).isEqualTo(1);
    copy.responseBody("", true);

    assertThat(rig.inFlight()).isZero();
    assertThat(rig.lessons()).isEqualTo(1);
    assertThat(copy.answers).as("nothing is answered to a copy").isEmpty();
  }

  @Test
  void STREAM_02_aClientThatLeavesBeforeItsCopiedAnswerBeginsFreesTheBook() throws Exception {
    String flight = routedFlight(AnswerReports.COPIED);
    Proxy copy = new Proxy(BodySendMode.NONE, BodySendMode.STREAMED, AnswerReports.COPY);
    copy.send(requestHeadersMessage(false).setMetadataContext(metadata(flight)));
    assertThat(rig.inFlight()).isEqualTo(1);
    copy.kvoy.onCompleted();

    assertThat(rig.inFlight()).isZero();
    assertThat(book.size()).isZero();
    assertThat(copy.answers).isEmpty();
  }

  @Test
  void bodyOfAnUpgradePassesBothWays() throws Exception {
    Proxy proxy = new Proxy();
    proxy.requestHeaders(false, "upgrade", "websocket");
    proxy.destination();
    proxy.requestBody("frame", false);
    proxy.requestBody("", true);

    assertThat(proxy.echoedBody()).isEqualTo("frame");
  }

  @Test
  void bufferedBodyBeforeTrailersIsWholeAndAPartialOneIsNotRead() throws Exception {
    Proxy whole = new Proxy(BodySendMode.BUFFERED, BodySendMode.NONE);
    whole.requestHeaders(false);
    whole.next();
    whole.requestBody(CHAT, false);
    assertThat(destinationIn(whole.next())).isIn(rig.addresses());
    assertThat(rig.tokenized()).isEqualTo(1);

    Proxy cut = new Proxy(BodySendMode.BUFFERED_PARTIAL, BodySendMode.NONE);
    cut.requestHeaders(false);
    cut.next();
    cut.requestBody(CHAT.substring(0, 30), false);
    assertThat(destinationIn(cut.next())).isIn(rig.addresses());
    assertThat(rig.tokenized()).isEqualTo(1);
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
