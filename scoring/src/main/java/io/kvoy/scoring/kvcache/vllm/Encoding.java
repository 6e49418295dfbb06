// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache.vllm;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The bytes that vLLM feeds to its hash function for one block: {@code (parent digest, token ids,
 * extra keys)} in Python pickle protocol 5 or in canonical CBOR (vLLM 0.32 {@code
 * utils/hashing.py}).
 *
 * <p>Extra keys are strings, ints, byte strings and lists of these. One instance per thread;
 * buffers are reused.
 */
sealed interface Encoding {

  /** Encodes a block; the bytes are {@link #buffer} up to {@link #length}. */
  void block(byte[] parent, int[] ids, int from, int count, @Nullable List<Object> extras);

  /** Encodes a bare string, the seed of the first parent. */
  void text(String text);

  byte[] buffer();

  int length();

  /** A growing byte buffer. */
  abstract sealed class Bytes {
    private byte[] buffer = new byte[1024];
    private int length;

    public byte[] buffer() {
      return buffer;
    }

    public int length() {
      return length;
    }

    void clear() {
      length = 0;
    }

    void put(int value) {
      if (length == buffer.length) {
        buffer = Arrays.copyOf(buffer, length * 2);
      }
      buffer[length++] = (byte) value;
    }

    void put(byte[] bytes) {
      while (buffer.length - length < bytes.length) {
        buffer = Arrays.copyOf(buffer, buffer.length * 2);
      }
      System.arraycopy(bytes, 0, buffer, length, bytes.length);
      length += bytes.length;
    }

    void bigEndian(long value, int bytes) {
      for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
        put((int) (value >>> shift));
      }
    }

    void littleEndian(long value, int bytes) {
      for (int i = 0; i < bytes; i++) {
        put((int) (value >>> (8 * i)));
      }
    }

    void patchLittleEndian(int at, long value) {
      for (int i = 0; i < 8; i++) {
        buffer[at + i] = (byte) (value >>> (8 * i));
      }
    }
  }

  /** RFC 8949 §4.2.1: shortest forms, definite lengths. */
  final class Cbor extends Bytes implements Encoding {

    @Override
    public void block(
        byte[] parent, int[] ids, int from, int count, @Nullable List<Object> extras) {
      clear();
      head(4, 3);
      item(parent);
      head(4, count);
      for (int i = from; i < from + count; i++) {
        integer(ids[i]);
      }
      if (extras == null) {
        put(0xF6);
      } else {
        item(extras);
      }
    }

    @Override
    public void text(String text) {
      clear();
      item(text);
    }

    private void item(Object value) {
      switch (value) {
        case String text -> {
          byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
          head(3, utf8.length);
          put(utf8);
        }
        case byte[] bytes -> {
          head(2, bytes.length);
          put(bytes);
        }
        case Integer number -> integer(number);
        case List<?> items -> {
          head(4, items.size());
          items.forEach(this::item);
        }
        default -> throw new IllegalArgumentException("no CBOR form for " + value.getClass());
      }
    }

    private void integer(int value) {
      if (value >= 0) {
        head(0, value);
      } else {
        head(1, -1 - value);
      }
    }

    private void head(int major, int value) {
      int type = major << 5;
      if (value < 24) {
        put(type | value);
      } else if (value < 256) {
        put(type | 24);
        put(value);
      } else if (value < 65_536) {
        put(type | 25);
        bigEndian(value, 2);
      } else {
        put(type | 26);
        bigEndian(value, 4);
      }
    }
  }

  /**
   * What CPython's pickler writes for tuples of bytes, ints, strings and tuples. Every composite
   * and string goes to the memo; the words vLLM itself puts in (such as {@code "mm"}) are one
   * object each and are read from the memo the second time, whereas equal strings of a request are
   * different objects and are written again.
   */
  final class Pickle extends Bytes implements Encoding {

    /**
     * CPython starts a new frame there, which is not written here; a block of 8,192 tokens has
     * less.
     */
    static final int MAX_FRAME_BYTES = 64 * 1024;

    private static final int FRAME_LENGTH_AT = 3;

    private int memoized;

    /** Memo index of vLLM's word {@code "mm"}, -1 before its first use. */
    private int mediaTagAt;

    @Override
    public void block(
        byte[] parent, int[] ids, int from, int count, @Nullable List<Object> extras) {
      begin();
      item(parent);
      openTuple(count);
      for (int i = from; i < from + count; i++) {
        integer(ids[i]);
      }
      closeTuple(count);
      if (extras == null) {
        put('N');
      } else {
        item(extras);
      }
      closeTuple(3);
      end();
    }

    @Override
    public void text(String text) {
      begin();
      item(text);
      end();
    }

    private void begin() {
      clear();
      memoized = 0;
      mediaTagAt = -1;
      put(0x80);
      put(5);
      put(0x95);
      littleEndian(0, 8);
    }

    private void end() {
      put('.');
      int frame = length() - FRAME_LENGTH_AT - 8;
      if (frame >= MAX_FRAME_BYTES) {
        throw new IllegalArgumentException("block of " + frame + " pickled bytes is too large");
      }
      patchLittleEndian(FRAME_LENGTH_AT, frame);
    }

    private void item(Object value) {
      switch (value) {
        case String text when text.equals(VllmBlockHasher.MEDIA_TAG) && mediaTagAt >= 0 -> {
          put('h');
          put(mediaTagAt);
        }
        case String text -> {
          if (text.equals(VllmBlockHasher.MEDIA_TAG)) {
            mediaTagAt = memoized;
          }
          byte[] utf8 = text.getBytes(StandardCharsets.UTF_8);
          if (utf8.length < 256) {
            put(0x8C);
            put(utf8.length);
          } else {
            put('X');
            littleEndian(utf8.length, 4);
          }
          put(utf8);
          memoize();
        }
        case byte[] bytes -> {
          put('C');
          put(bytes.length); // digests only: shorter than 256
          put(bytes);
          memoize();
        }
        case Integer number -> integer(number);
        case List<?> items -> {
          openTuple(items.size());
          items.forEach(this::item);
          closeTuple(items.size());
        }
        default -> throw new IllegalArgumentException("no pickle form for " + value.getClass());
      }
    }

    private void integer(int value) {
      if (value >= 0 && value < 256) {
        put('K');
        put(value);
      } else if (value >= 0 && value < 65_536) {
        put('M');
        littleEndian(value, 2);
      } else {
        put('J');
        littleEndian(value, 4);
      }
    }

    private void openTuple(int size) {
      if (size > 3) {
        put('(');
      }
    }

    private void closeTuple(int size) {
      switch (size) {
        case 0 -> {
          put(')');
          return;
        }
        case 1 -> put(0x85);
        case 2 -> put(0x86);
        case 3 -> put(0x87);
        default -> put('t');
      }
      memoize();
    }

    private void memoize() {
      put(0x94);
      memoized++;
    }
  }
}
