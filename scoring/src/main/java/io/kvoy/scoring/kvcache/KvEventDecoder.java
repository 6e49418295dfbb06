// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.kvcache.KvDecodeError.Kind;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.msgpack.core.MessageFormat;
import org.msgpack.core.MessageFormatException;
import org.msgpack.core.MessageInsufficientBufferException;
import org.msgpack.core.MessageIntegerOverflowException;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessageSizeException;
import org.msgpack.core.MessageTypeException;
import org.msgpack.core.MessageUnpacker;
import org.msgpack.core.buffer.ArrayBufferInput;

/**
 * Reads the msgpack payload of a KV event message.
 *
 * <p>A batch is an array {@code [timestamp, events, rank?]}. An event is a map with the key {@code
 * type} (vLLM 0.24 and later, SGLang 0.5.23) or an array with the type first and the fields by
 * position (vLLM 0.9 to 0.23, earlier SGLang); both may stand in one batch. Fields that are absent
 * have their default, unknown ones are skipped, so that a newer publisher is still understood.
 * Field order: vLLM 0.23 {@code distributed/kv_events.py}.
 *
 * <p>Payloads come over the network: every length is checked against the bytes that are really
 * there before anything is allocated, and objects are counted, so memory stays within a small
 * multiple of the payload; skipping unknown values does not recurse.
 *
 * <p>One instance per thread.
 */
public final class KvEventDecoder {

  /** A batch of 16,000 prompt tokens has about 80 kB; this leaves room for two hundred such. */
  public static final int MAX_PAYLOAD_BYTES = 16 << 20;

  /**
   * Memory that the objects of a payload may take beside its arrays of numbers: so many bytes for
   * each byte of the payload, and a fixed sum, so that small payloads are never refused.
   */
  private static final int OBJECT_BYTES_PER_BYTE = 8;

  private static final int OBJECT_BYTES_FREE = 64 << 10;

  /** Memory of the objects that are made for a value, about. */
  private static final int EVENT_BYTES = 96;

  private static final int ITEM_BYTES = 48;

  /** A place in a list, and one in the list that it is turned into. */
  private static final int PLACE_BYTES = 16;

  /** A list, its array, and what it is turned into. */
  private static final int LIST_BYTES = 96;

  /** Bound of adapter names, salts and media identifiers. */
  private static final int MAX_TEXT_BYTES = 4096;

  private static final byte[] NO_BYTES = {};
  private static final long[] NO_HASHES = {};
  private static final int[] NO_TOKENS = {};

  private final MessageUnpacker unpacker = MessagePack.newDefaultUnpacker(new byte[0]);
  private final byte[] scratch = new byte[9];
  private final TextCache texts = new TextCache();
  private byte[] payload = NO_BYTES;

  /** Bytes that objects of this payload may still take. */
  private long budget;

  /** Offset in the payload at which the unpacker was last started. */
  private int base;

  /** Reads one payload. */
  public KvDecode decode(byte[] bytes) {
    if (bytes.length > MAX_PAYLOAD_BYTES) {
      return new KvDecodeError(
          Kind.TOO_LARGE, "payload of " + bytes.length + " bytes, limit " + MAX_PAYLOAD_BYTES);
    }
    payload = bytes;
    base = 0;
    budget = (long) OBJECT_BYTES_PER_BYTE * bytes.length + OBJECT_BYTES_FREE;
    try {
      unpacker.reset(new ArrayBufferInput(bytes));
      return new KvDecode.Decoded(batch());
    } catch (Refused e) {
      return new KvDecodeError(e.kind, e.detail);
    } catch (MessageInsufficientBufferException _) {
      return new KvDecodeError(Kind.TRUNCATED, "ends within a value");
    } catch (MessageIntegerOverflowException _) {
      return new KvDecodeError(Kind.RANGE, "integer out of range " + where());
    } catch (MessageSizeException _) {
      return new KvDecodeError(Kind.TOO_LARGE, "length out of range " + where());
    } catch (MessageTypeException | MessageFormatException _) {
      return new KvDecodeError(Kind.TYPE, "value of another type than expected " + where());
    } catch (IOException e) {
      throw new UncheckedIOException("reading from a byte array cannot fail", e);
    } finally {
      payload = NO_BYTES;
    }
  }

