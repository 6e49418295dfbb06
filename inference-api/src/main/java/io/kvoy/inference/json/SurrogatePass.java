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
}
