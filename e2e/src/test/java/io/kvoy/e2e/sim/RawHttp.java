// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;

/** One HTTP connection that shows the bytes: header order, chunk borders, resets. */
final class RawHttp implements AutoCloseable {
  private final Socket socket;
  private final InputStream in;

  /** An answer as it came. {@code headers} are {@code name: value} lines in order. */
  record Answer(String statusLine, List<String> headers, List<String> chunks, String body) {
    List<String> headerNames() {
      return headers.stream().map(h -> h.substring(0, h.indexOf(':'))).toList();
    }

    String header(String name) {
      return headers.stream()
          .filter(h -> h.toLowerCase(Locale.ROOT).startsWith(name + ":"))
          .map(h -> h.substring(name.length() + 1).strip())
          .findFirst()
          .orElse("");
    }
  }

  RawHttp(int port) throws IOException {
    socket = new Socket(InetAddress.getLoopbackAddress(), port);
    socket.setSoTimeout(20_000);
    socket.setTcpNoDelay(true);
    in = new BufferedInputStream(socket.getInputStream());
  }

  static Answer get(int port, String path) throws IOException {
    try (RawHttp http = new RawHttp(port)) {
      http.send("GET", path, List.of(), "");
      return http.read();
    }
  }

  static Answer post(int port, String path, String json, String... headers) throws IOException {
    try (RawHttp http = new RawHttp(port)) {
      List<String> all = new ArrayList<>(List.of("content-type: application/json"));
      all.addAll(List.of(headers));
      http.send("POST", path, all, json);
      return http.read();
    }
  }

  void send(String method, String path, List<String> headers, String body) throws IOException {
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    StringBuilder head = new StringBuilder();
    head.append(method).append(' ').append(path).append(" HTTP/1.1\r\nHost: sim\r\n");
    headers.forEach(h -> head.append(h).append("\r\n"));
    head.append("Content-Length: ").append(bytes.length).append("\r\n\r\n");
    socket.getOutputStream().write(head.toString().getBytes(StandardCharsets.ISO_8859_1));
    socket.getOutputStream().write(bytes);
    socket.getOutputStream().flush();
  }

  Answer read() throws IOException {
    List<String> head = readHead();
    List<String> headers = head.subList(1, head.size());
    Answer bare = new Answer(head.getFirst(), headers, List.of(), "");
    if (bare.header("transfer-encoding").equals("chunked")) {
      List<String> chunks = new ArrayList<>();
      for (String chunk = readChunk(); !chunk.isEmpty(); chunk = readChunk()) {
        chunks.add(chunk);
      }
      return new Answer(head.getFirst(), headers, chunks, String.join("", chunks));
    }
    int length = Integer.parseInt(bare.header("content-length"));
    byte[] body = in.readNBytes(length);
    if (body.length < length) {
      throw new EOFException("body cut at " + body.length + " of " + length);
    }
    return new Answer(
        head.getFirst(), headers, List.of(), new String(body, StandardCharsets.UTF_8));
  }

  /** Status line and headers. */
  List<String> readHead() throws IOException {
    List<String> lines = new ArrayList<>();
    for (String line = readLine(); !line.isEmpty(); line = readLine()) {
      lines.add(line);
    }
    return lines;
  }

  /** The next chunk, empty for the last one. */
  String readChunk() throws IOException {
    int size = Integer.parseInt(readLine(), 16);
    byte[] bytes = in.readNBytes(size);
    if (bytes.length < size) {
      throw new EOFException("chunk cut");
    }
    readLine();
    return new String(bytes, StandardCharsets.UTF_8);
  }

  private String readLine() throws IOException {
    ByteArrayOutputStream line = new ByteArrayOutputStream();
    while (true) {
      int c = in.read();
      if (c < 0) {
        throw new EOFException("connection ended");
      }
      if (c == '\n') {
        String text = line.toString(StandardCharsets.UTF_8);
        return text.endsWith("\r") ? text.substring(0, text.length() - 1) : text;
      }
      line.write(c);
    }
  }

  @Override
  public void close() throws IOException {
    Objects.requireNonNull(socket).close();
  }
}
