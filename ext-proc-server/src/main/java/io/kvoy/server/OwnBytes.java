// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import com.google.protobuf.ByteOutput;
import com.google.protobuf.ByteString;
import com.google.protobuf.UnsafeByteOperations;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Bytes of gRPC messages as an array, which nobody may change.
 *
 * <p>A body that came in one message, as most do, lies in an array of its own already. Another copy
 * would be as long as the body: tens of microseconds and as much garbage for a long conversation.
 */
public final class OwnBytes {
  private OwnBytes() {}

  /**
   * @param pieces in order
   * @param bytes in all of them
   */
  public static byte[] of(List<ByteString> pieces, int bytes) {
    if (pieces.size() == 1) {
      byte[] whole = arrayOf(pieces.getFirst());
      if (whole != null) {
        return whole;
      }
    }
    byte[] whole = new byte[bytes];
    int at = 0;
    for (ByteString piece : pieces) {
      piece.copyTo(whole, at);
      at += piece.size();
    }
    return whole;
  }

  /** The array that holds these bytes and nothing else; null when there is none. */
  private static byte @Nullable [] arrayOf(ByteString bytes) {
    Whole whole = new Whole(bytes.size());
    try {
      UnsafeByteOperations.unsafeWriteTo(bytes, whole);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return whole.array;
  }

  /** Takes what is written if it is a whole array of the expected length. */
  private static final class Whole extends ByteOutput {
    private final int length;
    private byte @Nullable [] array;

    Whole(int length) {
      this.length = length;
    }

    @Override
    public void write(byte value) {}

    /** By contract the array may be used again. */
    @Override
    public void write(byte[] value, int from, int count) {}

    @Override
    public void writeLazy(byte[] value, int from, int count) {
      if (from == 0 && count == length && value.length == length) {
        array = value;
      }
    }

    @Override
    public void write(ByteBuffer value) {}

    @Override
    public void writeLazy(ByteBuffer value) {}
  }
}
