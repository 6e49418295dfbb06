// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache.vllm;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.HexFormat;

/**
 * XXH3 with 128 bits, seed 0 and the default secret, as the xxHash specification 0.8 defines it:
 * the hash behind vLLM's {@code xxhash} and {@code xxhash_cbor}. Names follow the specification.
 */
final class Xxh3 {

  private static final long PRIME32_1 = 0x9E3779B1L;
  private static final long PRIME32_2 = 0x85EBCA77L;
  private static final long PRIME32_3 = 0xC2B2AE3DL;
  private static final long PRIME64_1 = 0x9E3779B185EBCA87L;
  private static final long PRIME64_2 = 0xC2B2AE3D27D4EB4FL;
  private static final long PRIME64_3 = 0x165667B19E3779F9L;
  private static final long PRIME64_4 = 0x85EBCA77C2B2AE63L;
  private static final long PRIME64_5 = 0x27D4EB2F165667C5L;
  private static final long PRIME_MX1 = 0x165667919E3779F9L;
  private static final long PRIME_MX2 = 0x9FB21C651E98DF25L;

  private static final byte[] SECRET =
      HexFormat.of()
          .parseHex(
              "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
                  + "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
                  + "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
                  + "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
                  + "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
                  + "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e");

  private static final int STRIPE = 64;
  private static final int STRIPES_PER_BLOCK = (SECRET.length - STRIPE) / 8;
  private static final int BLOCK = STRIPE * STRIPES_PER_BLOCK;

  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle BIG_ENDIAN_LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

  private Xxh3() {}

  /** The digest of the first {@code length} bytes, in canonical (big-endian) form. */
  static byte[] digest128(byte[] in, int length) {
    if (length > 240) {
      return digestLong(in, length);
    }
    if (length > 128) {
      return digest129To240(in, length);
    }
    if (length > 16) {
      return digest17To128(in, length);
    }
    if (length > 8) {
      return digest9To16(in, length);
    }
    if (length >= 4) {
      return digest4To8(in, length);
    }
    if (length > 0) {
      return digest1To3(in, length);
    }
    return canonical(avalanche64(secret(80) ^ secret(88)), avalanche64(secret(64) ^ secret(72)));
  }

  private static byte[] digest1To3(byte[] in, int length) {
    int first = in[0] & 0xFF;
    int middle = in[length >> 1] & 0xFF;
    int last = in[length - 1] & 0xFF;
    int low = first << 16 | middle << 24 | last | length << 8;
    int high = Integer.rotateLeft(Integer.reverseBytes(low), 13);
    long flipLow = (secretInt(0) ^ secretInt(4)) & 0xFFFF_FFFFL;
    long flipHigh = (secretInt(8) ^ secretInt(12)) & 0xFFFF_FFFFL;
    return canonical(
        avalanche64((high & 0xFFFF_FFFFL) ^ flipHigh), avalanche64((low & 0xFFFF_FFFFL) ^ flipLow));
  }

  private static byte[] digest4To8(byte[] in, int length) {
    long low = (int) INT.get(in, 0) & 0xFFFF_FFFFL;
    long high = (int) INT.get(in, length - 4) & 0xFFFF_FFFFL;
    long keyed = (low | high << 32) ^ secret(16) ^ secret(24);
    long factor = PRIME64_1 + ((long) length << 2);
    long productLow = keyed * factor;
    long productHigh = Math.unsignedMultiplyHigh(keyed, factor);
    productHigh += productLow << 1;
    productLow ^= productHigh >>> 3;
    productLow ^= productLow >>> 35;
    productLow *= PRIME_MX2;
    productLow ^= productLow >>> 28;
    return canonical(avalanche(productHigh), productLow);
  }

  private static byte[] digest9To16(byte[] in, int length) {
    long flipLow = secret(32) ^ secret(40);
    long flipHigh = secret(48) ^ secret(56);
    long inLow = (long) LONG.get(in, 0);
    long inHigh = (long) LONG.get(in, length - 8);
    long mixed = inLow ^ inHigh ^ flipLow;
    long low = mixed * PRIME64_1;
    long high = Math.unsignedMultiplyHigh(mixed, PRIME64_1);
    low += (long) (length - 1) << 54;
    inHigh ^= flipHigh;
    high += inHigh + (inHigh & 0xFFFF_FFFFL) * (PRIME32_2 - 1);
    low ^= Long.reverseBytes(high);
    long resultLow = low * PRIME64_2;
    long resultHigh = Math.unsignedMultiplyHigh(low, PRIME64_2) + high * PRIME64_2;
    return canonical(avalanche(resultHigh), avalanche(resultLow));
  }

