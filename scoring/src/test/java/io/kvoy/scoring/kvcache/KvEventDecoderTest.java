// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;

class KvEventDecoderTest {

  private final KvEventDecoder decoder = new KvEventDecoder();

  private KvBatch decoded(byte[] payload) {
    KvDecode result = decoder.decode(payload);
    assertThat(result).isInstanceOf(KvDecode.Decoded.class);
    return ((KvDecode.Decoded) result).batch();
  }

  private KvDecodeError.Kind refused(byte[] payload) {
    KvDecode result = decoder.decode(payload);
    assertThat(result).isInstanceOf(KvDecodeError.class);
    return ((KvDecodeError) result).kind();
  }

  private static byte[] packed(Packing packing) throws Exception {
    try (MessageBufferPacker packer = MessagePack.newDefaultBufferPacker()) {
      packing.into(packer);
      return packer.toByteArray();
    }
  }

  private interface Packing {
    void into(MessageBufferPacker packer) throws Exception;
  }

  @Test
  void KVE_04_namedAndPositionalEventsDecodeToTheSameValues() {
    KvBatch named = decoded(Fleet.hex(TestJson.resource("cases/kve-map.msgpack.hex")));
    KvBatch positional = decoded(Fleet.hex(TestJson.resource("cases/kve-array.msgpack.hex")));

    assertThat(named.timestampSeconds()).isEqualTo(1.5);
    assertThat(named.dataParallelRank()).isZero();
    assertThat(named.events()).hasSize(3);
    KvEvent.BlockStored stored = (KvEvent.BlockStored) named.events().get(0);
    assertThat(stored.hashes()).containsExactly(11);
    assertThat(stored.hasParent()).isFalse();
    assertThat(stored.tokens()).isEqualTo(Fleet.ids(100, 16));
    assertThat(stored.blockSize()).isEqualTo(16);
    assertThat(stored.tier()).isEqualTo(Tier.GPU);
    assertThat(((KvEvent.BlockRemoved) named.events().get(1)).hashes()).containsExactly(11);
    assertThat(named.events().get(2)).isEqualTo(new KvEvent.AllBlocksCleared());
    assertThat(positional.dataParallelRank()).isZero();
    KvEvent.BlockStored old = (KvEvent.BlockStored) positional.events().get(0);
    assertThat(old)
        .usingRecursiveComparison()
        .ignoringFields("group", "kind") // younger than the positional form
        .isEqualTo(stored);
    assertThat(positional.events().get(2)).isEqualTo(named.events().get(2));
  }

  @Test
  void KVE_04_bothFormsMayStandInOneBatchAndUnknownPartsAreSkipped() throws Exception {
    byte[] payload =
        packed(
            p -> {
              p.packArrayHeader(5).packDouble(2.5).packArrayHeader(4);
              p.packArrayHeader(6).packString("BlockRemoved");
              p.packArrayHeader(1).packLong(7);
              p.packString("CPU").packInt(1).packString("LOCAL");
              p.packMapHeader(1).packString("x").packInt(1); // fields that come later
              p.packMapHeader(4).packString("future").packArrayHeader(1).packMapHeader(0);
              p.packString("block_hashes").packArrayHeader(1).packLong(8);
              p.packString("type").packString("BlockRemoved");
              p.packString("medium").packNil();
              p.packArrayHeader(3).packString("BlockMoved").packInt(1).packNil();
              p.packMapHeader(2).packString("type").packString("BlockFrozen");
              p.packString("block_hashes").packString("not a list");
              p.packInt(3).packString("more").packNil();
            });

    KvBatch batch = decoded(payload);

    assertThat(batch.dataParallelRank()).isEqualTo(3);
    assertThat(batch.events())
        .usingRecursiveComparison()
        .isEqualTo(
            List.of(
                new KvEvent.BlockRemoved(new long[] {7}, Tier.CPU, 1),
                new KvEvent.BlockRemoved(new long[] {8}, Tier.GPU, KvEvent.NO_GROUP),
                new KvEvent.Unknown("BlockMoved"),
                new KvEvent.Unknown("BlockFrozen")));
  }

  @Test
  void hashesOfAllFormsAreReducedToTheirLow64Bits() throws Exception {
    byte[] digest = new byte[32];
    Arrays.fill(digest, (byte) 0x11);
    digest[24] = (byte) 0xFF;
    byte[] payload =
        packed(
            p -> {
              p.packArrayHeader(2).packDouble(0).packArrayHeader(1);
              p.packArrayHeader(2).packString("BlockRemoved").packArrayHeader(5);
              p.packLong(-5); // SGLang's signed form
              p.packBigInteger(new java.math.BigInteger("18446744073709551615"));
              p.packBinaryHeader(32).writePayload(digest);
              p.packBinaryHeader(2).writePayload(new byte[] {1, 2});
              p.packInt(9);
            });

    KvEvent.BlockRemoved event = (KvEvent.BlockRemoved) decoded(payload).events().getFirst();

    assertThat(event.hashes()).containsExactly(-5, -1, 0xFF11_1111_1111_1111L, 0x0102, 9);
  }

