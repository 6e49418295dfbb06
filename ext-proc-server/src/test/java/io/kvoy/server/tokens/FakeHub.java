// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SequencedMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;

/**
 * A hub on loopback with one repository, {@code owner/model}, and a second server that stands for
 * the store of large files: another host as far as a client can tell.
 */
final class FakeHub implements AutoCloseable {
  static final String COMMIT_1 = "1".repeat(40);
  static final String COMMIT_2 = "2".repeat(40);

  /** {@code server path authorization range} of every request. */
  final List<String> seen = new CopyOnWriteArrayList<>();

  final SequencedMap<String, byte[]> files = new LinkedHashMap<>();

  /** Files that the hub keeps in the other store. */
  final List<String> large = new CopyOnWriteArrayList<>(List.of("tokenizer.json"));

  volatile String commit = COMMIT_1;

  /** What is answered instead of anything else; 0 for nothing. */
  volatile int refusal;

  /** The token without which the hub answers 401; empty for none. */
  volatile String token = "";

  /** Bytes of a large file after which the connection breaks; negative for never. */
  volatile int breakAfter = -1;

  /** Whether the store sends other bytes than it should. */
  volatile boolean corrupt;

  /** Whether the store understands ranges. */
  volatile boolean ranges = true;

  private final HttpServer hub;
  private final HttpServer store;
  private final ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor();

  FakeHub() throws IOException {
    InetAddress loopback = InetAddress.getLoopbackAddress();
    hub = HttpServer.create(new InetSocketAddress(loopback, 0), 0);
    store = HttpServer.create(new InetSocketAddress(loopback, 0), 0);
    for (HttpServer server : List.of(hub, store)) {
      server.setExecutor(threads);
    }
    hub.createContext("/", this::onHub);
    store.createContext("/", this::onStore);
    hub.start();
    store.start();
    put("config.json", "{}");
    put("README.md", "not fetched");
    put("tokenizer_config.json", "{\"bos_token\":\"<s>\"}");
    put("tokenizer.json", "{\"model\":{}}" + " ".repeat(100_000));
    put("additional_chat_templates/rag.jinja", "{{ x }}");
  }

  void put(String name, String text) {
    files.put(name, text.getBytes(StandardCharsets.UTF_8));
  }

  URI base() {
    return URI.create("http://127.0.0.1:" + hub.getAddress().getPort());
  }

  private void onHub(HttpExchange exchange) throws IOException {
    note("hub", exchange);
    String path = exchange.getRequestURI().getPath();
    if (refusal != 0) {
      exchange.getResponseHeaders().set("retry-after", "7");
      answer(exchange, refusal, new byte[0]);
    } else if (!token.isEmpty()
        && !("Bearer " + token).equals(exchange.getRequestHeaders().getFirst("authorization"))) {
      answer(exchange, 401, new byte[0]);
    } else if (path.startsWith("/api/models/owner/model/revision/")) {
      String names =
          files.keySet().stream()
              .map(name -> "{\"rfilename\":\"" + name + "\"}")
              .collect(Collectors.joining(","));
      answer(
          exchange,
          200,
          ("{\"sha\":\"" + commit + "\",\"siblings\":[" + names + "]}")
              .getBytes(StandardCharsets.UTF_8));
    } else if (path.startsWith("/owner/model/resolve/")) {
      // A renamed repository answers with a redirect to itself first.
      exchange.getResponseHeaders().set("location", path.replace("/owner/model/", "/owner/new/"));
      answer(exchange, 307, new byte[0]);
    } else if (path.startsWith("/owner/new/resolve/" + commit + "/")) {
      file(exchange, path.substring(("/owner/new/resolve/" + commit + "/").length()));
    } else {
      answer(exchange, 404, new byte[0]);
    }
  }

  private void file(HttpExchange exchange, String name) throws IOException {
    byte[] bytes = files.get(name);
    if (bytes == null) {
      answer(exchange, 404, new byte[0]);
      return;
    }
    exchange.getResponseHeaders().set("x-repo-commit", commit);
    if (large.contains(name)) {
      exchange.getResponseHeaders().set("x-linked-etag", '"' + sha("SHA-256", bytes) + '"');
      exchange.getResponseHeaders().set("x-linked-size", Integer.toString(bytes.length));
      exchange
          .getResponseHeaders()
          .set("location", "http://localhost:" + store.getAddress().getPort() + "/" + name);
      answer(exchange, 302, new byte[0]);
      return;
    }
    byte[] head = ("blob " + bytes.length + "\0").getBytes(StandardCharsets.UTF_8);
    byte[] blob = Arrays.copyOf(head, head.length + bytes.length);
    System.arraycopy(bytes, 0, blob, head.length, bytes.length);
    exchange.getResponseHeaders().set("etag", "W/\"" + sha("SHA-1", blob) + '"');
    answer(exchange, 200, bytes);
  }

  private void onStore(HttpExchange exchange) throws IOException {
    note("store", exchange);
    byte[] bytes =
        Objects.requireNonNull(files.get(exchange.getRequestURI().getPath().substring(1))).clone();
    if (corrupt) {
      bytes[bytes.length - 1] ^= 1;
    }
    String range = exchange.getRequestHeaders().getFirst("range");
    int from =
        range == null || !ranges ? 0 : Integer.parseInt(range.replaceAll("bytes=([0-9]+)-", "$1"));
    byte[] rest = Arrays.copyOfRange(bytes, from, bytes.length);
    if (breakAfter >= 0) {
      exchange.sendResponseHeaders(from > 0 ? 206 : 200, rest.length);
      try (OutputStream out = exchange.getResponseBody()) {
        out.write(rest, 0, breakAfter);
        out.flush();
      }
      return;
    }
    answer(exchange, from > 0 ? 206 : 200, rest);
  }

  private void note(String server, HttpExchange exchange) {
    Map<String, List<String>> headers = exchange.getRequestHeaders();
    seen.add(
        server
            + " "
            + exchange.getRequestURI().getRawPath()
            + " "
            + String.join("", headers.getOrDefault("Authorization", List.of("-")))
            + " "
            + String.join("", headers.getOrDefault("Range", List.of("-"))));
  }

  private static void answer(HttpExchange exchange, int status, byte[] body) throws IOException {
    exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
    try (OutputStream out = exchange.getResponseBody()) {
      out.write(body);
    }
  }

  static String sha(String algorithm, byte[] bytes) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance(algorithm).digest(bytes));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    hub.stop(0);
    store.stop(0);
    threads.shutdownNow();
  }
}
