// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import io.kvoy.scoring.fleet.Endpoint;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.net.SocketException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** One HTTP/1.1 connection by hand. */
final class Http1Wire implements Wire {
  private static final int CHUNK_BYTES = 17_000;

  private final Socket socket;
  private final InputStream in;
  private final boolean chunked;

  Http1Wire(Endpoint to, boolean chunked) throws IOException {
    this.socket = new Socket(to.host(), to.port());
    this.chunked = chunked;
    socket.setTcpNoDelay(true);
    socket.setSoTimeout(30_000);
    in = new BufferedInputStream(socket.getInputStream());
  }

  @Override
  public Answer send(Request request) throws IOException {
    try {
      write(request);
    } catch (SocketException cut) {
      // The answer came before the body was out; it can be read all the same.
    }
    return read();
  }

  /** Raw bytes, for requests that no client would send. */
  void raw(String text) throws IOException {
    socket.getOutputStream().write(text.getBytes(StandardCharsets.ISO_8859_1));
    socket.getOutputStream().flush();
  }

  private void write(Request request) throws IOException {
    boolean framed = chunked || request.trailers();
    StringBuilder head = new StringBuilder();
    head.append(request.method()).append(' ').append(request.path()).append(" HTTP/1.1\r\n");
    head.append("Host: test\r\n");
    for (int i = 0; i < request.headers().size(); i += 2) {
      head.append(request.headers().get(i)).append(": ").append(request.headers().get(i + 1));
      head.append("\r\n");
    }
    byte[] body = request.body();
    if (body != null) {
      head.append(
          framed ? "Transfer-Encoding: chunked\r\n" : "Content-Length: " + body.length + "\r\n");
      if (request.trailers()) {
        head.append("Trailer: x-after\r\n");
      }
    }
    head.append("\r\n");
    OutputStream out = socket.getOutputStream();
    out.write(head.toString().getBytes(StandardCharsets.ISO_8859_1));
    if (body != null) {
      if (framed) {
        for (int at = 0; at < body.length; at += CHUNK_BYTES) {
          int size = Math.min(CHUNK_BYTES, body.length - at);
          out.write((Integer.toHexString(size) + "\r\n").getBytes(StandardCharsets.ISO_8859_1));
          out.write(body, at, size);
          out.write("\r\n".getBytes(StandardCharsets.ISO_8859_1));
        }
        out.write("0\r\n".getBytes(StandardCharsets.ISO_8859_1));
        if (request.trailers()) {
          out.write("x-after: 1\r\n".getBytes(StandardCharsets.ISO_8859_1));
        }
        out.write("\r\n".getBytes(StandardCharsets.ISO_8859_1));
      } else {
        out.write(body);
      }
    }
    out.flush();
  }

  /** The next answer; 100 Continue is skipped. */
  Answer read() throws IOException {
    List<String> head = head();
    while (head.getFirst().contains(" 100 ")) {
      head = head();
    }
    int status = Integer.parseInt(head.getFirst().split(" ", -1)[1]);
    Map<String, String> headers = new HashMap<>();
    for (String line : head.subList(1, head.size())) {
      int colon = line.indexOf(':');
      headers.merge(
          line.substring(0, colon).toLowerCase(Locale.ROOT),
          line.substring(colon + 1).strip(),
          (a, b) -> a + "," + b);
    }
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    boolean whole = true;
    try {
      if ("chunked".equals(headers.get("transfer-encoding"))) {
        for (int size = chunkSize(); size > 0; size = chunkSize()) {
          body.write(exactly(size));
          line();
        }
        while (!line().isEmpty()) {}
      } else if (headers.containsKey("content-length")) {
        body.write(exactly(Integer.parseInt(headers.get("content-length"))));
      }
    } catch (EOFException | SocketException cut) {
      whole = false;
    }
    return new Answer(status, headers, body.toByteArray(), whole);
  }

  /** Status line and headers of the next answer, also of an interim one. */
  List<String> head() throws IOException {
    List<String> lines = new ArrayList<>();
    for (String line = line(); !line.isEmpty(); line = line()) {
      lines.add(line);
    }
    return lines;
  }

  byte[] exactly(int size) throws IOException {
    byte[] bytes = in.readNBytes(size);
    if (bytes.length < size) {
      throw new EOFException("cut at " + bytes.length + " of " + size);
    }
    return bytes;
  }

  private int chunkSize() throws IOException {
    return Integer.parseInt(line(), 16);
  }

  private String line() throws IOException {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    for (int c = in.read(); c != '\n'; c = in.read()) {
      if (c < 0) {
        throw new EOFException("connection ended");
      }
      line.write(c);
    }
    return line.toString(StandardCharsets.ISO_8859_1).stripTrailing();
  }

  @Override
  public void close() throws IOException {
    socket.close();
  }
}
