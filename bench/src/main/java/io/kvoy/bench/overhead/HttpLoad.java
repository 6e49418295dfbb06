// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.overhead;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;

/**
 * A closed loop of HTTP/1.1 clients on one thread: each connection sends its next request when the
 * answer to the last one is complete. Written for little CPU per request, since it shares the
 * machine with what it measures: no HTTP library, no object per header.
 *
 * <p>Understands what the workers of this benchmark send: a status line, {@code content-length} or
 * chunks. Use from one thread.
 */
final class HttpLoad {
  /** An answer's headers end within this. */
  private static final int HEAD_BYTES = 8 << 10;

  private static final int READ_BYTES = 256 << 10;
  private static final byte[] LAST_CHUNK = "0\r\n\r\n".getBytes(StandardCharsets.US_ASCII);

  private final Selector selector;
  private final Connection[] connections;
  private final Prompts.Source source;
  private final ByteBuffer input = ByteBuffer.allocateDirect(READ_BYTES);
  private long[] latencies = new long[1 << 14];
  private long[] firstBytes = new long[1 << 14];
  private int done;
  private int failed;
  private String firstFailure = "";
  private boolean measuring;
  private boolean ending;

  /** Looks at the world when the measured time begins and when it ends. */
  interface Window {
    void begins() throws IOException;

    void ends() throws IOException;
  }

  /**
   * What was seen in the measured time.
   *
   * @param done requests whose answer was complete and had status 200
   * @param failed requests with another status or a broken connection
   * @param firstFailure what the first of them was, empty when none was
   * @param seconds length of the measured time
   * @param latencies nanoseconds from sending to the end of the answer, sorted
   * @param firstBytes nanoseconds from sending to the first byte of the answer's body, sorted
   */
  @SuppressWarnings("ArrayRecordComponent") // read only, millions of them
  record Result(
      int done,
      int failed,
      String firstFailure,
      double seconds,
      long[] latencies,
      long[] firstBytes) {
    double perSecond() {
      return done / seconds;
    }

    double millis(double quantile) {
      return of(latencies, quantile);
    }

    double firstByteMillis(double quantile) {
      return of(firstBytes, quantile);
    }

    private static double of(long[] sorted, double quantile) {
      return sorted.length == 0
          ? Double.NaN
          : sorted[(int) Math.round(quantile * (sorted.length - 1))] / 1e6;
    }
  }

  private static final class Connection {
    final int number;
    final SocketChannel channel;
    final SelectionKey key;
    final byte[] head = new byte[HEAD_BYTES];
    final byte[] tail = new byte[LAST_CHUNK.length];
    ByteBuffer[] out = new ByteBuffer[0];
    int headBytes;
    boolean inBody;
    boolean chunked;
    long left;
    int status;
    long sentNanos;
    long firstByteNanos;
    boolean idle = true;

    Connection(int number, SocketChannel channel, SelectionKey key) {
      this.number = number;
      this.channel = channel;
      this.key = key;
    }
  }

  private HttpLoad(InetSocketAddress door, Prompts.Source source, int count) throws IOException {
    this.source = source;
    selector = Selector.open();
    connections = new Connection[count];
    for (int i = 0; i < count; i++) {
      SocketChannel channel = SocketChannel.open(door);
      channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
      channel.configureBlocking(false);
      SelectionKey key = channel.register(selector, SelectionKey.OP_READ);
      connections[i] = new Connection(i, channel, key);
      key.attach(connections[i]);
    }
  }

  /**
   * Runs for the two times, one after the other, and lets what is under way at the end be.
   *
   * @param door where to connect
   * @param connections how many clients, 1 and more
   * @param warmUp time that is not measured
   */
  static Result run(
      InetSocketAddress door,
      Prompts.Source source,
      int connections,
      Duration warmUp,
      Duration measured,
      Window window)
      throws IOException {
    HttpLoad load = new HttpLoad(door, source, connections);
    try {
      return load.run(warmUp, measured, window);
    } finally {
      load.close();
    }
  }

  private Result run(Duration warmUp, Duration measured, Window window) throws IOException {
    for (Connection connection : connections) {
      send(connection);
    }
    loopUntil(System.nanoTime() + warmUp.toNanos());
    done = 0;
    failed = 0;
    firstFailure = "";
    measuring = true;
    window.begins();
    long start = System.nanoTime();
    loopUntil(start + measured.toNanos());
    double seconds = (System.nanoTime() - start) / 1e9;
    window.ends();
    measuring = false;
    Result result =
        new Result(done, failed, firstFailure, seconds, sorted(latencies), sorted(firstBytes));
    ending = true;
    // A connection that is closed in the middle would look like a client that left.
    long patience = System.nanoTime() + Duration.ofSeconds(5).toNanos();
    while (System.nanoTime() < patience && Arrays.stream(connections).anyMatch(c -> !c.idle)) {
      turn(20);
    }
    return result;
  }

