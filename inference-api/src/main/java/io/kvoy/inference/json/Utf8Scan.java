// SPDX-License-Identifier: Apache-2.0
package io.kvoy.inference.json;

/**
 * One pass over a body's bytes before it is parsed: is it the UTF-8 that Python's {@code
 * json.loads} takes?
 *
 * <p>Python decodes with {@code surrogatepass} ({@code json/__init__.py}), so surrogates encoded as
 * three bytes are accepted; overlong forms and code points above U+10FFFF are not.
 *
 * @param errorOffset offset of the first byte that is no UTF-8, -1 when all is well
 * @param hasSurrogates whether a surrogate is encoded in it; in Python such a one always stands
 *     alone
 */
record Utf8Scan(int errorOffset, boolean hasSurrogates) {

  static Utf8Scan of(byte[] body) {
    return of(body, 0);
  }

  /** The same of the bytes from {@code from} on. */
  static Utf8Scan of(byte[] body, int from) {
    boolean surrogates = false;
    int length = body.length;
    int i = from;
    while (i < length) {
      if (i <= length - Long.BYTES && !EightBytes.hasNonAscii(EightBytes.at(body, i))) {
        i += Long.BYTES;
        continue;
      }
      if (body[i] >= 0) {
        i++;
        continue;
      }
      int size = sequenceLength(body, i, length);
      if (size == 0) {
        return new Utf8Scan(i, surrogates);
      }
      surrogates |= size == 3 && (body[i] & 0xFF) == 0xED && (body[i + 1] & 0xFF) >= 0xA0;
      i += size;
    }
    return new Utf8Scan(-1, surrogates);
  }

  /** Length of the well-formed multi-byte sequence at {@code i}, 0 when there is none. */
  private static int sequenceLength(byte[] body, int i, int length) {
    int lead = body[i] & 0xFF;
    if (lead >= 0xC2 && lead <= 0xDF) {
      return continues(body, i, length, 1) ? 2 : 0;
    }
    if (lead >= 0xE0 && lead <= 0xEF) {
      boolean overlong = lead == 0xE0 && i + 1 < length && (body[i + 1] & 0xFF) < 0xA0;
      return !overlong && continues(body, i, length, 2) ? 3 : 0;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
      int next = i + 1 < length ? body[i + 1] & 0xFF : 0;
      boolean outside = (lead == 0xF0 && next < 0x90) || (lead == 0xF4 && next > 0x8F);
      return !outside && continues(body, i, length, 3) ? 4 : 0;
    }
    return 0;
  }

  private static boolean continues(byte[] body, int i, int length, int count) {
    if (i + count >= length) {
      return false;
    }
    for (int k = 1; k <= count; k++) {
      if ((body[i + k] & 0xC0) != 0x80) {
        return false;
      }
    }
    return true;
  }
}