  private KvBatch batch() throws IOException {
    int fields = arrayLength();
    if (fields < 2) {
      throw new Refused(Kind.MISSING_FIELD, "batch of " + fields + " elements, expected 2 or more");
    }
    double timestamp =
        switch (unpacker.getNextFormat().getValueType()) {
          case FLOAT -> unpacker.unpackDouble();
          default -> unpacker.unpackLong();
        };
    int count = arrayLength();
    List<KvEvent> events = new ArrayList<>(Math.min(count, 1024));
    for (int i = 0; i < count; i++) {
      spend(EVENT_BYTES);
      events.add(event());
    }
    Integer rank = null;
    if (fields > 2) {
      if (unpacker.getNextFormat().getValueType().isIntegerType()) {
        rank = unpacker.unpackInt();
      } else {
        unpacker.skipValue();
      }
      unpacker.skipValue(fields - 3);
    }
    return new KvBatch(timestamp, events, rank);
  }

  private KvEvent event() throws IOException {
    return switch (unpacker.getNextFormat().getValueType()) {
      case ARRAY -> positional();
      case MAP -> named();
      default -> throw new Refused(Kind.TYPE, "event is neither an array nor a map " + where());
    };
  }

  private KvEvent positional() throws IOException {
    int length = arrayLength();
    if (length == 0) {
      throw new Refused(Kind.MISSING_FIELD, "event without a type " + where());
    }
    String type = text();
    return switch (type) {
      case "BlockStored" -> {
        Stored stored = new Stored();
        for (int i = 1; i < length; i++) {
          storedField(stored, i < STORED_ORDER.length ? STORED_ORDER[i] : "");
        }
        yield stored.build();
      }
      case "BlockRemoved" -> {
        Removed removed = new Removed();
        for (int i = 1; i < length; i++) {
          removedField(removed, i < REMOVED_ORDER.length ? REMOVED_ORDER[i] : "");
        }
        yield removed.build();
      }
      default -> {
        unpacker.skipValue(length - 1);
        yield withoutFields(type);
      }
    };
  }

  private static final String[] STORED_ORDER = {
    "type",
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window"
  };

  private static final String[] REMOVED_ORDER = {"type", "block_hashes", "medium", "group_idx"};

  private KvEvent named() throws IOException {
    int length = mapLength();
    int start = consumed();
    int left = length;
    String type = null;
    while (left > 0 && type == null) {
      left--;
      if (text().equals("type")) {
        type = text();
      } else {
        unpacker.skipValue();
      }
    }
    if (type == null) {
      throw new Refused(Kind.MISSING_FIELD, "event without a type " + where());
    }
    if (left < length - 1) {
      // The type decides how the other fields are read, and it stood behind some of them.
      unpacker.reset(new ArrayBufferInput(payload, start, payload.length - start));
      base = start;
      left = length;
    }
    return switch (type) {
      case "BlockStored" -> {
        Stored stored = new Stored();
        for (; left > 0; left--) {
          storedField(stored, text());
        }
        yield stored.build();
      }
      case "BlockRemoved" -> {
        Removed removed = new Removed();
        for (; left > 0; left--) {
          removedField(removed, text());
        }
        yield removed.build();
      }
      default -> {
        for (; left > 0; left--) {
          unpacker.skipValue(2);
        }
        yield withoutFields(type);
      }
    };
  }

  private static KvEvent withoutFields(String type) {
    return type.equals("AllBlocksCleared")
        ? new KvEvent.AllBlocksCleared()
        : new KvEvent.Unknown(type.length() > 64 ? type.substring(0, 64) : type);
  }

