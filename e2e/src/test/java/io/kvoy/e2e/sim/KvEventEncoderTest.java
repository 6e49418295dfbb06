// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.inference.Json;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.msgpack.value.Value;

/** Event bytes and block names against vectors made with vLLM. */
class KvEventEncoderTest {

  private static Digest digest(int last) {
    byte[] bytes = new byte[32];
    bytes[31] = (byte) last;
    return new Digest(bytes);
  }

  private static KvEvent.Stored stored(
      int hash, @Nullable Integer loraId, @Nullable String lora, @Nullable String session) {
    return new KvEvent.Stored(
        List.of(digest(hash)),
        null,
        IntStream.range(100, 116).toArray(),
        16,
        loraId,
        lora,
        Arrays.asList((List<String>) null),
        session);
  }

  @Test
  void KVE_04_mapFormIsByteForByteThatOfTheRecordedCase() {
    byte[] ours =
        new KvEventEncoder(EventOptions.Format.MAP, true)
            .batch(
                1.5,
                List.of(
                    stored(11, null, null, null),
                    new KvEvent.Removed(digest(11)),
                    new KvEvent.AllCleared()),
                0);
    assertThat(HexFormat.of().formatHex(ours))
        .isEqualTo(Recording.resource("kve-map.msgpack.hex").strip());
  }

  @Test
  void KVE_04_arrayFormHasTheFieldsByPosition() {
    byte[] ours =
        new KvEventEncoder(EventOptions.Format.ARRAY, true)
            .batch(
                1.5,
                List.of(
                    stored(11, 3, "adapter", "s"),
                    new KvEvent.Removed(digest(12)),
                    new KvEvent.AllCleared()),
                2);
    Value batch = Recording.unpack(ours);
    assertThat(batch.toString())
        .isEqualTo(
            "[1.5,[[\"BlockStored\",[11],null,[100,101,102,103,104,105,106,107,108,109,110,111,112,113,114,115],16,3,\"GPU\",\"adapter\",[null],0,\"full_attention\"],"
                + "[\"BlockRemoved\",[12],\"GPU\",0],[\"AllBlocksCleared\"]],2]");
  }

  @Test
  void bigHashesAreUnsignedAndByteHashesWhole() {
    byte[] bytes = new byte[32];
    Arrays.fill(bytes, (byte) 0xfe);
    List<KvEvent> events = List.of(new KvEvent.Removed(new Digest(bytes)));
    byte[] ints = new KvEventEncoder(EventOptions.Format.MAP, true).batch(0, events, 0);
    byte[] whole = new KvEventEncoder(EventOptions.Format.MAP, false).batch(0, events, 0);
    assertThat(HexFormat.of().formatHex(ints)).contains("cffefefefefefefefe");
    assertThat(HexFormat.of().formatHex(whole)).contains("c420" + "fe".repeat(32));
  }

  static Stream<Json.Obj> hashVectors() {
    return Recording.lines("block-hashes-sha256-cbor.jsonl").stream();
  }

  @ParameterizedTest
  @MethodSource("hashVectors")
  void blockNamesAreVllms(Json.Obj vector) {
    String seed = Recording.string(vector, "pythonhashseed");
    BlockHasher hasher = new BlockHasher(seed.isEmpty() ? BlockHasher.DEFAULT_SEED : seed);
    assertThat(hasher.root()).hasToString(Recording.string(vector, "none_hash"));
    int[] tokens = Recording.ints(Objects.requireNonNull(vector.get("token_ids")));
    int size = Recording.number(vector, "block_size");
    List<Json> extras = ((Json.Arr) Objects.requireNonNull(vector.get("extra_keys"))).items();
    List<Json> hashes = ((Json.Arr) Objects.requireNonNull(vector.get("hashes"))).items();
    Digest parent = hasher.root();
    for (int i = 0; i < hashes.size(); i++) {
      List<List<String>> keys = null;
      if (extras.get(i) instanceof Json.Arr(List<Json> items)) {
        keys =
            items.stream()
                .map(
                    item ->
                        ((Json.Arr) item)
                            .items().stream().map(p -> ((Json.Str) p).value()).toList())
                .toList();
      }
      parent = hasher.next(parent, tokens, i * size, (i + 1) * size, keys);
      assertThat(parent).hasToString(((Json.Str) hashes.get(i)).value());
    }
  }
}
