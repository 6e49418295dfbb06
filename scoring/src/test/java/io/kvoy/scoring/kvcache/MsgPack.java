// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;

/** Writes batches as vLLM 0.32 does. */
final class MsgPack {

  private MsgPack() {}

  static KvMessage.Published message(long sequence, double timestamp, KvEvent... events) {
    return new KvMessage.Published("kv@w@m", sequence, payload(timestamp, events));
  }

  static List<byte[]> frames(long sequence, byte[] payload) {
    return List.of(
        "kv@w@m".getBytes(StandardCharsets.UTF_8),
        ByteBuffer.allocate(8).putLong(sequence).array(),
        payload);
  }

  /** One line of the event files of the failure cases. */
  static KvMessage.Published message(Map<String, Object> line) {
    return new KvMessage.Published(
        TestJson.text(line.get("topic")), TestJson.integer(line.get("seq")), payload(line));
  }

  private static byte[] payload(Map<String, Object> line) {
    try (MessageBufferPacker packer = MessagePack.newDefaultBufferPacker()) {
      packer
          .packArrayHeader(3)
          .packDouble((Double) java.util.Objects.requireNonNull(line.get("ts")));
      pack(packer, line.get("events"));
      pack(packer, line.get("data_parallel_rank"));
      return packer.toByteArray();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void pack(MessageBufferPacker packer, @Nullable Object value) throws IOException {
    switch (value) {
      case Map<?, ?> map -> {
        packer.packMapHeader(map.size());
        for (Map.Entry<?, ?> entry : map.entrySet()) {
          pack(packer, entry.getKey());
          pack(packer, entry.getValue());
        }
      }
      case List<?> list -> {
        packer.packArrayHeader(list.size());
        for (Object item : list) {
          pack(packer, item);
        }
      }
      case String text -> packer.packString(text);
      case java.math.BigInteger number -> packer.packBigInteger(number);
      case null, default -> packer.packNil();
    }
  }

  static byte[] payload(double timestamp, KvEvent... events) {
    try (MessageBufferPacker packer = MessagePack.newDefaultBufferPacker()) {
      packer.packArrayHeader(3).packDouble(timestamp).packArrayHeader(events.length);
      for (KvEvent event : events) {
        switch (event) {
          case KvEvent.BlockStored stored -> {
            packer.packMapHeader(5).packString("type").packString("BlockStored");
            packer.packString("block_hashes");
            pack(packer, stored.hashes());
            packer.packString("parent_block_hash");
            if (stored.hasParent()) {
              packer.packLong(stored.parent());
            } else {
              packer.packNil();
            }
            packer.packString("token_ids").packArrayHeader(stored.tokens().length);
            for (int token : stored.tokens()) {
              packer.packInt(token);
            }
            packer.packString("block_size").packInt(stored.blockSize());
          }
          case KvEvent.BlockRemoved removed -> {
            packer.packMapHeader(2).packString("type").packString("BlockRemoved");
            packer.packString("block_hashes");
            pack(packer, removed.hashes());
          }
          case KvEvent.AllBlocksCleared _ ->
              packer.packMapHeader(1).packString("type").packString("AllBlocksCleared");
          case KvEvent.Unknown(String type) ->
              packer.packMapHeader(1).packString("type").packString(type);
        }
      }
      packer.packInt(0);
      return packer.toByteArray();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static void pack(MessageBufferPacker packer, long[] hashes) throws IOException {
    packer.packArrayHeader(hashes.length);
    for (long hash : hashes) {
      packer.packLong(hash);
    }
  }
}
