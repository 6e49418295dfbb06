// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** An HTTP worker on loopback that answers what a test tells it to. */
public final class FakeWorker implements AutoCloseable {
  /** {@code path body} of every request. */
  public final List<String> seen = new CopyOnWriteArrayList<>();

  /** Answers by path; a path that is not here is unknown, as FastAPI says it. */
  public final Map<String, Answer> answers = new ConcurrentHashMap<>();

  /** Held back until this is counted down. */
  public volatile CountDownLatch gate = new CountDownLatch(0);

  /** A status and a body. */
  public record Answer(int status, String body) {}

  private final ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();
  private final HttpServer server;

  public FakeWorker() throws IOException {
    server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    server.setExecutor(threads);
    server.createContext("/", this::answer);
    server.start();
  }

  /** {@code /tokenize} answers these ids. */
  public void tokenizes(int... ids) {
    answers.put(
        "/tokenize",
        new Answer(
            200,
            "{\"count\":%d,\"max_model_len\":9,\"tokens\":%s,\"token_strs\":null}"
                .formatted(ids.length, java.util.Arrays.toString(ids))));
  }

  public Endpoint endpoint() {
    return new Endpoint("127.0.0.1", server.getAddress().getPort());
  }

  private void answer(HttpExchange exchange) throws IOException {
    String path = exchange.getRequestURI().getPath();
    seen.add(
        path + " " + new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8));
    try {
      gate.await();
    } catch (InterruptedException _) {
      exchange.close();
      return;
    }
    Answer answer = answers.getOrDefault(path, new Answer(404, "{\"detail\":\"Not Found\"}"));
    byte[] body = answer.body().getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(answer.status(), body.length);
    try (OutputStream out = exchange.getResponseBody()) {
      out.write(body);
    }
  }

  @Override
  public void close() {
    gate.countDown();
    server.stop(0);
    threads.shutdownNow();
  }
}
