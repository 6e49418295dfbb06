// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A small HTTP/1.1 server that can do what a simulator must: notice at once that a client left (it
 * keeps reading while the answer is made), send heads early, stream chunks, keep connections alive
 * as long as uvicorn does, and die like a process, with resets on all connections.
 *
 * <p>One virtual thread per connection reads; one per request runs the handler. Input is bounded.
 */
final class HttpServer implements AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(HttpServer.class);

  /** Largest request head: uvicorn's h11 limit. */
  private static final int MAX_HEAD_BYTES = 64 * 1024;

  /**
   * Largest request body. vLLM has no limit; this keeps a mistaken client from filling the heap.
   */
  private static final int MAX_BODY_BYTES = 64 * 1024 * 1024;

  /** How often a blocked read wakes to look at its keep-alive limit. */
  private static final int READ_TICK_MILLIS = 500;

  /** Pending connections; uvicorn's default backlog. */
  private static final int BACKLOG = 2048;

  /** Answers one request. Called on a virtual thread of its own. */
  interface Handler {
    void handle(HttpExchange exchange) throws IOException, InterruptedException;
  }

  private final String name;
  private final Duration keepAlive;
  private final Handler handler;
  private final ServerSocket listener;
  private final Set<Socket> connections = ConcurrentHashMap.newKeySet();
  // Volatile: set by the closing thread, read by acceptor and connections.
  private volatile boolean closed;

  /** Binds; {@link #start} begins to accept. Port 0 picks a free one. */
  HttpServer(String name, String host, int port, Duration keepAlive, Handler handler)
      throws IOException {
    this.name = name;
    this.keepAlive = keepAlive;
    this.handler = handler;
    listener = new ServerSocket();
    listener.setReuseAddress(true);
    listener.bind(new InetSocketAddress(InetAddress.getByName(host), port), BACKLOG);
  }

  int port() {
    return listener.getLocalPort();
  }

  void start() {
    Thread.ofPlatform().daemon().name("sim-http-" + name).start(this::accept);
  }

  /** Connections that are open. */
  int openConnections() {
    return connections.size();
  }

  /** Stops listening and resets every connection. */
  @Override
  public void close() {
    closed = true;
    try {
      listener.close();
    } catch (IOException e) {
      LOG.debug("closing the listener failed: {}", e.toString());
    }
    connections.forEach(HttpServer::reset);
  }

  /** Closes a socket so that the peer sees a reset rather than an orderly end. */
  static void reset(Socket socket) {
    try {
      socket.setSoLinger(true, 0);
    } catch (IOException e) {
      LOG.debug("socket was closed already: {}", e.toString());
    }
    shut(socket);
  }

  private static void shut(Socket socket) {
    try {
      socket.close();
    } catch (IOException e) {
      LOG.debug("closing a connection failed: {}", e.toString());
    }
  }

  private void accept() {
    while (!closed) {
      Socket socket;
      try {
        socket = listener.accept();
      } catch (IOException e) {
        if (!closed) {
          LOG.warn("accept failed: {}", e.toString());
        }
        continue;
      }
      connections.add(socket);
      if (closed) {
        reset(socket);
        return;
      }
      Thread.ofVirtual().name("sim-conn-" + name).start(() -> serve(socket));
    }
  }

  private void serve(Socket socket) {
    try (socket) {
      socket.setTcpNoDelay(true);
      socket.setSoTimeout(READ_TICK_MILLIS);
      new Connection(socket).run();
    } catch (IOException e) {
      LOG.debug("connection ended: {}", e.toString());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } finally {
      connections.remove(socket);
    }
  }

  /** A request that cannot be read. */
  private static final class Unreadable extends IOException {
    private static final long serialVersionUID = 1;
    private final int status;

    Unreadable(int status, String message) {
      super(message);
      this.status = status;
    }
  }

  private final class Connection {
    private final Socket socket;
    private final InputStream in;
    private final BufferedOutputStream out;
    private final byte[] buffer = new byte[16 * 1024];
    private int next;
    private int limit;

    Connection(Socket socket) throws IOException {
      this.socket = socket;
      in = socket.getInputStream();
      out = new BufferedOutputStream(socket.getOutputStream(), 16 * 1024);
    }

    void run() throws IOException, InterruptedException {
      while (!closed) {
        HttpRequest request;
        try {
          request = readRequest();
        } catch (Unreadable e) {
          refuse(e.status);
          return;
        }
        if (request == null) {
          return;
        }
        boolean stays = !"close".equalsIgnoreCase(request.headers().get("connection"));
        HttpExchange exchange = new HttpExchange(request, socket, out, stays);
        Thread.ofVirtual().name("sim-request-" + name).start(() -> handle(exchange));
        watch(exchange);
        exchange.awaitDone();
        if (!stays || exchange.gone()) {
          return;
        }
      }
    }

    private void handle(HttpExchange exchange) {
      try {
        handler.handle(exchange);
      } catch (IOException e) {
        LOG.debug("client left: {}", e.toString());
        exchange.disconnect();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      } catch (RuntimeException e) {
        LOG.warn("handler failed on {}", exchange.request().path(), e);
        if (exchange.started()) {
          exchange.breakOff();
        } else {
          fail(exchange);
        }
      } finally {
        exchange.markDone();
      }
    }

    private void fail(HttpExchange exchange) {
      try {
        exchange.respond(
            500,
            List.of(),
            "text/plain; charset=utf-8",
            List.of(),
            "Internal Server Error".getBytes(StandardCharsets.ISO_8859_1));
      } catch (IOException e) {
        LOG.debug("client left: {}", e.toString());
      }
    }

    /**
     * Waits for the end of the exchange, for the next request's first byte, or for the client to
     * leave.
     */
    private void watch(HttpExchange exchange) {
      while (next == limit && !exchange.isDone()) {
        try {
          if (!fill()) {
            exchange.disconnect();
            return;
          }
        } catch (SocketTimeoutException e) {
          // Time to look whether the exchange is done.
        } catch (IOException e) {
          exchange.disconnect();
          return;
        }
      }
    }

    /** False at the end of the stream; throws SocketTimeoutException after a tick. */
    private boolean fill() throws IOException {
      int count = in.read(buffer, 0, buffer.length);
      if (count < 0) {
        return false;
      }
      next = 0;
      limit = count;
      return true;
    }

    /** The next byte, or -1 at the end of the stream or of the client's patience. */
    private int read(boolean between) throws IOException {
      long idleSince = System.nanoTime();
      while (next == limit) {
        try {
          if (!fill()) {
            return -1;
          }
        } catch (SocketTimeoutException e) {
          if (closed || (between && System.nanoTime() - idleSince >= keepAlive.toNanos())) {
            return -1;
          }
        }
      }
      return buffer[next++] & 0xff;
    }

    private @Nullable HttpRequest readRequest() throws IOException {
      String start = readLine(true);
      if (start == null) {
        return null;
      }
      String[] parts = start.split(" ", -1);
      if (parts.length != 3 || !parts[2].startsWith("HTTP/1.")) {
        throw new Unreadable(400, "request line");
      }
      Map<String, String> headers = new HashMap<>();
      int headBytes = start.length();
      for (String line = readLine(false); line != null && !line.isEmpty(); line = readLine(false)) {
        headBytes += line.length();
        int colon = line.indexOf(':');
        if (colon <= 0 || headBytes > MAX_HEAD_BYTES) {
          throw new Unreadable(400, "header");
        }
        headers.put(
            line.substring(0, colon).strip().toLowerCase(Locale.ROOT),
            line.substring(colon + 1).strip());
      }
      if (parts[2].equals("HTTP/1.0") && !headers.containsKey("connection")) {
        headers.put("connection", "close");
      }
      if ("100-continue".equalsIgnoreCase(headers.get("expect"))) {
        out.write("HTTP/1.1 100 Continue\r\n\r\n".getBytes(StandardCharsets.ISO_8859_1));
        out.flush();
      }
      byte[] body = readBody(headers);
      int query = parts[1].indexOf('?');
      return new HttpRequest(
          parts[0],
          query < 0 ? parts[1] : parts[1].substring(0, query),
          query < 0 ? "" : parts[1].substring(query + 1),
          Map.copyOf(headers),
          body);
    }

    private byte[] readBody(Map<String, String> headers) throws IOException {
      String encoding = headers.get("transfer-encoding");
      if (encoding != null && encoding.toLowerCase(Locale.ROOT).contains("chunked")) {
        return readChunks();
      }
      String length = headers.get("content-length");
      if (length == null) {
        return new byte[0];
      }
      int size = number(length, 10);
      byte[] body = new byte[size];
      readFully(body, size);
      return body;
    }

    private byte[] readChunks() throws IOException {
      ByteArrayOutputStream body = new ByteArrayOutputStream();
      while (true) {
        String line = readLine(false);
        if (line == null) {
          throw new Unreadable(400, "chunk");
        }
        int extension = line.indexOf(';');
        int size = number((extension < 0 ? line : line.substring(0, extension)).strip(), 16);
        if (size > MAX_BODY_BYTES - body.size()) {
          throw new Unreadable(413, "body");
        }
        if (size == 0) {
          for (String trailer = readLine(false);
              trailer != null && !trailer.isEmpty();
              trailer = readLine(false)) {
            LOG.trace("trailer ignored");
          }
          return body.toByteArray();
        }
        byte[] chunk = new byte[size];
        readFully(chunk, size);
        body.writeBytes(chunk);
        readLine(false);
      }
    }

    private void readFully(byte[] into, int size) throws IOException {
      int have = 0;
      while (have < size) {
        if (next == limit) {
          int first = read(false);
          if (first < 0) {
            throw new IOException("client left within its body");
          }
          into[have++] = (byte) first;
        }
        int count = Math.min(size - have, limit - next);
        System.arraycopy(buffer, next, into, have, count);
        next += count;
        have += count;
      }
    }

    private int number(String text, int radix) throws Unreadable {
      try {
        int value = Integer.parseUnsignedInt(text, radix);
        if (value < 0 || value > MAX_BODY_BYTES) {
          throw new Unreadable(413, "body");
        }
        return value;
      } catch (NumberFormatException e) {
        throw new Unreadable(400, "length");
      }
    }

    /** A line without its end; null at the end of the stream. */
    private @Nullable String readLine(boolean between) throws IOException {
      StringBuilder line = new StringBuilder();
      boolean first = between;
      while (true) {
        int c = read(first);
        first = false;
        if (c < 0) {
          return null;
        }
        if (c == '\n') {
          int end = line.length();
          if (end > 0 && line.charAt(end - 1) == '\r') {
            line.setLength(end - 1);
          }
          return line.toString();
        }
        if (line.length() >= MAX_HEAD_BYTES) {
          throw new Unreadable(400, "line");
        }
        line.append((char) c);
      }
    }

    private void refuse(int status) throws IOException {
      byte[] body = "Invalid HTTP request received.".getBytes(StandardCharsets.ISO_8859_1);
      out.write(
          ("HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
                  + "connection: close\r\n\r\n")
              .formatted(
                  status, status == 413 ? "Request Entity Too Large" : "Bad Request", body.length)
              .getBytes(StandardCharsets.ISO_8859_1));
      out.write(body);
      out.flush();
    }
  }
}
