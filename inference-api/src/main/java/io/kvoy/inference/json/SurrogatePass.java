// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

/**
 * UTF-8 with Python's error handler {@code surrogatepass}: surrogates encoded as three bytes become
 * what they say.
 */
final class SurrogatePass {
  private SurrogatePass() {}

  /** Decodes bytes that {@link Utf8Scan} found well-formed; both ends lie between characters. */
  static String decode(byte[] body, int from, int to) {
    StringBuilder out = new StringBuilder(to - from);
    int i = from;
    while (i < to) {
      int lead = body[i];
      if (lead >= 0) {
        out.append((char) lead);
        i++;
      } else if ((lead & 0xE0) == 0xC0) {
        out.append((char) ((lead & 0x1F) << 6 | (body[i + 1] & 0x3F)));
        i += 2;
      } else if ((lead & 0xF0) == 0xE0) {
        out.append((char) ((lead & 0xF) << 12 | (body[i + 1] & 0x3F) << 6 | (body[i + 2] & 0x3F)));
        i += 3;
      } else {
        out.appendCodePoint(
            (lead & 7) << 18
                | (body[i + 1] & 0x3F) << 12
                | (body[i + 2] & 0x3F) << 6
                | (body[i + 3] & 0x3F));
        i += 4;
      }
    }
    return out.toString();
  }

  /**
   * Encodes one code point, a surrogate as three bytes.
   *
   * @return index behind it
   */
  static int encode(int codePoint, byte[] out, int at) {
    if (codePoint < 0x80) {
      out[at] = (byte) codePoint;
      return at + 1;
    }
    if (codePoint < 0x800) {
      out[at] = (byte) (0xC0 | codePoint >> 6);
      out[at + 1] = (byte) (0x80 | (codePoint & 0x3F));
      return at + 2;
    }
    if (codePoint < 0x10000) {
      out[at] = (byte) (0xE0 | codePoint >> 12);
      out[at + 1] = (byte) (0x80 | (codePoint >> 6 & 0x3F));
      out[at + 2] = (byte) (0x80 | (codePoint & 0x3F));
      return at + 3;
    }
    out[at] = (byte) (0xF0 | codePoint >> 18);
    out[at + 1] = (byte) (0x80 | (codePoint >> 12 & 0x3F));
    out[at + 2] = (byte) (0x80 | (codePoint >> 6 & 0x3F));
    out[at + 3] = (byte) (0x80 | (codePoint & 0x3F));
    return at + 4;
  }
}