  private void storedField(Stored stored, String name) throws IOException {
    switch (name) {
      case "block_hashes" -> stored.hashes = hashes();
      case "parent_block_hash" -> {
        stored.hasParent = !unpacker.tryUnpackNil();
        stored.parent = stored.hasParent ? hash() : 0;
      }
      case "token_ids" -> stored.tokens = tokens();
      case "block_size" -> stored.blockSize = count(0);
      case "lora_id" -> stored.loraId = unpacker.tryUnpackNil() ? null : unpacker.unpackLong();
      case "lora_name" -> stored.loraName = nullableText();
      case "cache_salt" -> stored.cacheSalt = nullableText();
      case "medium" -> stored.medium = nullableText();
      case "locality" -> stored.isRemote = "REMOTE".equals(nullableText());
      case "extra_keys" -> stored.extras = extras();
      case "group_idx" -> stored.group = count(KvEvent.NO_GROUP);
      case "kv_cache_spec_kind" -> {
        String kind = nullableText();
        stored.kind = kind == null ? GroupKind.UNSTATED : GroupKind.ofSpec(kind);
      }
      case "kv_cache_spec_sliding_window" -> stored.windowTokens = count(0);
      default -> unpacker.skipValue();
    }
  }

  private void removedField(Removed removed, String name) throws IOException {
    switch (name) {
      case "block_hashes" -> removed.hashes = hashes();
      case "medium" -> removed.medium = nullableText();
      case "locality" -> removed.isRemote = "REMOTE".equals(nullableText());
      case "group_idx" -> removed.group = count(KvEvent.NO_GROUP);
      default -> unpacker.skipValue();
    }
  }

  private long[] hashes() throws IOException {
    if (unpacker.tryUnpackNil()) {
      return NO_HASHES;
    }
    int length = arrayLength();
    long[] hashes = new long[length];
    for (int i = 0; i < length; i++) {
      hashes[i] = hash();
    }
    return hashes;
  }

  /**
   * An engine hash: vLLM's unsigned and SGLang's signed 64-bit integers keep their bits, digests as
   * bytes keep the last eight, which is what vLLM's integer form shows of them (0.32 {@code
   * v1/core/kv_cache_utils.py}).
   */
  private long hash() throws IOException {
    MessageFormat format = unpacker.getNextFormat();
    if (format == MessageFormat.UINT64) {
      unpacker.readPayload(scratch); // unpackLong refuses the upper half of the range
      return longAt(scratch, 1, 8);
    }
    return switch (format.getValueType()) {
      case INTEGER -> unpacker.unpackLong();
      case BINARY -> {
        int length = unpacker.unpackBinaryHeader();
        if (length == 0) {
          throw new Refused(Kind.RANGE, "empty block hash " + where());
        }
        byte[] digest = bytes(length);
        int last = Math.min(8, length);
        yield longAt(digest, length - last, last);
      }
      default -> throw new Refused(Kind.TYPE, "block hash is neither integer nor bytes " + where());
    };
  }

  private static long longAt(byte[] bytes, int from, int length) {
    long value = 0;
    for (int i = 0; i < length; i++) {
      value = value << 8 | (bytes[from + i] & 0xFF);
    }
    return value;
  }

  private int[] tokens() throws IOException {
    if (unpacker.tryUnpackNil()) {
      return NO_TOKENS;
    }
    int length = arrayLength();
    int[] tokens = new int[length];
    for (int i = 0; i < length; i++) {
      tokens[i] = unpacker.unpackInt();
    }
    return tokens;
  }

