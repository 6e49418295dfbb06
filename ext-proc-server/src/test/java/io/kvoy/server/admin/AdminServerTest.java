// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.admin;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.server.admin.AdminPages.DecisionPages;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class AdminServerTest {
  private record Decision(String id, double predictedMillis) {}

  private record Fleet(List<String> workers) {}

  private volatile Readiness readiness = Readiness.Ready.READY;
  private volatile Runnable onMetrics = () -> {};
  private final HttpClient client = HttpClient.newHttpClient();
  private AdminServer server;

  @BeforeEach
  void start() throws IOException {
    DecisionPages decisions =
        new DecisionPages() {
          @Override
          public Optional<?> byId(String id) {
            return id.equals("d-1") ? Optional.of(new Decision(id, 41.5)) : Optional.empty();
          }

          @Override
          public List<?> newest(int limit) {
            return IntStream.range(0, limit).mapToObj(i -> new Decision("d-" + i, i)).toList();
          }
        };
    server =
        AdminServer.start(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), 0),
            new AdminPages(
                () -> readiness,
                out -> {
                  onMetrics.run();
                  out.write("kvoy_x 1\n".getBytes(StandardCharsets.UTF_8));
                },
                () -> new Fleet(List.of("gpu-0")),
                () -> java.util.Map.of("version", "7"),
                decisions));
  }

  @AfterEach
  void stop() {
    server.close();
    client.close();
  }

  private HttpRequest.Builder request(String target) {
    return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + server.port() + target))
        .timeout(Duration.ofSeconds(10));
  }

  private HttpResponse<String> get(String target) throws Exception {
    return client.send(request(target).build(), BodyHandlers.ofString());
  }

  @ParameterizedTest(name = "{0}")
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "/healthz | 200 | ok",
        "/readyz | 200 | {\"ready\":true}",
        "/metrics | 200 | kvoy_x 1",
        "/debug/fleet | 200 | {\"workers\":[\"gpu-0\"]}",
        "/debug/decisions/d-1 | 200 | {\"id\":\"d-1\",\"predictedMillis\":41.5}",
        "/debug/decisions?limit=1 | 200 | [{\"id\":\"d-0\",\"predictedMillis\":0}]",
        "/debug/decisions/d-2 | 404 | no such decision, or no longer remembered",
        "/debug/decisions/ | 404 | no such decision, or no longer remembered",
        "/debug/decisions?limit=0 | 400 | limit must be a number from 1 to 1000",
        "/debug/decisions?limit=1001 | 400 | limit must be a number from 1 to 1000",
        "/debug/decisions?limit=-1 | 400 | limit must be a number from 1 to 1000",
        "/debug/decisions?other=1 | 400 | limit must be a number from 1 to 1000",
        "/debug | 404 | no such page, see /",
        "/metrics/ | 404 | no such page, see /",
      })
  void answersEachPage(String target, int status, String body) throws Exception {
    HttpResponse<String> response = get(target);

    assertThat(response.statusCode()).isEqualTo(status);
    assertThat(response.body().strip()).isEqualTo(body);
  }

  @Test
  void indexListsThePages() throws Exception {
    HttpResponse<String> response = get("/");

    assertThat(response.headers().firstValue("Content-Type")).hasValue("text/html; charset=utf-8");
    assertThat(response.body())
        .contains("/healthz", "/readyz", "/metrics", "/debug/fleet", "/debug/decisions");
  }

  @Test
  void readinessSaysWhatIsMissing() throws Exception {
    readiness = new Readiness.NotReady(List.of("tokenizer of pool chat", "first fleet"));

    HttpResponse<String> response = get("/readyz");

    assertThat(response.statusCode()).isEqualTo(503);
    assertThat(response.body())
        .isEqualTo("{\"ready\":false,\"missing\":[\"tokenizer of pool chat\",\"first fleet\"]}");
    assertThat(get("/healthz").statusCode()).isEqualTo(200);
  }

  @Test
  void defaultsToFiftyDecisions() throws Exception {
    assertThat(get("/debug/decisions").body().split("\"id\"", -1)).hasSize(51);
  }

  @ParameterizedTest
  @ValueSource(strings = {"POST", "PUT", "DELETE", "OPTIONS", "HEAD"})
  void onlyGetIsAnswered(String method) throws Exception {
    HttpResponse<String> response =
        client.send(
            request("/metrics").method(method, HttpRequest.BodyPublishers.noBody()).build(),
            BodyHandlers.ofString());

    assertThat(response.statusCode()).isEqualTo(405);
    assertThat(response.headers().firstValue("Allow")).hasValue("GET");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "/%3Cscript%3Ealert(1)%3C/script%3E",
        "/debug/decisions/%3Cscript%3Ealert(1)%3C/script%3E",
        "/debug/decisions?limit=%3Cscript%3Ealert(1)",
        "/debug/fleet?x=%3Cscript%3Ealert(1)",
      })
  void nothingOfTheTargetIsRepeated(String target) throws Exception {
    HttpResponse<String> response = get(target);

    assertThat(response.body()).doesNotContain("alert");
    assertThat(response.headers().firstValue("X-Content-Type-Options")).hasValue("nosniff");
  }

  @Test
  void aLongTargetIsRefused() throws Exception {
    assertThat(get("/debug/fleet?" + "x".repeat(600)).statusCode()).isEqualTo(414);
  }

  @Test
  void aPageThatFailsIsAConstantText() throws Exception {
    onMetrics =
        () -> {
          throw new IllegalStateException("secret");
        };

    HttpResponse<String> response = get("/metrics");

    assertThat(response.statusCode()).isEqualTo(500);
    assertThat(response.body()).isEqualTo("this page failed, the log says why\n");
    assertThat(get("/healthz").statusCode()).isEqualTo(200);
  }

  @Test
  void moreRequestsThanAreAnsweredAtATimeAreRefused() throws Exception {
    CountDownLatch entered = new CountDownLatch(AdminServer.MAX_REQUESTS);
    CountDownLatch release = new CountDownLatch(1);
    onMetrics =
        () -> {
          entered.countDown();
          try {
            release.await();
          } catch (InterruptedException _) {
            Thread.currentThread().interrupt();
          }
        };
    List<CompletableFuture<HttpResponse<String>>> held = new ArrayList<>();
    for (int i = 0; i < AdminServer.MAX_REQUESTS; i++) {
      held.add(client.sendAsync(request("/metrics").build(), BodyHandlers.ofString()));
    }
    assertThat(entered.await(10, TimeUnit.SECONDS)).isTrue();

    assertThat(get("/healthz").statusCode()).isEqualTo(503);

    release.countDown();
    for (CompletableFuture<HttpResponse<String>> each : held) {
      assertThat(each.get(10, TimeUnit.SECONDS).statusCode()).isEqualTo(200);
    }
    assertThat(get("/healthz").statusCode()).isEqualTo(200);
  }

  @Test
  void endlessHeadersAreCutOff() throws Exception {
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), server.port())) {
      socket.setSoTimeout(10_000);
      StringBuilder head = new StringBuilder("GET /healthz HTTP/1.1\r\nHost: x\r\n");
      for (int i = 0; i < 2000; i++) {
        head.append("X-H").append(i).append(": ").append("v".repeat(100)).append("\r\n");
      }
      try {
        socket.getOutputStream().write(head.toString().getBytes(StandardCharsets.US_ASCII));
        socket.getOutputStream().flush();
        InputStream in = socket.getInputStream();
        String answer = new String(in.readNBytes(15), StandardCharsets.US_ASCII);
        assertThat(answer).doesNotContain("200");
      } catch (IOException _) {
        // Reset: cut off as well.
      }
    }
    assertThat(get("/healthz").statusCode()).isEqualTo(200);
  }

  @Test
  void closesInBoundedTimeWhileAPageHangs() throws Exception {
    CountDownLatch entered = new CountDownLatch(1);
    CountDownLatch interrupted = new CountDownLatch(1);
    onMetrics =
        () -> {
          entered.countDown();
          try {
            new CountDownLatch(1).await();
          } catch (InterruptedException _) {
            interrupted.countDown();
          }
        };
    CompletableFuture<HttpResponse<String>> hanging =
        client.sendAsync(request("/metrics").build(), BodyHandlers.ofString());
    assertThat(entered.await(10, TimeUnit.SECONDS)).isTrue();
    long before = System.nanoTime();

    server.close();

    assertThat(Duration.ofNanos(System.nanoTime() - before)).isLessThan(Duration.ofSeconds(5));
    assertThat(interrupted.await(10, TimeUnit.SECONDS)).isTrue();
    assertThat(hanging).failsWithin(Duration.ofSeconds(10));
  }
}
