// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.protobuf.ByteString;
import io.envoyproxy.envoy.config.core.v3.HeaderMap;
import io.envoyproxy.envoy.config.core.v3.HeaderValue;
import io.envoyproxy.envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode;
import io.envoyproxy.envoy.service.ext_proc.v3.ExternalProcessorGrpc;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpBody;
import io.envoyproxy.envoy.service.ext_proc.v3.HttpHeaders;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingRequest;
import io.envoyproxy.envoy.service.ext_proc.v3.ProcessingResponse;
import io.envoyproxy.envoy.service.ext_proc.v3.ProtocolConfiguration;
import io.grpc.ManagedChannel;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.StreamObserver;
import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.ResponseBodyMode;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** More than there is room for: new work is turned away at once, running work goes on. */
final class OverloadIT {
  private @Nullable Rig started;

  @AfterEach
  void stop() throws Exception {
    if (started != null) {
      started.close();
    }
  }

  @Test
  void newRequestsAreShedAtOnceAndCountedAndRunningStreamsGoOn() throws Exception {
    int limit = 50;
    Rig rig = Rig.start(2, "limits: {maxStreams: %d}".formatted(limit));
    started = rig;
    EnvoyBootstrap door = rig.envoy(options -> options.responseBody(ResponseBodyMode.STREAMED));
    try (ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
      List<Future<HttpResponse<String>>> running = new ArrayList<>();
      for (int i = 0; i < limit; i++) {
        running.add(
            clients.submit(() -> rig.chat(door, true, "stream first=10 chunks=80 gap=100")));
      }
      await()
          .atMost(Duration.ofSeconds(20))
          .until(() -> rig.metric("kvoy_ext_proc_streams", "") >= limit);
      List<Long> millis = new ArrayList<>();
      int shed = 40;
      for (int i = 0; i < shed; i++) {
        long start = System.nanoTime();
        HttpResponse<String> refused = rig.chat(door, false, "");
        millis.add((System.nanoTime() - start) / 1_000_000);
        assertThat(refused.statusCode()).isEqualTo(503);
        assertThat(refused.body()).startsWith("{\"error\":{").contains("\"code\":503");
        assertThat(refused.headers().firstValue("retry-after")).hasValue("1");
        assertThat(refused.headers().firstValue("x-llm-d-request-dropped-reason"))
            .hasValue("rejected-saturated");
      }
      millis.sort(null);
      // Without waiting for anything; a loaded machine has its own delays.
      assertThat(millis.get(shed / 2)).isLessThan(250);
      assertThat(rig.metric("kvoy_requests_total", "outcome=\"overloaded\"")).isEqualTo(shed);
      for (Future<HttpResponse<String>> stream : running) {
        assertThat(stream.get().body()).contains("[DONE]");
      }
    }
    await()
        .atMost(Duration.ofSeconds(10))
        .until(() -> rig.chat(door, false, "").statusCode() == 200);
  }

  /**
   * As Envoy would hold them, over few connections, in a process with a heap of 192 MiB: memory per
   * stream is bounded, and a new request is served meanwhile.
   */
  @Test
  void tenThousandOpenStreamsFitASmallHeapAndLeaveNothingBehind() throws Exception {
    int streams = 10_000;
    Rig rig = new Rig(2, "");
    started = rig;
    Path log = rig.folder.resolve("kvoy.log");
    try (KvoyProcess kvoy =
            KvoyProcess.start(
                rig.configFile,
                rig.adminPort(),
                log,
                List.of("-XX:+UseSerialGC", "-Xmx192m", "-XX:+ExitOnOutOfMemoryError"));
        Proxies proxies = new Proxies(rig.extProcPort(), 4)) {
      kvoy.awaitReady(Duration.ofSeconds(60));
      proxies.open(100);
      long before = residentMiB(kvoy.pid());

      proxies.open(streams - 100);

      await()
          .atMost(Duration.ofSeconds(30))
          .until(() -> kvoy.metric("kvoy_worker_in_flight_requests", "") == streams);
      assertThat(kvoy.metric("kvoy_ext_proc_streams", "")).isEqualTo(streams);
      long grown = residentMiB(kvoy.pid()) - before;
      System.out.println("10,000 open streams: resident memory grew by " + grown + " MiB");
      // Heap and Netty's own buffers; 192 MiB of heap alone are allowed.
      assertThat(grown).isLessThan(400);
      assertThat(kvoy.metric("kvoy_requests_total", "outcome=\"overloaded\"")).isZero();

      proxies.end();
      await()
          .atMost(Duration.ofSeconds(30))
          .until(() -> kvoy.metric("kvoy_ext_proc_streams", "") == 0);
      assertThat(kvoy.metric("kvoy_worker_in_flight_requests", "")).isZero();
      proxies.open(1);
      assertThat(kvoy.metric("kvoy_worker_in_flight_requests", "")).isEqualTo(1);
    }
  }

