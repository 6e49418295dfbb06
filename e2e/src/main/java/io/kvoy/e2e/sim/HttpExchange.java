// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import com.google.errorprone.annotations.concurrent.GuardedBy;
import java.io.IOException;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;

/**
 * One request and the answer to it, written in the header order and spelling of uvicorn behind
 * vLLM.
 *
 * <p>The handler's thread writes; the connection's thread may call {@link #disconnect} at any time.
 */
final class HttpExchange {
  private static final Map<Integer, String> REASONS =
      Map.ofEntries(
          Map.entry(200, "OK"),
          Map.entry(400, "Bad Request"),
          Map.entry(403, "Forbidden"),
          Map.entry(404, "Not Found"),
          Map.entry(405, "Method Not Allowed"),
          Map.entry(413, "Request Entity Too Large"),
          Map.entry(429, "Too Many Requests"),
          Map.entry(500, "Internal Server Error"),
          Map.entry(501, "Not Implemented"),
          Map.entry(502, "Bad Gateway"),
          Map.entry(503, "Service Unavailable"),
          Map.entry(504, "Gateway Timeout"));

  /** A response header. */
  record Header(String name, String value) {}

  private final HttpRequest request;
  private final Socket socket;
  private final OutputStream out;
  private final boolean keepAlive;
  private final CountDownLatch done = new CountDownLatch(1);
  private final Object lock = new Object();

  @GuardedBy("lock")
  private boolean gone;

  @GuardedBy("lock")
  private @Nullable Runnable whenGone;

  private boolean started;

  HttpExchange(HttpRequest request, Socket socket, OutputStream out, boolean keepAlive) {
    this.request = request;
    this.socket = socket;
    this.out = out;
    this.keepAlive = keepAlive;
  }

  HttpRequest request() {
    return request;
  }

  /** Whether the client is known to have closed. */
  boolean gone() {
    synchronized (lock) {
      return gone;
    }
  }

  /** What to do when the client closes; runs at once if it already has. */
  void onDisconnect(Runnable action) {
    boolean now;
    synchronized (lock) {
      whenGone = action;
      now = gone;
    }
    if (now) {
      action.run();
    }
  }

  /** Called by the connection's thread when the client closed before the answer was complete. */
  void disconnect() {
    Runnable action;
    synchronized (lock) {
      if (gone) {
        return;
      }
      gone = true;
      action = whenGone;
    }
    if (action != null) {
      action.run();
    }
  }

  /**
   * Writes a whole answer.
   *
   * @param before headers in front of the content's own
   * @param after headers behind them
   */
  void respond(
      int status,
      List<Header> before,
      @Nullable String contentType,
      List<Header> after,
      byte[] body)
      throws IOException {
    StringBuilder head = head(status);
    for (Header header : before) {
      append(head, header.name(), header.value());
    }
    append(head, "content-length", Integer.toString(body.length));
    if (contentType != null) {
      append(head, "content-type", contentType);
    }
    for (Header header : after) {
      append(head, header.name(), header.value());
    }
    finish(head);
    out.write(body);
    out.flush();
  }

  /** Starts a chunked answer; the head leaves at once. */
  void startChunked(int status, List<Header> extra, String contentType) throws IOException {
    StringBuilder head = head(status);
    append(head, "content-type", contentType);
    for (Header header : extra) {
      append(head, header.name(), header.value());
    }
    append(head, "transfer-encoding", "chunked");
    finish(head);
    out.flush();
  }

  /** Sends one chunk; nothing for an empty text. */
  void chunk(String text) throws IOException {
    if (text.isEmpty()) {
      return;
    }
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    out.write((Integer.toHexString(bytes.length) + "\r\n").getBytes(StandardCharsets.ISO_8859_1));
    out.write(bytes);
    out.write('\r');
    out.write('\n');
    out.flush();
  }

  void endChunked() throws IOException {
    out.write("0\r\n\r\n".getBytes(StandardCharsets.ISO_8859_1));
    out.flush();
  }

  /** Breaks the connection off in mid-answer, with a reset where the system allows it. */
  void breakOff() {
    HttpServer.reset(socket);
  }

  boolean started() {
    return started;
  }

  boolean keepAlive() {
    return keepAlive;
  }

  void markDone() {
    done.countDown();
  }

  boolean isDone() {
    return done.getCount() == 0;
  }

  void awaitDone() throws InterruptedException {
    done.await();
  }

  private StringBuilder head(int status) {
    started = true;
    StringBuilder head = new StringBuilder(320);
    head.append("HTTP/1.1 ").append(status).append(' ');
    head.append(REASONS.getOrDefault(status, "Unknown")).append("\r\n");
    append(
        head,
        "date",
        DateTimeFormatter.RFC_1123_DATE_TIME.format(ZonedDateTime.now(ZoneOffset.UTC)));
    append(head, "server", "uvicorn");
    return head;
  }

  private void finish(StringBuilder head) throws IOException {
    if (!keepAlive) {
      append(head, "connection", "close");
    }
    head.append("\r\n");
    out.write(head.toString().getBytes(StandardCharsets.ISO_8859_1));
  }

  private static void append(StringBuilder head, String name, String value) {
    head.append(name).append(": ").append(value).append("\r\n");
  }
}
