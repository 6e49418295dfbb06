// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.io.IOException;
import java.math.BigInteger;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessagePacker;

/**
 * Puts one batch of cache events into MessagePack, byte for byte as vLLM does ({@code
 * distributed/kv_events.py}): {@code [ts, [event…], data parallel rank]}. Thread-safe.
 *
 * @param format how an event itself is laid out
 * @param intHashes true: the last 8 digest bytes as an unsigned integer; false: the whole digest as
 *     bytes ({@code VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES})
 */
record KvEventEncoder(EventOptions.Format format, boolean intHashes) {
  private static final String MEDIUM = "GPU";
  private static final String SPEC_KIND = "full_attention";

  byte[] batch(double unixSeconds, List<KvEvent> events, int rank) {
    try (MessageBufferPacker out = MessagePack.newDefaultBufferPacker()) {
      out.packArrayHeader(3);
      out.packDouble(unixSeconds);
      out.packArrayHeader(events.size());
      for (KvEvent event : events) {
        switch (format) {
          case MAP -> map(out, event);
          case ARRAY -> array(out, event);
        }
      }
      out.packInt(rank);
      return out.toByteArray();
    } catch (IOException e) {
      throw new IllegalStateException("writing to memory failed", e);
    }
  }

  /** 0.24 and later: a map that starts with its type; fields at their default are left out. */
  private void map(MessagePacker out, KvEvent event) throws IOException {
    switch (event) {
      case KvEvent.Stored stored -> {
        String session = stored.sessionId();
        out.packMapHeader(session == null ? 11 : 12);
        out.packString("type");
        out.packString("BlockStored");
        out.packString("block_hashes");
        hashes(out, stored.hashes());
        out.packString("parent_block_hash");
        hash(out, stored.parent());
        out.packString("token_ids");
        ints(out, stored.tokenIds());
        out.packString("block_size");
        out.packInt(stored.blockSize());
        out.packString("lora_id");
        optional(out, stored.loraId());
        out.packString("medium");
        out.packString(MEDIUM);
        out.packString("lora_name");
        optional(out, stored.loraName());
        out.packString("extra_keys");
        extraKeys(out, stored.extraKeys());
        out.packString("group_idx");
        out.packInt(0);
        out.packString("kv_cache_spec_kind");
        out.packString(SPEC_KIND);
        if (session != null) {
          out.packString("session_id");
          out.packString(session);
        }
      }
      case KvEvent.Removed(Digest hash) -> {
        out.packMapHeader(4);
        out.packString("type");
        out.packString("BlockRemoved");
        out.packString("block_hashes");
        hashes(out, List.of(hash));
        out.packString("medium");
        out.packString(MEDIUM);
        out.packString("group_idx");
        out.packInt(0);
      }
      case KvEvent.AllCleared() -> {
        out.packMapHeader(1);
        out.packString("type");
        out.packString("AllBlocksCleared");
      }
    }
  }

  /** 0.23: the type, then the fields by position. Sessions came later and are not told. */
  private void array(MessagePacker out, KvEvent event) throws IOException {
    switch (event) {
      case KvEvent.Stored stored -> {
        out.packArrayHeader(11);
        out.packString("BlockStored");
        hashes(out, stored.hashes());
        hash(out, stored.parent());
        ints(out, stored.tokenIds());
        out.packInt(stored.blockSize());
        optional(out, stored.loraId());
        out.packString(MEDIUM);
        optional(out, stored.loraName());
        extraKeys(out, stored.extraKeys());
        out.packInt(0);
        out.packString(SPEC_KIND);
      }
      case KvEvent.Removed(Digest hash) -> {
        out.packArrayHeader(4);
        out.packString("BlockRemoved");
        hashes(out, List.of(hash));
        out.packString(MEDIUM);
        out.packInt(0);
      }
      case KvEvent.AllCleared() -> {
        out.packArrayHeader(1);
        out.packString("AllBlocksCleared");
      }
    }
  }

  private void hashes(MessagePacker out, List<Digest> hashes) throws IOException {
    out.packArrayHeader(hashes.size());
    for (Digest hash : hashes) {
      hash(out, hash);
    }
  }

  private void hash(MessagePacker out, @Nullable Digest hash) throws IOException {
    if (hash == null) {
      out.packNil();
    } else if (!intHashes) {
      out.packBinaryHeader(hash.bytes().length);
      out.writePayload(hash.bytes());
    } else if (hash.low64() >= 0) {
      out.packLong(hash.low64());
    } else {
      out.packBigInteger(new BigInteger(Long.toUnsignedString(hash.low64())));
    }
  }

  private static void ints(MessagePacker out, int[] values) throws IOException {
    out.packArrayHeader(values.length);
    for (int value : values) {
      out.packInt(value);
    }
  }

  private static void extraKeys(MessagePacker out, List<@Nullable List<String>> perBlock)
      throws IOException {
    out.packArrayHeader(perBlock.size());
    for (List<String> keys : perBlock) {
      if (keys == null) {
        out.packNil();
      } else {
        out.packArrayHeader(keys.size());
        for (String key : keys) {
          out.packString(key);
        }
      }
    }
  }

  private static void optional(MessagePacker out, @Nullable Integer value) throws IOException {
    if (value == null) {
      out.packNil();
    } else {
      out.packInt(value);
    }
  }

  private static void optional(MessagePacker out, @Nullable String value) throws IOException {
    if (value == null) {
      out.packNil();
    } else {
      out.packString(value);
    }
  }
}
