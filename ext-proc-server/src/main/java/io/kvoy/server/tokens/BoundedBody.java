// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tokens;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import org.jspecify.annotations.Nullable;

/**
 * A response body that is cut off at a size. Fed by threads of the HTTP client, watched by the one
 * that waits: {@link #received} tells whether anything still comes.
 *
 * @param <T> what the body becomes
 */
final class BoundedBody<T> implements BodySubscriber<T> {
  private final long maxBytes;
  private final Sink<T> sink;
  private final CompletableFuture<T> result = new CompletableFuture<>();
  private Flow.@Nullable Subscription subscription;

  /** Volatile as the waiting thread reads it; only one thread at a time writes. */
  private volatile long received;

  /** Takes the bytes one piece after the other. */
  private interface Sink<T> {
    void accept(ByteBuffer piece) throws IOException;

    T whole();
  }

  private BoundedBody(long maxBytes, Sink<T> sink) {
    this.maxBytes = maxBytes;
    this.sink = sink;
  }

  /** The body in memory. */
  static BoundedBody<byte[]> inMemory(long maxBytes) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    return new BoundedBody<>(
        maxBytes,
        new Sink<>() {
          @Override
          public void accept(ByteBuffer piece) {
            byte[] copy = new byte[piece.remaining()];
            piece.get(copy);
            bytes.writeBytes(copy);
          }

          @Override
          public byte[] whole() {
            return bytes.toByteArray();
          }
        });
  }

  /** The body appended to a file; the result is its length. */
  static BoundedBody<Long> into(WritableByteChannel file, long maxBytes) {
    return new BoundedBody<>(
        maxBytes,
        new Sink<>() {
          private long written;

          @Override
          public void accept(ByteBuffer piece) throws IOException {
            while (piece.hasRemaining()) {
              written += file.write(piece);
            }
          }

          @Override
          public Long whole() {
            return written;
          }
        });
  }

  /** Bytes so far. */
  long received() {
    return received;
  }

  @Override
  public CompletionStage<T> getBody() {
    return result;
  }

  @Override
  public void onSubscribe(Flow.Subscription given) {
    subscription = given;
    given.request(1);
  }

  @Override
  @SuppressWarnings("NonAtomicVolatileUpdate") // the client's calls come one after the other
  public void onNext(List<ByteBuffer> pieces) {
    Flow.Subscription from = Objects.requireNonNull(subscription);
    long more = pieces.stream().mapToLong(ByteBuffer::remaining).sum();
    if (received + more > maxBytes) {
      from.cancel();
      result.completeExceptionally(new TooLargeException(maxBytes));
      return;
    }
    received += more;
    try {
      for (ByteBuffer piece : pieces) {
        sink.accept(piece);
      }
    } catch (IOException e) {
      from.cancel();
      result.completeExceptionally(e);
      return;
    }
    from.request(1);
  }

  @Override
  public void onError(Throwable error) {
    result.completeExceptionally(error);
  }

  @Override
  public void onComplete() {
    result.complete(sink.whole());
  }

  /** The body went on beyond the size. */
  static final class TooLargeException extends IOException {
    private static final long serialVersionUID = 1;

    TooLargeException(long maxBytes) {
      super("body of more than " + maxBytes + " bytes");
    }
  }
}