  @Test
  void extraKeysAreToldApartByPositionAndAdapter() throws Exception {
    byte[] payload =
        packed(
            p -> {
              p.packArrayHeader(2).packDouble(0).packArrayHeader(1);
              p.packMapHeader(7).packString("type").packString("BlockStored");
              p.packString("extra_keys").packArrayHeader(4);
              p.packArrayHeader(3).packString("lora-a");
              p.packArrayHeader(2).packString("img").packInt(5);
              p.packString("tenant-7");
              p.packArrayHeader(2).packString("lora-a").packString("bare-image");
              p.packArrayHeader(1).packBinaryHeader(2).writePayload(new byte[] {1, 2});
              p.packNil();
              p.packString("block_hashes").packArrayHeader(4);
              p.packInt(1).packInt(2).packInt(3).packInt(4);
              p.packString("parent_block_hash").packNil();
              p.packString("token_ids").packArrayHeader(4);
              p.packInt(1).packInt(2).packInt(3).packInt(4);
              p.packString("block_size").packInt(1);
              p.packString("lora_name").packString("lora-a");
            });

    KvEvent.BlockStored event = (KvEvent.BlockStored) decoded(payload).events().getFirst();

    assertThat(event.extras())
        .containsExactly(
            new KvEvent.Extras("tenant-7", List.of(new KvEvent.MediaRef("img", 5)), false),
            new KvEvent.Extras(null, List.of(), true),
            new KvEvent.Extras(null, List.of(), true),
            KvEvent.Extras.NONE);
  }

  @Test
  void KVE_09_malformedMessagesAreValuesAndTheNextGoodOneIsRead() {
    List<KvDecodeError.Kind> kinds = new ArrayList<>();
    List<KvBatch> batches = new ArrayList<>();
    for (Map<String, Object> line : TestJson.lines("cases/kve-malformed.jsonl")) {
      List<byte[]> frames =
          TestJson.asList(line.get("frames_hex")).stream()
              .map(hex -> HexFormat.of().parseHex((String) hex))
              .toList();
      switch (KvMessage.ofPublished(frames)) {
        case KvDecodeError error -> kinds.add(error.kind());
        case KvMessage.ReplayEnd _ -> throw new AssertionError("not a replay");
        case KvMessage.Published message -> {
          switch (decoder.decode(message.payload())) {
            case KvDecodeError error -> kinds.add(error.kind());
            case KvDecode.Decoded(KvBatch batch) -> batches.add(batch);
          }
        }
      }
    }

    assertThat(kinds)
        .containsExactly(
            KvDecodeError.Kind.SEQUENCE_FRAME,
            KvDecodeError.Kind.SEQUENCE_FRAME,
            KvDecodeError.Kind.SEQUENCE_FRAME,
            KvDecodeError.Kind.FRAME_COUNT,
            KvDecodeError.Kind.TRUNCATED,
            KvDecodeError.Kind.TYPE,
            KvDecodeError.Kind.TYPE);
    assertThat(batches).hasSize(1);
    assertThat(((KvEvent.BlockStored) batches.getFirst().events().getFirst()).hashes())
        .containsExactly(11);
  }

  @Test
  void lengthsBeyondTheBytesAreRefusedBeforeAnythingIsAllocated() {
    assertThat(refused(Fleet.hex("92cb0000000000000000dd7fffffff")))
        .isEqualTo(KvDecodeError.Kind.TRUNCATED);
    // [0.0, [["BlockRemoved", array of 2^31-1]]]
    assertThat(refused(Fleet.hex("92cb00000000000000009192ac426c6f636b52656d6f766564dd7fffffff")))
        .isEqualTo(KvDecodeError.Kind.TRUNCATED);
    // [0.0, [{map of 2^31-1 pairs}]]
    assertThat(refused(Fleet.hex("92cb000000000000000091df7fffffff")))
        .isEqualTo(KvDecodeError.Kind.TRUNCATED);
    // [0.0, [[text of 2^32-1 bytes]]]
    assertThat(refused(Fleet.hex("92cb00000000000000009191dbffffffff")))
        .isEqualTo(KvDecodeError.Kind.TOO_LARGE);
    assertThat(refused(new byte[KvEventDecoder.MAX_PAYLOAD_BYTES + 1]))
        .isEqualTo(KvDecodeError.Kind.TOO_LARGE);
  }

  @Test
  void deepNestingInAnUnknownFieldIsSkippedWithoutRecursion() throws Exception {
    byte[] payload =
        packed(
            p -> {
              p.packArrayHeader(2).packDouble(0).packArrayHeader(1);
              p.packMapHeader(2).packString("type").packString("AllBlocksCleared");
              p.packString("deep");
              for (int i = 0; i < 200_000; i++) {
                p.packArrayHeader(1);
              }
              p.packNil();
            });

    assertThat(decoded(payload).events()).containsExactly(new KvEvent.AllBlocksCleared());
  }

