// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

/**
 * The request body that a worker gets in place of the client's, decoded. Every byte that was not to
 * be changed is the client's.
 */
public final class EditedBody {
  private final byte[] bytes;

  /** Takes the array over. */
  public EditedBody(byte[] bytes) {
    this.bytes = bytes;
  }

  /** Not to be modified. */
  public byte[] bytes() {
    return bytes;
  }
}
