// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.env.KvoyProcess;
import io.kvoy.e2e.load.InstantWorker;
import io.kvoy.envoy.EnvoyBootstrap;
import io.kvoy.envoy.KvoyDeath;
import io.kvoy.envoy.KvoyDeath.ClientView;
import io.kvoy.envoy.RequestBodyMode;
import io.kvoy.envoy.ResponseBodyMode;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Kvoy as a process of its own that is killed, stopped and started again, behind a real Envoy. */
final class KvoyDownIT {
  private static final String CHAT = "/v1/chat/completions";

  /** Longest wait for something that is about to happen, on a machine that does more than this. */
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private Rig rig;
  private KvoyProcess kvoy;

  @BeforeEach
  void start() throws Exception {
    rig = new Rig(2, "timeouts: {drain: 20s}");
    startKvoy();
  }

  private void startKvoy() throws Exception {
    kvoy = KvoyProcess.start(rig.configFile, rig.adminPort(), rig.folder.resolve("kvoy.log"));
    kvoy.awaitReady(Duration.ofSeconds(60));
  }

  @AfterEach
  void stop() throws Exception {
    kvoy.close();
    rig.close();
  }

  private EnvoyBootstrap envoy(RequestBodyMode request, ResponseBodyMode answers, boolean failOpen)
      throws Exception {
    EnvoyBootstrap door =
        rig.envoy(options -> options.requestBody(request).responseBody(answers).failOpen(failOpen));
    await()
        .atMost(Duration.ofSeconds(20))
        .until(() -> rig.lastEnvoy().stat("cluster.kvoy.membership_healthy") == 1);
    return door;
  }

  /** The rows of docs/outcomes.md. */
  static List<Arguments> table() {
    List<Arguments> rows = new ArrayList<>();
    for (ResponseBodyMode answers :
        List.of(
            ResponseBodyMode.STREAMED,
            ResponseBodyMode.FULL_DUPLEX_STREAMED,
            ResponseBodyMode.COPIED,
            ResponseBodyMode.REPORTED)) {
      for (boolean failOpen : new boolean[] {true, false}) {
        rows.add(Arguments.of(RequestBodyMode.BUFFERED, answers, failOpen));
        rows.add(Arguments.of(RequestBodyMode.FULL_DUPLEX_STREAMED, answers, failOpen));
      }
    }
    return rows;
  }

  @ParameterizedTest
  @MethodSource("table")
  void EXTP_02_whatAClientSeesWhenKvoyIsKilled(
      RequestBodyMode request, ResponseBodyMode answers, boolean failOpen) throws Exception {
    EnvoyBootstrap door = envoy(request, answers, failOpen);
    String row = request + " " + answers + " failOpen=" + failOpen;
    byte[] body = Rig.CHAT.formatted(true, "x".repeat(20_000)).getBytes(StandardCharsets.UTF_8);

    // In the middle of the body, and, by the same blow, in the middle of an answer.
    HttpResponse<InputStream> running =
        rig.http.send(
            Rig.chatRequest(door, true, "stream first=50 chunks=40 gap=50"),
            HttpResponse.BodyHandlers.ofInputStream());
    running.body().read();
    try (Http1Wire wire = new Http1Wire(door.listen(), false)) {
      wire.raw(
          "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n".formatted(CHAT, body.length));
      wire.raw(new String(body, 0, 5_000, StandardCharsets.UTF_8));
      await()
          .atMost(Duration.ofSeconds(5))
          .until(() -> kvoy.metric("kvoy_ext_proc_streams", "") >= 1);
      kvoy.kill();
      await().atMost(Duration.ofSeconds(5)).until(() -> !kvoy.isAlive());
      rig.workers.forEach(InstantWorker::forget);
      wire.raw(new String(body, 5_000, body.length - 5_000, StandardCharsets.UTF_8));
      Wire.Answer midBody = wire.read();

      boolean served = KvoyDeath.IN_THE_BODY.seen(request, answers, failOpen) == ClientView.SERVED;
      assertThat(midBody.status()).as(row + " mid-body").isEqualTo(served ? 200 : 503);
      if (served) {
        assertThat(rig.workers.stream().flatMap(w -> w.seen().stream()).toList())
            .as(row)
            .anyMatch(seen -> seen.sha256().equals(Wire.sha256(body)));
      } else {
        assertThat(midBody.text()).as(row).startsWith("{\"error\":{");
        assertThat(midBody.headers()).as(row).containsKey("retry-after");
        assertThat(rig.requestsAtWorkers()).as(row + ": nothing half arrives").isZero();
      }
    }
    boolean cut;
    try (InputStream rest = running.body()) {
      cut = !new String(rest.readAllBytes(), StandardCharsets.UTF_8).contains("[DONE]");
    } catch (IOException closed) {
      cut = true;
    }
    assertThat(cut ? ClientView.CUT : ClientView.GOES_ON)
        .as(row + ", a running answer")
        .isEqualTo(KvoyDeath.IN_THE_ANSWER.seen(request, answers, failOpen));

    HttpResponse<String> next = rig.chat(door, false, "");
    switch (KvoyDeath.BEFORE_THE_REQUEST.seen(request, answers, failOpen)) {
      case SERVED -> assertThat(next.statusCode()).as(row + " before").isEqualTo(200);
      case SERVED_ONCE_NOTICED ->
          await().atMost(PATIENCE).until(() -> rig.chat(door, false, "").statusCode() == 200);
      case REFUSED -> assertThat(next.statusCode()).as(row + " before").isEqualTo(503);
      case GOES_ON, CUT -> throw new AssertionError("no answer was running");
    }
  }

