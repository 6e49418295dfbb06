// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HexFormat;

/**
 * The SHA-256 of one cache block, usable as a map key. Immutable: the array is not handed out for
 * writing.
 */
final class Digest {
  private final byte[] bytes;

  Digest(byte[] bytes) {
    if (bytes.length != 32) {
      throw new IllegalArgumentException("a digest has 32 bytes, was " + bytes.length);
    }
    this.bytes = bytes;
  }

  /** The digest's own bytes; not to be modified. */
  byte[] bytes() {
    return bytes;
  }

  /**
   * The last 8 bytes, the form in which vLLM publishes hashes by default; to be read as unsigned.
   */
  long low64() {
    return ByteBuffer.wrap(bytes).getLong(24);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Digest that && Arrays.equals(bytes, that.bytes);
  }

  @Override
  public int hashCode() {
    return (int) low64();
  }

  @Override
  public String toString() {
    return HexFormat.of().formatHex(bytes);
  }
}
