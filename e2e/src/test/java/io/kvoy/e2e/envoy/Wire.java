// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.envoy;

import io.kvoy.scoring.fleet.Endpoint;
import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** HTTP clients that show what an ordinary one hides: framing, trailers, connection reuse. */
interface Wire extends AutoCloseable {
  /**
   * A request.
   *
   * @param headers {@code name}, {@code value} in turn
   * @param body null for none, which ends the request with its headers
   * @param trailers whether a trailer field follows the body
   */
  @SuppressWarnings("ArrayRecordComponent") // read only
  record Request(
      String method, String path, List<String> headers, byte @Nullable [] body, boolean trailers) {
    static Request post(String path, byte[] body, String... headers) {
      return new Request("POST", path, List.of(headers), body, false);
    }

    Request withTrailers() {
      return new Request(method, path, headers, body, true);
    }
  }

  /** An answer; status 0 when the stream broke before there was one. */
  @SuppressWarnings("ArrayRecordComponent") // read only
  record Answer(int status, Map<String, String> headers, byte[] body, boolean whole) {
    String text() {
      return new String(body, java.nio.charset.StandardCharsets.UTF_8);
    }
  }

  /** Sends and waits for the answer; several in turn use one connection. */
  Answer send(Request request) throws IOException;

  @Override
  void close() throws IOException;

  /** HTTP versions a client can speak. */
  enum Version {
    /** Body with a content-length, or chunked when trailers follow. */
    HTTP_1_1,
    HTTP_1_1_CHUNKED,
    HTTP_2
  }

  static Wire open(Version version, Endpoint to) throws IOException {
    return switch (version) {
      case HTTP_1_1 -> new Http1Wire(to, false);
      case HTTP_1_1_CHUNKED -> new Http1Wire(to, true);
      case HTTP_2 -> new Http2Wire(to);
    };
  }

  static String sha256(byte[] bytes) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException("every Java has SHA-256", impossible);
    }
  }
}