  @Test
  void failOpenLosesNoRequestWhenKvoyIsKilledUnderLoadAndKvoyIsBackWithinFiveSeconds()
      throws Exception {
    EnvoyBootstrap door = envoy(RequestBodyMode.BUFFERED, ResponseBodyMode.REPORTED, true);
    try (Load load = new Load(door)) {
      await().atMost(PATIENCE).until(() -> load.answers() > 100);
      kvoy.kill();
      int atKill = load.answers();
      await().atMost(PATIENCE).until(() -> load.answers() > atKill + 100);
      startKvoy();
      long ready = System.nanoTime();
      await().atMost(PATIENCE).until(() -> kvoy.metric("kvoy_picks_total", "") > 0);
      assertThat(Duration.ofNanos(System.nanoTime() - ready)).isLessThan(Duration.ofSeconds(5));
      assertThat(load.statuses()).containsOnly(200);
    }
  }

  @Test
  void HA_04_stopSignalLosesNoRequestAndCutsNoStream() throws Exception {
    EnvoyBootstrap door =
        envoy(RequestBodyMode.BUFFERED, ResponseBodyMode.FULL_DUPLEX_STREAMED, true);
    try (ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor()) {
      List<Future<HttpResponse<String>>> streams = new ArrayList<>();
      for (int i = 0; i < 20; i++) {
        streams.add(
            clients.submit(() -> rig.chat(door, true, "stream first=20 chunks=60 gap=100")));
      }
      await().atMost(PATIENCE).until(() -> kvoy.metric("kvoy_worker_in_flight_requests", "") >= 20);
      try (Load load = new Load(door)) {
        await().atMost(PATIENCE).until(() -> load.answers() > 20);
        ProcessHandle.of(kvoy.pid()).orElseThrow().destroy();
        await().atMost(Duration.ofSeconds(25)).until(() -> !kvoy.isAlive());
        int atEnd = load.answers();
        await().atMost(PATIENCE).until(() -> load.answers() > atEnd + 20);
        assertThat(load.statuses()).containsOnly(200);
      }
      for (Future<HttpResponse<String>> stream : streams) {
        assertThat(stream.get().statusCode()).isEqualTo(200);
        assertThat(stream.get().body()).contains("[DONE]");
      }
    }
  }

  @Test
  void idleServerStopsWithinTwoSeconds() throws Exception {
    long start = System.nanoTime();
    ProcessHandle.of(kvoy.pid()).orElseThrow().destroy();
    await()
        .pollInterval(Duration.ofMillis(20))
        .atMost(Duration.ofSeconds(10))
        .until(() -> !kvoy.isAlive());
    // A margin for the exit of a JVM on two busy cores.
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(Duration.ofSeconds(4));
  }

  /** Ten clients that send one request after the other until {@link #close}, whatever happens. */
  private final class Load implements AutoCloseable {
    private static final int CLIENTS = 10;

    private final HttpRequest request;
    private final AtomicBoolean done = new AtomicBoolean();
    private final List<Integer> statuses = Collections.synchronizedList(new ArrayList<>());
    private final ExecutorService clients = Executors.newVirtualThreadPerTaskExecutor();
    private final List<Future<?>> running = new ArrayList<>();

    Load(EnvoyBootstrap door) {
      request =
          HttpRequest.newBuilder(URI.create("http://" + door.listen() + CHAT))
              .timeout(Duration.ofSeconds(20))
              .POST(
                  HttpRequest.BodyPublishers.ofString(Rig.CHAT.formatted(false, "x".repeat(5_000))))
              .build();
      for (int i = 0; i < CLIENTS; i++) {
        running.add(clients.submit(this::send));
      }
    }

    private Object send() throws Exception {
      while (!done.get()) {
        statuses.add(rig.http.send(request, HttpResponse.BodyHandlers.discarding()).statusCode());
        // The machine is not to be saturated: it is shared with Envoy, Kvoy and the workers.
        Thread.sleep(5);
      }
      return statuses;
    }

    int answers() {
      return statuses.size();
    }

    /** All answers, after the clients have stopped; a client that failed fails the caller. */
    List<Integer> statuses() throws Exception {
      done.set(true);
      for (Future<?> client : running) {
        client.get();
      }
      return List.copyOf(statuses);
    }

    @Override
    public void close() {
      done.set(true);
      clients.shutdownNow();
      clients.close();
    }
  }
}