  /**
   * Per block null or a list of strings, {@code [identifier, offset]} pairs ({@link
   * KvEvent.MediaRef}) and others.
   */
  private List<@Nullable List<Object>> extras() throws IOException {
    if (unpacker.tryUnpackNil()) {
      return List.of();
    }
    int length = arrayLength();
    List<@Nullable List<Object>> blocks = new ArrayList<>(Math.min(length, 1024));
    boolean hasAny = false;
    for (int i = 0; i < length; i++) {
      spend(PLACE_BYTES);
      if (unpacker.tryUnpackNil()) {
        blocks.add(null);
        continue;
      }
      hasAny = true;
      int items = arrayLength();
      if (items == 0) {
        blocks.add(null); // says nothing either
        continue;
      }
      spend(LIST_BYTES);
      List<Object> block = new ArrayList<>(Math.min(items, 16));
      for (int j = 0; j < items; j++) {
        spend(ITEM_BYTES);
        block.add(extra());
      }
      blocks.add(block);
    }
    return hasAny ? blocks : List.of();
  }

  private Object extra() throws IOException {
    return switch (unpacker.getNextFormat().getValueType()) {
      case STRING -> text();
      case ARRAY -> {
        int length = arrayLength();
        if (length != 2 || !unpacker.getNextFormat().getValueType().isStringType()) {
          unpacker.skipValue(length);
          yield Opaque.OPAQUE;
        }
        String identifier = text();
        if (!unpacker.getNextFormat().getValueType().isIntegerType()) {
          unpacker.skipValue();
          yield Opaque.OPAQUE;
        }
        yield new KvEvent.MediaRef(identifier, unpacker.unpackInt());
      }
      default -> {
        unpacker.skipValue();
        yield Opaque.OPAQUE;
      }
    };
  }

  private int arrayLength() throws IOException {
    int length = unpacker.unpackArrayHeader();
    if (length > payload.length - consumed()) { // every element has at least one byte
      throw new Refused(Kind.TRUNCATED, "array of " + length + " elements " + where());
    }
    return length;
  }

  private int mapLength() throws IOException {
    int length = unpacker.unpackMapHeader();
    if (length > (payload.length - consumed()) / 2) {
      throw new Refused(Kind.TRUNCATED, "map of " + length + " pairs " + where());
    }
    return length;
  }

  /** A non-negative int, or {@code absent} for nil. */
  private int count(int absent) throws IOException {
    if (unpacker.tryUnpackNil()) {
      return absent;
    }
    int value = unpacker.unpackInt();
    if (value < 0) {
      throw new Refused(Kind.RANGE, "negative count " + where());
    }
    return value;
  }

  private @Nullable String nullableText() throws IOException {
    return unpacker.tryUnpackNil() ? null : text();
  }

  private String text() throws IOException {
    int length = unpacker.unpackRawStringHeader();
    if (length > MAX_TEXT_BYTES) {
      throw new Refused(
          Kind.TOO_LARGE, "text of " + length + " bytes, limit " + MAX_TEXT_BYTES + ", " + where());
    }
    if (length > payload.length - consumed()) {
      throw new Refused(Kind.TRUNCATED, "text of " + length + " bytes " + where());
    }
    if (length > TextCache.MAX_BYTES) {
      spend(length);
      return new String(bytes(length), StandardCharsets.UTF_8);
    }
    unpacker.readPayload(texts.bytes, 0, length);
    return texts.intern(length);
  }

  private byte[] bytes(int length) throws IOException {
    if (length > payload.length - consumed()) {
      throw new Refused(Kind.TRUNCATED, "byte string of " + length + " bytes " + where());
    }
    byte[] bytes = new byte[length];
    unpacker.readPayload(bytes);
    return bytes;
  }

  private void spend(int bytes) {
    budget -= bytes;
    if (budget < 0) {
      throw new Refused(Kind.TOO_LARGE, "more objects than its length allows " + where());
    }
  }

  private int consumed() {
    return base + (int) unpacker.getTotalReadBytes();
  }

  private String where() {
    return "before byte " + consumed() + " of " + payload.length;
  }

  /** Field names and most values are the same few words in every event: one String for each. */
  private static final class TextCache {
    static final int MAX_BYTES = 48;
    final byte[] bytes = new byte[MAX_BYTES];
    private final byte[][] seenBytes = new byte[256][];
    private final String[] seen = new String[256];