  private static long residentMiB(long pid) throws Exception {
    for (String line : Files.readAllLines(Path.of("/proc", Long.toString(pid), "status"))) {
      if (line.startsWith("VmRSS:")) {
        return Long.parseLong(line.replaceAll("\\D", "")) >> 10;
      }
    }
    throw new AssertionError("no VmRSS");
  }

  /** Connections of proxies, each with many streams that stay in the middle of their answers. */
  private static final class Proxies implements AutoCloseable {
    /** Requests that are not answered yet; more would only wait in line. */
    private static final int AT_ONCE = 200;

    private final List<ManagedChannel> channels = new ArrayList<>();
    private final List<Open> all = new ArrayList<>();

    Proxies(int port, int connections) {
      for (int i = 0; i < connections; i++) {
        channels.add(
            NettyChannelBuilder.forAddress("127.0.0.1", port)
                .usePlaintext()
                .directExecutor()
                .build());
      }
    }

    void open(int streams) throws InterruptedException {
      CountDownLatch answered = new CountDownLatch(streams);
      Semaphore places = new Semaphore(AT_ONCE);
      Queue<String> broken = new ConcurrentLinkedQueue<>();
      for (int i = 0; i < streams; i++) {
        assertThat(places.tryAcquire(30, TimeUnit.SECONDS)).isTrue();
        Open open =
            new Open(
                () -> {
                  places.release();
                  answered.countDown();
                },
                broken);
        open.start(channels.get(i % channels.size()));
        all.add(open);
      }
      assertThat(answered.await(60, TimeUnit.SECONDS)).isTrue();
      assertThat(broken).isEmpty();
    }

    /** The last chunk of each answer. */
    void end() {
      all.forEach(Open::end);
      all.clear();
    }

    @Override
    public void close() {
      channels.forEach(ManagedChannel::shutdownNow);
    }
  }

  /** One stream: headers, a whole body, the answer's headers and its first chunk. */
  private static final class Open implements StreamObserver<ProcessingResponse> {
    private static final ByteString CHAT =
        ByteString.copyFromUtf8(Rig.CHAT.formatted(true, "word ".repeat(400)));

    private final Runnable onChunk;
    private final Queue<String> broken;
    private @Nullable StreamObserver<ProcessingRequest> kvoy;

    Open(Runnable onChunk, Queue<String> broken) {
      this.onChunk = onChunk;
      this.broken = broken;
    }

    void start(ManagedChannel channel) {
      kvoy = ExternalProcessorGrpc.newStub(channel).process(this);
      send(
          ProcessingRequest.newBuilder()
              .setProtocolConfig(
                  ProtocolConfiguration.newBuilder()
                      .setRequestBodyMode(BodySendMode.BUFFERED)
                      .setResponseBodyMode(BodySendMode.STREAMED))
              .setRequestHeaders(
                  headers(":method", "POST", ":path", "/v1/chat/completions", "x-request-id", "r"))
              .build());
    }

    @Override
    public void onNext(ProcessingResponse answer) {
      switch (answer.getResponseCase()) {
        case REQUEST_HEADERS ->
            send(
                ProcessingRequest.newBuilder()
                    .setRequestBody(HttpBody.newBuilder().setBody(CHAT).setEndOfStream(true))
                    .build());
        case REQUEST_BODY ->
            send(
                ProcessingRequest.newBuilder()
                    .setResponseHeaders(
                        headers(":status", "200", "content-type", "text/event-stream"))
                    .build());
        case RESPONSE_HEADERS ->
            chunk("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", false);
        case RESPONSE_BODY -> onChunk.run();
        default -> onError(new AssertionError(answer.toString()));
      }
    }

    void end() {
      chunk("data: [DONE]\n\n", true);
    }

    private void send(ProcessingRequest message) {
      Objects.requireNonNull(kvoy).onNext(message);
    }

    private void chunk(String text, boolean end) {
      send(
          ProcessingRequest.newBuilder()
              .setResponseBody(
                  HttpBody.newBuilder().setBody(ByteString.copyFromUtf8(text)).setEndOfStream(end))
              .build());
    }

    private static HttpHeaders headers(String... namesAndValues) {
      HeaderMap.Builder map = HeaderMap.newBuilder();
      for (int i = 0; i < namesAndValues.length; i += 2) {
        map.addHeaders(
            HeaderValue.newBuilder()
                .setKey(namesAndValues[i])
                .setRawValue(ByteString.copyFromUtf8(namesAndValues[i + 1])));
      }
      return HttpHeaders.newBuilder().setHeaders(map).build();
    }

    @Override
    public void onError(Throwable error) {
      broken.add(error + ", cause: " + error.getCause());
      onChunk.run();
    }

    @Override
    public void onCompleted() {}
  }
}