  @Test
  void brokenBytesNeverThrow() {
    byte[] good = Fleet.hex(TestJson.resource("cases/kve-map.msgpack.hex"));
    Random random = new Random(7);
    for (int round = 0; round < 20_000; round++) {
      byte[] bytes = Arrays.copyOf(good, random.nextInt(good.length + 1));
      for (int i = random.nextInt(4); i > 0 && bytes.length > 0; i--) {
        bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
      }
      assertThat(decoder.decode(bytes)).isNotNull();
    }
  }

  /** SGLang 0.5.16: positional, signed hashes, one token a page unless told otherwise. */
  @Test
  void eventsOfSglangWithPagesOfOneTokenAreReadAndMatched() throws Exception {
    byte[] payload =
        packed(
            p -> {
              p.packArrayHeader(3).packDouble(1.0).packArrayHeader(2);
              p.packArrayHeader(6).packString("BlockStored").packArrayHeader(3);
              p.packLong(-9_000_000_000_000_000_000L).packLong(5).packLong(-7);
              p.packNil().packArrayHeader(3).packInt(11).packInt(12).packInt(13);
              p.packInt(1).packNil();
              p.packArrayHeader(3).packString("BlockRemoved").packArrayHeader(1).packLong(-7);
              p.packString("GPU");
              p.packNil();
            });
    KvBatch batch = decoded(payload);
    assertThat(batch.dataParallelRank()).isNull();
    assertThat(((KvEvent.BlockStored) batch.events().getFirst()).hashes())
        .containsExactly(-9_000_000_000_000_000_000L, 5, -7);
    assertThat(((KvEvent.BlockStored) batch.events().getFirst()).blockSize()).isOne();

    PrefixIndex index = new PrefixIndex(new PrefixIndexConfig(1, 1_000));
    WorkerBlocks blocks = index.open(Fleet.worker(0, 1), KvViewState.LIVE, KvCacheListener.NONE);
    blocks.apply(batch);
    PrefixMatch match = new PrefixMatch();
    index.lookup(BlockKeys.of(CacheIdentity.PLAIN, new int[] {11, 12, 13, 14}, 1), match);
    assertThat(match.cachedTokens(blocks.worker())).isEqualTo(2);
    assertThat(match.blockTokens(blocks.worker())).isOne();
  }

  /** SGLang 0.5.23: named fields, salt and adapter of their own, media of other names. */
  @Test
  void namedEventsOfSglangCarrySaltAndTier() throws Exception {
    byte[] payload =
        packed(
            p -> {
              p.packArrayHeader(3).packDouble(1.0).packArrayHeader(1);
              p.packMapHeader(8);
              p.packString("type").packString("BlockStored");
              p.packString("block_hashes").packArrayHeader(1).packLong(-3);
              p.packString("parent_block_hash").packNil();
              p.packString("token_ids").packArrayHeader(2).packInt(1).packInt(2);
              p.packString("block_size").packInt(2);
              p.packString("lora_name").packString("sql");
              p.packString("cache_salt").packString("s");
              p.packString("medium").packString("CPU_PINNED");
              p.packInt(1);
            });

    KvEvent.BlockStored stored = (KvEvent.BlockStored) decoded(payload).events().getFirst();

    assertThat(stored.cacheSalt()).isEqualTo("s");
    assertThat(stored.loraName()).isEqualTo("sql");
    assertThat(stored.tier()).isEqualTo(Tier.CPU);
    assertThat(stored.isDense()).isTrue();
  }

  /** {@code [1.0, [{type: BlockStored, block_hashes: [], extra_keys: [item, item, ...]}]]} */
  private static byte[] withExtraKeys(int count, String itemHex) {
    byte[] head =
        Fleet.hex(
            "92cb3ff00000000000009183"
                + "a474797065ab426c6f636b53746f726564"
                + "ac626c6f636b5f68617368657390"
                + "aa65787472615f6b657973dd"
                + String.format("%08x", count));
    byte[] item = Fleet.hex(itemHex);
    byte[] payload = java.util.Arrays.copyOf(head, head.length + count * item.length);
    for (int i = 0; i < count; i++) {
      System.arraycopy(item, 0, payload, head.length + i * item.length, item.length);
    }
    return payload;
  }

  @org.junit.jupiter.params.ParameterizedTest
  @org.junit.jupiter.params.provider.ValueSource(strings = {"90", "91c0", "91a161", "9190"})
  void objectsAreBoundedByTheLengthOfThePayload(String itemHex) {
    assertThat(new KvEventDecoder().decode(withExtraKeys(1_000_000, itemHex)))
        .isInstanceOfSatisfying(
            KvDecodeError.class,
            error -> assertThat(error.kind()).isEqualTo(KvDecodeError.Kind.TOO_LARGE));
  }

  @Test
  void realBatchesOfManySmallEventsAreWithinTheBound() {
    KvEvent[] events = new KvEvent[20_000];
    for (int i = 0; i < events.length; i++) {
      events[i] = i % 2 == 0 ? Fleet.removed(i) : new KvEvent.AllBlocksCleared();
    }

    assertThat(new KvEventDecoder().decode(MsgPack.payload(1, events)))
        .isInstanceOf(KvDecode.Decoded.class);
  }
}
