// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.admin;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.kvoy.server.json.JsonText;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The admin pages over HTTP, on the JDK's own server.
 *
 * <p>Only GET. Request bodies are not read, at most {@value #MAX_REQUESTS} requests are answered at
 * a time, paths are compared and never repeated in an answer. A page whose source throws is a 500
 * with a constant text; the cause goes to the log.
 */
public final class AdminServer implements AutoCloseable {
  /** More than probes, one scraper and a few people need. */
  static final int MAX_REQUESTS = 32;

  /** Most decisions on one page. */
  static final int MAX_DECISIONS = 1000;

  private static final int DEFAULT_DECISIONS = 50;

  /** Longest path and query; ours are below 100. */
  private static final int MAX_TARGET_CHARS = 512;

  /** Decision ids are ours; anything else cannot be one. */
  private static final int MAX_ID_CHARS = 64;

  /** Connections waiting to be accepted. */
  private static final int BACKLOG = 64;

  private static final String TEXT = "text/plain; charset=utf-8";
  private static final String JSON = "application/json; charset=utf-8";
  private static final String HTML = "text/html; charset=utf-8";
  private static final String PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8";

  private static final String DECISION_PREFIX = "/debug/decisions/";

  private static final Logger log = LoggerFactory.getLogger(AdminServer.class);

  static {
    // Read once by the JDK's server when its first instance is made; a setting from outside wins.
    // In seconds: a client that sends its headers slower than this is cut off.
    setIfAbsent("sun.net.httpserver.maxReqTime", "10");
    setIfAbsent("sun.net.httpserver.maxRspTime", "30");
    setIfAbsent("jdk.httpserver.maxConnections", "256");
    setIfAbsent("sun.net.httpserver.maxReqHeaders", "64");
    setIfAbsent("sun.net.httpserver.maxReqHeaderSize", "16384");
    setIfAbsent("sun.net.httpserver.nodelay", "true");
  }

  private final AdminPages pages;
  private final HttpServer http;
  private final ExecutorService threads;
  private final Semaphore requests = new Semaphore(MAX_REQUESTS);

  /** What to send. */
  @SuppressWarnings("ArrayRecordComponent") // Written once, never compared.
  private record Answer(int status, String contentType, byte[] body) {
    static Answer text(int status, String text) {
      return new Answer(status, TEXT, text.getBytes(StandardCharsets.UTF_8));
    }

    static Answer json(int status, Object value) {
      return new Answer(status, JSON, JsonText.of(value).getBytes(StandardCharsets.UTF_8));
    }
  }

  private AdminServer(AdminPages pages, HttpServer http) {
    this.pages = pages;
    this.http = http;
    this.threads =
        Executors.newThreadPerTaskExecutor(Thread.ofVirtual().name("kvoy-admin-", 0).factory());
  }

  /**
   * Binds and starts.
   *
   * @param address port 0 takes any free one, see {@link #port}
   * @throws IOException when the address cannot be bound
   */
  public static AdminServer start(InetSocketAddress address, AdminPages pages) throws IOException {
    AdminServer server = new AdminServer(pages, HttpServer.create(address, BACKLOG));
    server.http.setExecutor(server.threads);
    server.http.createContext("/", server::handle);
    server.http.start();
    return server;
  }

  /** The port that is bound. */
  public int port() {
    return http.getAddress().getPort();
  }

  private void handle(HttpExchange exchange) {
    try (exchange) {
      Answer answer;
      if (requests.tryAcquire()) {
        try {
          answer = answer(exchange);
        } finally {
          requests.release();
        }
      } else {
        answer = Answer.text(503, "too many requests at a time\n");
      }
      send(exchange, answer);
    } catch (IOException _) {
      // The client left; nothing to tell anybody.
    }
  }

  private Answer answer(HttpExchange exchange) {
    String path = exchange.getRequestURI().getPath();
    String query = exchange.getRequestURI().getRawQuery();
    if (!exchange.getRequestMethod().equals("GET")) {
      exchange.getResponseHeaders().set("Allow", "GET");
      return Answer.text(405, "only GET\n");
    }
    if (path == null || path.length() + (query == null ? 0 : query.length()) > MAX_TARGET_CHARS) {
      return Answer.text(414, "target too long\n");
    }
    try {
      return page(path, query == null ? "" : query);
    } catch (IOException | RuntimeException e) {
      log.atError().setCause(e).log("an admin page failed");
      return Answer.text(500, "this page failed, the log says why\n");
    }
  }

  private Answer page(String path, String query) throws IOException {
    return switch (path) {
      case "/" -> new Answer(200, HTML, INDEX.getBytes(StandardCharsets.UTF_8));
      case "/healthz" -> Answer.text(200, "ok\n");
      case "/readyz" -> readiness();
      case "/metrics" -> metrics();
      case "/debug/fleet" -> Answer.json(200, pages.fleet().get());
      case "/debug/xds" -> Answer.json(200, pages.xds().get());
      case "/debug/decisions" -> newestDecisions(query);
      default ->
          path.startsWith(DECISION_PREFIX)
              ? decision(path.substring(DECISION_PREFIX.length()))
              : Answer.text(404, "no such page, see /\n");
    };
  }

  private Answer readiness() {
    return switch (pages.readiness().get()) {
      case Readiness.Ready _ -> Answer.json(200, Map.of("ready", true));
      case Readiness.NotReady(List<String> missing) ->
          Answer.json(503, new NotReadyPage(false, missing));
    };
  }

  private record NotReadyPage(boolean ready, List<String> missing) {}

  private Answer metrics() throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream(64 << 10);
    pages.metrics().write(out);
    return new Answer(200, PROMETHEUS, out.toByteArray());
  }

  private Answer newestDecisions(String query) {
    OptionalInt limit = limit(query);
    return limit.isEmpty()
        ? Answer.text(400, "limit must be a number from 1 to " + MAX_DECISIONS + "\n")
        : Answer.json(200, pages.decisions().newest(limit.getAsInt()));
  }

  private Answer decision(String id) {
    Optional<?> decision =
        id.length() <= MAX_ID_CHARS && id.matches("[A-Za-z0-9._-]+")
            ? pages.decisions().byId(id)
            : Optional.empty();
    return decision.isPresent()
        ? Answer.json(200, decision.get())
        : Answer.text(404, "no such decision, or no longer remembered\n");
  }

  /** The limit that the query asks for, the default when it asks for none, empty when wrong. */
  private static OptionalInt limit(String query) {
    if (query.isEmpty()) {
      return OptionalInt.of(DEFAULT_DECISIONS);
    }
    if (!query.matches("limit=[0-9]{1,6}")) {
      return OptionalInt.empty();
    }
    int limit = Integer.parseInt(query.substring("limit=".length()));
    return limit >= 1 && limit <= MAX_DECISIONS ? OptionalInt.of(limit) : OptionalInt.empty();
  }

  private static void send(HttpExchange exchange, Answer answer) throws IOException {
    exchange.getResponseHeaders().set("Content-Type", answer.contentType());
    exchange.getResponseHeaders().set("Cache-Control", "no-store");
    exchange.getResponseHeaders().set("X-Content-Type-Options", "nosniff");
    exchange.getResponseHeaders().set("Content-Security-Policy", "default-src 'none'");
    boolean hasBody = answer.body().length > 0 && !exchange.getRequestMethod().equals("HEAD");
    exchange.sendResponseHeaders(answer.status(), hasBody ? answer.body().length : -1);
    if (hasBody) {
      exchange.getResponseBody().write(answer.body());
    }
  }

  private static void setIfAbsent(String key, String value) {
    if (System.getProperty(key) == null) {
      System.setProperty(key, value);
    }
  }

  /** Stops accepting, gives answers under way a second, then cuts them off. */
  @Override
  public void close() {
    http.stop(0);
    threads.shutdown();
    try {
      if (!threads.awaitTermination(Duration.ofSeconds(1).toMillis(), TimeUnit.MILLISECONDS)) {
        threads.shutdownNow();
      }
    } catch (InterruptedException _) {
      threads.shutdownNow();
      Thread.currentThread().interrupt();
    }
  }

  private static final String INDEX =
      """
      <!doctype html>
      <title>Kvoy</title>
      <h1>Kvoy</h1>
      <ul>
      <li><a href="/healthz">/healthz</a> the process answers
      <li><a href="/readyz">/readyz</a> traffic should come, else 503 and what is missing
      <li><a href="/metrics">/metrics</a> Prometheus text
      <li><a href="/debug/fleet">/debug/fleet</a> workers and what is known of each
      <li><a href="/debug/xds">/debug/xds</a> proxies configured from here, what they accepted and rejected
      <li><a href="/debug/decisions?limit=50">/debug/decisions?limit=</a> newest decisions
      <li>/debug/decisions/{id} one decision and why
      </ul>
      """;
}