  private static byte[] digest17To128(byte[] in, int length) {
    long[] acc = {length * PRIME64_1, 0};
    for (int at = Math.max(0, (length - 1) / 32) * 16; at >= 0; at -= 16) {
      mix32(acc, in, at, length - 16 - at, 2 * at);
    }
    return finish(acc, length);
  }

  private static byte[] digest129To240(byte[] in, int length) {
    long[] acc = {length * PRIME64_1, 0};
    for (int at = 0; at < 128; at += 32) {
      mix32(acc, in, at, at + 16, at);
    }
    acc[0] = avalanche(acc[0]);
    acc[1] = avalanche(acc[1]);
    for (int at = 128; at + 32 <= length; at += 32) {
      mix32(acc, in, at, at + 16, 3 + at - 128);
    }
    mix32(acc, in, length - 16, length - 32, 136 - 17 - 16);
    return finish(acc, length);
  }

  private static byte[] finish(long[] acc, int length) {
    long low = acc[0] + acc[1];
    long high = acc[0] * PRIME64_1 + acc[1] * PRIME64_4 + length * PRIME64_2;
    return canonical(-avalanche(high), avalanche(low));
  }

  private static byte[] digestLong(byte[] in, int length) {
    long[] acc = {
      PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1
    };
    int blocks = (length - 1) / BLOCK;
    for (int block = 0; block < blocks; block++) {
      for (int stripe = 0; stripe < STRIPES_PER_BLOCK; stripe++) {
        accumulate(acc, in, block * BLOCK + stripe * STRIPE, stripe * 8);
      }
      for (int i = 0; i < 8; i++) {
        acc[i] = (acc[i] ^ acc[i] >>> 47 ^ secret(SECRET.length - STRIPE + 8 * i)) * PRIME32_1;
      }
    }
    int stripes = (length - 1 - BLOCK * blocks) / STRIPE;
    for (int stripe = 0; stripe < stripes; stripe++) {
      accumulate(acc, in, blocks * BLOCK + stripe * STRIPE, stripe * 8);
    }
    accumulate(acc, in, length - STRIPE, SECRET.length - STRIPE - 7);
    return canonical(
        merge(acc, SECRET.length - STRIPE - 11, ~(length * PRIME64_2)),
        merge(acc, 11, length * PRIME64_1));
  }

  private static void accumulate(long[] acc, byte[] in, int at, int secretAt) {
    for (int i = 0; i < 8; i++) {
      long data = (long) LONG.get(in, at + 8 * i);
      long key = data ^ secret(secretAt + 8 * i);
      acc[i ^ 1] += data;
      acc[i] += (key & 0xFFFF_FFFFL) * (key >>> 32);
    }
  }

  private static long merge(long[] acc, int secretAt, long start) {
    long result = start;
    for (int i = 0; i < 4; i++) {
      result +=
          fold(
              acc[2 * i] ^ secret(secretAt + 16 * i),
              acc[2 * i + 1] ^ secret(secretAt + 16 * i + 8));
    }
    return avalanche(result);
  }

  private static void mix32(long[] acc, byte[] in, int first, int second, int secretAt) {
    acc[0] += mix16(in, first, secretAt);
    acc[0] ^= (long) LONG.get(in, second) + (long) LONG.get(in, second + 8);
    acc[1] += mix16(in, second, secretAt + 16);
    acc[1] ^= (long) LONG.get(in, first) + (long) LONG.get(in, first + 8);
  }

  private static long mix16(byte[] in, int at, int secretAt) {
    return fold(
        (long) LONG.get(in, at) ^ secret(secretAt),
        (long) LONG.get(in, at + 8) ^ secret(secretAt + 8));
  }

  private static long fold(long a, long b) {
    return a * b ^ Math.unsignedMultiplyHigh(a, b);
  }

  private static long secret(int at) {
    return (long) LONG.get(SECRET, at);
  }

  private static int secretInt(int at) {
    return (int) INT.get(SECRET, at);
  }

  private static long avalanche(long value) {
    long mixed = (value ^ value >>> 37) * PRIME_MX1;
    return mixed ^ mixed >>> 32;
  }

  private static long avalanche64(long value) {
    long mixed = (value ^ value >>> 33) * PRIME64_2;
    mixed = (mixed ^ mixed >>> 29) * PRIME64_3;
    return mixed ^ mixed >>> 32;
  }

  private static byte[] canonical(long high, long low) {
    byte[] digest = new byte[16];
    BIG_ENDIAN_LONG.set(digest, 0, high);
    BIG_ENDIAN_LONG.set(digest, 8, low);
    return digest;
  }
}
