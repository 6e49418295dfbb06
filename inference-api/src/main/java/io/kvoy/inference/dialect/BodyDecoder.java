// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.dialect;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Locale;
import java.util.zip.GZIPInputStream;
import java.util.zip.Inflater;
import java.util.zip.InflaterInputStream;
import org.jspecify.annotations.Nullable;

/**
 * Undoes a request's {@code content-encoding} so that the decision can read it. The worker gets the
 * bytes as they came.
 *
 * <p>Bounded twice: by the size of the result and by its ratio to the input, for a small bomb must
 * not cost what a large honest body may. Any thread; no state.
 */
public final class BodyDecoder {
  /**
   * Text compresses to a tenth, token id arrays to a fifth; deflate's own limit is 1032. A prompt
   * of one repeated line comes near that and is refused only beyond {@link #FREE_BYTES}.
   */
  private static final int MAX_RATIO = 200;

  /** Results up to this size are allowed at any ratio. */
  private static final int FREE_BYTES = 1 << 20;

  private static final int COPY_BYTES = 1 << 13;

  private BodyDecoder() {}

  /** What became of the encoding. */
  public sealed interface Decoded {

    /** The plain body; the received array itself when it was not encoded. */
    final class Plain implements Decoded {
      private final byte[] body;

      Plain(byte[] body) {
        this.body = body;
      }

      public byte[] body() {
        return body;
      }
    }

    /** An encoding, or a chain of them, that is not known here: forward, load-only, or 415. */
    record Unsupported() implements Decoded {}

    /** The plain body would be larger than allowed: 413. */
    record TooLarge() implements Decoded {}

    /** The bytes are not what the header says: 400. */
    record Corrupt() implements Decoded {}
  }

  /**
   * Decodes a whole body.
   *
   * @param contentEncoding value of the header, null when absent
   * @param maxBytes largest plain body, at least 1
   */
  public static Decoded decode(byte[] body, @Nullable String contentEncoding, int maxBytes) {
    String encoding =
        contentEncoding == null ? "" : contentEncoding.strip().toLowerCase(Locale.ROOT);
    return switch (encoding) {
      case "", "identity" ->
          body.length > maxBytes ? new Decoded.TooLarge() : new Decoded.Plain(body);
      case "gzip", "x-gzip" -> inflated(body, true, maxBytes);
      case "deflate" -> inflated(body, false, maxBytes);
      default -> new Decoded.Unsupported();
    };
  }

  private static Decoded inflated(byte[] body, boolean gzip, int maxBytes) {
    long byRatio = Math.max(FREE_BYTES, (long) body.length * MAX_RATIO);
    long limit = Math.min(maxBytes, byRatio);
    try (InputStream in = gzip ? gzip(body) : deflate(body)) {
      ByteArrayOutputStream out =
          new ByteArrayOutputStream((int) Math.min(limit, 4L * body.length + COPY_BYTES));
      byte[] copy = new byte[COPY_BYTES];
      for (int read = in.read(copy); read >= 0; read = in.read(copy)) {
        if (out.size() + (long) read > limit) {
          return new Decoded.TooLarge();
        }
        out.write(copy, 0, read);
      }
      return new Decoded.Plain(out.toByteArray());
    } catch (IOException e) {
      return new Decoded.Corrupt();
    }
  }

  private static InputStream gzip(byte[] body) throws IOException {
    return new GZIPInputStream(new ByteArrayInputStream(body), COPY_BYTES);
  }

  /** RFC 9110 means zlib by "deflate", some clients send the bare stream. */
  private static InputStream deflate(byte[] body) {
    boolean zlib =
        body.length >= 2
            && (body[0] & 0x0F) == 8
            && ((body[0] & 0xFF) << 8 | (body[1] & 0xFF)) % 31 == 0;
    return new OwnInflater(body, new Inflater(!zlib));
  }

  /** Frees the native inflater together with the stream. */
  private static final class OwnInflater extends InflaterInputStream {
    OwnInflater(byte[] body, Inflater inflater) {
      super(new ByteArrayInputStream(body), inflater, COPY_BYTES);
    }

    @Override
    public void close() throws IOException {
      super.close();
      inf.end();
    }
  }
}
