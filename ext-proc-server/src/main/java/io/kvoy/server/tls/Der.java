// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.tls;

import java.io.ByteArrayOutputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.Locale;

/** Writes the few ASN.1 values that a certificate and a private key are made of (X.690, DER). */
final class Der {
  private static final int BOOLEAN = 0x01;
  private static final int INTEGER = 0x02;
  private static final int BIT_STRING = 0x03;
  private static final int OCTET_STRING = 0x04;
  private static final int NULL = 0x05;
  private static final int OBJECT_IDENTIFIER = 0x06;
  private static final int UTF8_STRING = 0x0c;
  private static final int UTC_TIME = 0x17;
  private static final int GENERALIZED_TIME = 0x18;
  private static final int SEQUENCE = 0x30;
  private static final int SET = 0x31;
  private static final int CONTEXT = 0x80;
  private static final int CONTEXT_CONSTRUCTED = 0xa0;

  /** RFC 5280, 4.1.2.5: earlier dates are UTCTime, this year and later GeneralizedTime. */
  private static final int FIRST_GENERALIZED_YEAR = 2050;

  private Der() {}

  static byte[] sequence(byte[]... parts) {
    return tagged(SEQUENCE, parts);
  }

  static byte[] set(byte[]... parts) {
    return tagged(SET, parts);
  }

  static byte[] integer(BigInteger value) {
    return tagged(INTEGER, value.toByteArray());
  }

  static byte[] integer(long value) {
    return integer(BigInteger.valueOf(value));
  }

  static byte[] yes() {
    return tagged(BOOLEAN, new byte[] {(byte) 0xff});
  }

  static byte[] nothing() {
    return tagged(NULL);
  }

  static byte[] octets(byte[] value) {
    return tagged(OCTET_STRING, value);
  }

  static byte[] bits(byte[] value, int unusedBits) {
    return tagged(BIT_STRING, new byte[] {(byte) unusedBits}, value);
  }

  static byte[] text(String value) {
    return tagged(UTF8_STRING, value.getBytes(StandardCharsets.UTF_8));
  }

  static byte[] time(Instant value) {
    ZonedDateTime utc = value.atZone(ZoneOffset.UTC);
    boolean early = utc.getYear() < FIRST_GENERALIZED_YEAR;
    String pattern = early ? "yyMMddHHmmss'Z'" : "yyyyMMddHHmmss'Z'";
    String text = DateTimeFormatter.ofPattern(pattern, Locale.ROOT).format(utc);
    return tagged(early ? UTC_TIME : GENERALIZED_TIME, text.getBytes(StandardCharsets.US_ASCII));
  }

  /** {@code [number]} around whole values. */
  static byte[] explicit(int number, byte[]... parts) {
    return tagged(CONTEXT_CONSTRUCTED | number, parts);
  }

  /** {@code [number]} in place of a primitive value's own tag. */
  static byte[] implicit(int number, byte[] content) {
    return tagged(CONTEXT | number, content);
  }

  /** An object identifier in dotted form. */
  static byte[] oid(String dotted) {
    String[] arcs = dotted.split("\\.", -1);
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    base128(out, 40 * Long.parseLong(arcs[0]) + Long.parseLong(arcs[1]));
    for (int i = 2; i < arcs.length; i++) {
      base128(out, Long.parseLong(arcs[i]));
    }
    return tagged(OBJECT_IDENTIFIER, out.toByteArray());
  }

  private static void base128(ByteArrayOutputStream out, long arc) {
    int groups = Math.max(1, (64 - Long.numberOfLeadingZeros(arc) + 6) / 7);
    for (int i = groups - 1; i >= 0; i--) {
      int group = (int) (arc >>> (7 * i)) & 0x7f;
      out.write(i == 0 ? group : group | 0x80);
    }
  }

  private static byte[] tagged(int tag, byte[]... parts) {
    int length = 0;
    for (byte[] part : parts) {
      length += part.length;
    }
    ByteArrayOutputStream out = new ByteArrayOutputStream(length + 6);
    out.write(tag);
    if (length < 0x80) {
      out.write(length);
    } else {
      byte[] digits = BigInteger.valueOf(length).toByteArray();
      int from = digits[0] == 0 ? 1 : 0;
      out.write(0x80 | (digits.length - from));
      out.write(digits, from, digits.length - from);
    }
    for (byte[] part : parts) {
      out.writeBytes(part);
    }
    return out.toByteArray();
  }
}
