// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.files;

import org.jspecify.annotations.Nullable;

/**
 * The characters by which a byte-level vocabulary writes bytes: printable Latin-1 stands for
 * itself, the other 68 bytes are U+0100 and up in order (so a space is U+0120).
 */
public final class ByteAlphabet {

  private static final int LAST_CHARACTER = 0x143;

  /** Byte of a character, or -1. */
  private static final short[] BYTES = new short[LAST_CHARACTER + 1];

  private static final char[] CHARACTERS = new char[256];

  static {
    java.util.Arrays.fill(BYTES, (short) -1);
    char next = 0x100;
    for (int b = 0; b < CHARACTERS.length; b++) {
      boolean printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      CHARACTERS[b] = printable ? (char) b : next++;
      BYTES[CHARACTERS[b]] = (short) b;
    }
  }

  private ByteAlphabet() {}

  /** The character that writes this byte. */
  public static char character(int unsignedByte) {
    return CHARACTERS[unsignedByte];
  }

  /**
   * The bytes that this entry of a vocabulary stands for, or null when it has characters outside
   * the alphabet.
   */
  public static byte @Nullable [] bytes(String entry) {
    var bytes = new byte[entry.length()];
    for (int i = 0; i < bytes.length; i++) {
      char c = entry.charAt(i);
      if (c > LAST_CHARACTER || BYTES[c] < 0) {
        return null;
      }
      bytes[i] = (byte) BYTES[c];
    }
    return bytes;
  }
}