    String intern(int length) {
      int hash = length;
      for (int i = 0; i < length; i++) {
        hash = hash * 31 + bytes[i];
      }
      int slot = (hash ^ hash >>> 8 ^ hash >>> 16) & 255;
      byte[] known = seenBytes[slot];
      if (known != null && Arrays.equals(known, 0, known.length, bytes, 0, length)) {
        return seen[slot];
      }
      String text = new String(bytes, 0, length, StandardCharsets.UTF_8);
      seenBytes[slot] = Arrays.copyOf(bytes, length);
      seen[slot] = text;
      return text;
    }
  }

  private enum Opaque {
    OPAQUE
  }

  /** Fields of a stored event while they come in. */
  private static final class Stored {
    long @Nullable [] hashes;
    boolean hasParent;
    long parent;
    int[] tokens = NO_TOKENS;
    int blockSize;
    @Nullable Long loraId;
    @Nullable String loraName;
    @Nullable String cacheSalt;
    @Nullable String medium;
    boolean isRemote;
    List<@Nullable List<Object>> extras = List.of();
    int group = KvEvent.NO_GROUP;
    GroupKind kind = GroupKind.UNSTATED;
    int windowTokens;

    KvEvent build() {
      if (hashes == null) {
        throw new Refused(Kind.MISSING_FIELD, "BlockStored without block_hashes");
      }
      return new KvEvent.BlockStored(
          hashes,
          hasParent,
          parent,
          tokens,
          blockSize,
          loraName,
          loraId,
          cacheSalt,
          interpretedExtras(),
          isRemote ? Tier.STORAGE : Tier.ofMedium(medium),
          group,
          kind,
          windowTokens);
    }

    private List<KvEvent.Extras> interpretedExtras() {
      if (extras.isEmpty()) {
        return List.of();
      }
      List<KvEvent.Extras> all = new ArrayList<>(extras.size());
      for (int i = 0; i < extras.size(); i++) {
        List<Object> block = extras.get(i);
        all.add(block == null ? KvEvent.Extras.NONE : interpreted(block, i == 0 && !hasParent));
      }
      return all;
    }

    /**
     * The items are untagged. A string is the adapter's name when it comes first and equals it;
     * else the salt, which only a chain's first block has; else, in vLLM 0.17 and 0.18, a media
     * item without its position.
     */
    private KvEvent.Extras interpreted(List<Object> items, boolean isFirstOfChain) {
      String salt = null;
      List<KvEvent.MediaRef> media = new ArrayList<>();
      boolean isOpaque = false;
      boolean startsWithAdapter = !items.isEmpty() && items.getFirst().equals(loraName);
      for (Object item : startsWithAdapter ? items.subList(1, items.size()) : items) {
        if (item instanceof KvEvent.MediaRef reference) {
          media.add(reference);
        } else if (item instanceof String text && isFirstOfChain && salt == null) {
          salt = text;
        } else {
          isOpaque = true;
        }
      }
      return new KvEvent.Extras(salt, media, isOpaque);
    }
  }

  /** Fields of a removed event while they come in. */
  private static final class Removed {
    long @Nullable [] hashes;
    @Nullable String medium;
    boolean isRemote;
    int group = KvEvent.NO_GROUP;

    KvEvent build() {
      if (hashes == null) {
        throw new Refused(Kind.MISSING_FIELD, "BlockRemoved without block_hashes");
      }
      return new KvEvent.BlockRemoved(
          hashes, isRemote ? Tier.STORAGE : Tier.ofMedium(medium), group);
    }
  }

  /** Leaves the reader from any depth; turned into a value at its top. */
  private static final class Refused extends RuntimeException {
    final Kind kind;
    final String detail;

    Refused(Kind kind, String detail) {
      super(detail, null, false, false);
      this.kind = kind;
      this.detail = detail;
    }
  }
}