  private long[] sorted(long[] some) {
    long[] mine = Arrays.copyOf(some, done);
    Arrays.sort(mine);
    return mine;
  }

  private void loopUntil(long end) throws IOException {
    for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
      turn(Math.max(1, left / 1_000_000));
    }
  }

  private void turn(long millis) throws IOException {
    selector.select(
        key -> {
          Connection connection = (Connection) key.attachment();
          try {
            if (key.isWritable()) {
              write(connection);
            }
            if (key.isReadable()) {
              read(connection);
            }
          } catch (IOException broken) {
            key.cancel();
            connection.idle = true;
            failed(broken.getClass().getSimpleName() + ": " + broken.getMessage());
          }
        },
        millis);
  }

  private void send(Connection connection) throws IOException {
    connection.out = source.next(connection.number);
    connection.headBytes = 0;
    connection.inBody = false;
    connection.firstByteNanos = 0;
    Arrays.fill(connection.tail, (byte) 0);
    connection.idle = false;
    connection.sentNanos = System.nanoTime();
    write(connection);
  }

  private void write(Connection connection) throws IOException {
    connection.channel.write(connection.out);
    boolean isOut = !connection.out[connection.out.length - 1].hasRemaining();
    connection.key.interestOps(
        isOut ? SelectionKey.OP_READ : SelectionKey.OP_READ | SelectionKey.OP_WRITE);
  }

  private void read(Connection connection) throws IOException {
    input.clear();
    if (connection.channel.read(input) < 0) {
      throw new IOException("closed by the proxy");
    }
    input.flip();
    while (input.hasRemaining()) {
      if (!connection.inBody) {
        readHead(connection);
      } else if (readBody(connection)) {
        answered(connection);
        return;
      }
    }
    if (connection.inBody && !connection.chunked && connection.left == 0) {
      answered(connection);
    }
  }

  private void readHead(Connection connection) throws IOException {
    byte[] head = connection.head;
    while (input.hasRemaining()) {
      if (connection.headBytes == head.length) {
        throw new IOException("response headers of more than " + head.length + " bytes");
      }
      head[connection.headBytes++] = input.get();
      int n = connection.headBytes;
      if (n >= 4 && head[n - 1] == '\n' && head[n - 3] == '\n') {
        String text = new String(head, 0, n, StandardCharsets.ISO_8859_1).toLowerCase(Locale.ROOT);
        connection.status = Integer.parseInt(text.substring(9, 12));
        connection.chunked = text.contains("\r\ntransfer-encoding: chunked\r\n");
        connection.left = connection.chunked ? -1 : contentLength(text);
        connection.inBody = true;
        return;
      }
    }
  }

  private static long contentLength(String head) throws IOException {
    String name = "\r\ncontent-length: ";
    int at = head.indexOf(name);
    if (at < 0) {
      throw new IOException("an answer with neither a length nor chunks");
    }
    return Long.parseLong(head.substring(at + name.length(), head.indexOf('\r', at + 2)));
  }

  /** Whether the answer is complete. */
  private boolean readBody(Connection connection) {
    if (connection.firstByteNanos == 0) {
      connection.firstByteNanos = System.nanoTime();
    }
    if (!connection.chunked) {
      long taken = Math.min(connection.left, input.remaining());
      input.position(input.position() + (int) taken);
      connection.left -= taken;
      return connection.left == 0;
    }
    // The events of these workers never end the way the last chunk does.
    byte[] tail = connection.tail;
    int fresh = Math.min(tail.length, input.remaining());
    System.arraycopy(tail, fresh, tail, 0, tail.length - fresh);
    input.get(input.limit() - fresh, tail, tail.length - fresh, fresh);
    input.position(input.limit());
    return Arrays.equals(tail, LAST_CHUNK);
  }

  private void answered(Connection connection) throws IOException {
    long now = System.nanoTime();
    if (measuring) {
      if (connection.status == 200) {
        if (done == latencies.length) {
          latencies = Arrays.copyOf(latencies, 2 * done);
          firstBytes = Arrays.copyOf(firstBytes, 2 * done);
        }
        latencies[done] = now - connection.sentNanos;
        firstBytes[done] =
            (connection.firstByteNanos == 0 ? now : connection.firstByteNanos)
                - connection.sentNanos;
        done++;
      } else {
        failed("status " + connection.status);
      }
    }
    connection.idle = true;
    if (!ending) {
      send(connection);
    }
  }

  private void failed(String what) {
    failed++;
    if (firstFailure.isEmpty()) {
      firstFailure = what;
    }
  }

  private void close() throws IOException {
    for (Connection connection : connections) {
      connection.channel.close();
    }
    selector.close();
  }
}
