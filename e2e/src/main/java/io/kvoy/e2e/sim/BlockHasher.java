// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Names of cache blocks as vLLM 0.32 computes them with {@code --prefix-caching-hash-algo
 * sha256_cbor} ({@code v1/core/kv_cache_utils.py}): SHA-256 over the canonical CBOR of {@code
 * [parent digest, [token ids], extra keys or null]}, where the first block's parent is the SHA-256
 * of the CBOR of the seed string.
 *
 * <p>Thread-safe; called on API threads for prompts and on the engine thread for generated blocks.
 */
final class BlockHasher {
  /** What vLLM takes for the seed when {@code PYTHONHASHSEED} is not set (0.29 and later). */
  static final String DEFAULT_SEED = "vllm-none-hash";

  private final Digest root;

  BlockHasher(String seed) {
    ByteArrayOutputStream cbor = new ByteArrayOutputStream();
    text(cbor, seed);
    root = sha256(cbor);
  }

  /** The parent of every first block. */
  Digest root() {
    return root;
  }

  /**
   * The digest of one block.
   *
   * @param parent the block before it, or {@link #root()}
   * @param tokens holds the block's ids at {@code from} (inclusive) to {@code to} (exclusive)
   * @param extraKeys tagged keys such as {@code [["cache_salt", "s"]]}; null when there are none
   */
  Digest next(
      Digest parent, int[] tokens, int from, int to, @Nullable List<List<String>> extraKeys) {
    ByteArrayOutputStream cbor = new ByteArrayOutputStream(64 + 5 * (to - from));
    head(cbor, 4, 3);
    head(cbor, 2, parent.bytes().length);
    cbor.writeBytes(parent.bytes());
    head(cbor, 4, to - from);
    for (int i = from; i < to; i++) {
      head(cbor, 0, tokens[i]);
    }
    if (extraKeys == null) {
      cbor.write(0xf6);
    } else {
      head(cbor, 4, extraKeys.size());
      for (List<String> key : extraKeys) {
        head(cbor, 4, key.size());
        for (String part : key) {
          text(cbor, part);
        }
      }
    }
    return sha256(cbor);
  }

  private static void text(ByteArrayOutputStream out, String value) {
    byte[] utf8 = value.getBytes(StandardCharsets.UTF_8);
    head(out, 3, utf8.length);
    out.writeBytes(utf8);
  }

  /**
   * CBOR's initial byte with the shortest form of a non-negative argument (RFC 8949, section 3).
   */
  private static void head(ByteArrayOutputStream out, int major, int value) {
    int type = major << 5;
    if (value < 24) {
      out.write(type | value);
    } else if (value < 0x100) {
      out.write(type | 24);
      out.write(value);
    } else if (value < 0x1_0000) {
      out.write(type | 25);
      out.write(value >>> 8);
      out.write(value);
    } else {
      out.write(type | 26);
      out.write(value >>> 24);
      out.write(value >>> 16);
      out.write(value >>> 8);
      out.write(value);
    }
  }

  private static Digest sha256(ByteArrayOutputStream input) {
    try {
      return new Digest(MessageDigest.getInstance("SHA-256").digest(input.toByteArray()));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }
}
