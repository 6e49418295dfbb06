// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache.vllm;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.kvcache.TestJson;
import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher.Algorithm;
import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher.Layout;
import io.kvoy.scoring.kvcache.vllm.VllmBlockHasher.Prompt;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class VllmBlockHasherTest {

  private static final HexFormat HEX = HexFormat.of();

  record Vector(String id, Map<String, Object> row) {
    @Override
    public String toString() {
      return id;
    }
  }

  static Stream<Vector> current() {
    return vectors("block-hashes.jsonl");
  }

  static Stream<Vector> legacy() {
    return vectors("block-hashes-legacy-keys.jsonl");
  }

  private static Stream<Vector> vectors(String file) {
    List<Map<String, Object>> rows = TestJson.lines(file);
    assertThat(rows).hasSizeGreaterThan(15);
    return rows.stream().map(row -> new Vector(TestJson.text(row.get("id")), row));
  }

  @ParameterizedTest
  @MethodSource("current")
  void HASH_02_everyVectorOfVllmIsReproduced(Vector vector) {
    Map<String, Object> row = vector.row();
    assertThat(digests(row, Layout.TAGGED, prompt(row))).isEqualTo(hashes(row));
    assertThat(eventHashes(row, Layout.TAGGED, prompt(row)))
        .isEqualTo(
            TestJson.asList(row.get("event_hashes_int")).stream()
                .map(text -> Long.parseUnsignedLong((String) text))
                .toList());
  }

  @ParameterizedTest
  @MethodSource("legacy")
  void HASH_02_vectorsWithTheKeyLayoutsOfOlderReleasesAreReproduced(Vector vector) {
    String kind = vector.id().replaceFirst("legacy-[^-]+-", "");
    VllmBlockHasher.Adapter adapter = new VllmBlockHasher.Adapter("lora-a", 1, "/adapters/a");
    List<VllmBlockHasher.Media> image = List.of(new VllmBlockHasher.Media("img-0f3a", 5, 20));
    int[] ids = TestJson.ints(vector.row().get("token_ids"));
    Prompt plain = Prompt.of(ids, null);
    List<String> expected = hashes(vector.row());

    switch (kind) {
      case "none" -> {
        for (Layout layout : Layout.values()) {
          assertThat(digests(vector.row(), layout, plain)).isEqualTo(expected);
        }
      }
      case "salt" -> {
        Prompt salted = Prompt.of(ids, "tenant-7");
        assertThat(digests(vector.row(), Layout.UNTAGGED, salted)).isEqualTo(expected);
        assertThat(digests(vector.row(), Layout.BARE_MEDIA, salted)).isEqualTo(expected);
        assertThat(digests(vector.row(), Layout.TAGGED, salted)).isNotEqualTo(expected);
      }
      case "lora-name" ->
          assertThat(
                  digests(
                      vector.row(),
                      Layout.BARE_MEDIA,
                      new Prompt(ids, adapter, null, List.of(), null)))
              .isEqualTo(expected);
      case "lora-id" ->
          assertThat(
                  digests(
                      vector.row(),
                      Layout.ADAPTER_NUMBER,
                      new Prompt(ids, adapter, null, List.of(), null)))
              .isEqualTo(expected);
      case "mm" ->
          assertThat(
                  digests(
                      vector.row(), Layout.BARE_MEDIA, new Prompt(ids, null, null, image, null)))
              .isEqualTo(expected);
      case "mm-offset" ->
          assertThat(
                  digests(vector.row(), Layout.UNTAGGED, new Prompt(ids, null, null, image, null)))
              .isEqualTo(expected);
      default -> throw new AssertionError("vector of an unknown kind " + vector.id());
    }
  }

  @Test
  void HASH_01_goldenVectorsOfTheFailureCasesAreReproduced() {
    List<Object> vectors =
        TestJson.asList(
            TestJson.object(TestJson.resource("cases/hash-golden-dev.json")).get("vectors"));
    int checked = 0;
    for (Object vector : vectors) {
      Map<String, Object> row = TestJson.asObject(vector);
      int[] ids =
          TestJson.asList(row.get("blocks")).stream()
              .flatMapToInt(block -> java.util.Arrays.stream(TestJson.ints(block)))
              .toArray();
      VllmBlockHasher hasher = hasher(row, Layout.TAGGED);
      Object seed = row.get("PYTHONHASHSEED");
      byte[] none =
          hasher.noneHash(seed == null ? VllmBlockHasher.DEFAULT_SEED : TestJson.text(seed));
      assertThat(HEX.formatHex(none)).isEqualTo(row.get("none_hash"));
      if (row.get("extra_keys") == null) {
        assertThat(
                hasher
                    .digests(none, Prompt.of(ids, null), TestJson.integer(row.get("block_size")))
                    .stream()
                    .map(HEX::formatHex)
                    .toList())
            .isEqualTo(row.get("hash_hex"));
        checked++;
      }
    }
    assertThat(checked).isGreaterThanOrEqualTo(6);
  }

  @Test
  void xxh3EqualsTheReferenceImplementationInEveryLengthClass() {
    List<String> lines = TestJson.resource("xxh3-128.csv").lines().toList();
    assertThat(lines).hasSizeGreaterThan(30);
    for (String line : lines) {
      int comma = line.indexOf(',');
      int length = Integer.parseInt(line.substring(0, comma));
      byte[] bytes = new byte[length + 3];
      for (int i = 0; i < length; i++) {
        bytes[i] = (byte) (i * 151 + length * 7 + (i >> 3));
      }
      assertThat(HEX.formatHex(Xxh3.digest128(bytes, length)))
          .as("%s bytes", length)
          .isEqualTo(line.substring(comma + 1));
    }
  }

  private static VllmBlockHasher hasher(Map<String, Object> row, Layout layout) {
    return new VllmBlockHasher(
        Objects.requireNonNull(Algorithm.ofOption(TestJson.text(row.get("algo")))), layout);
  }

  private static List<byte[]> rawDigests(Map<String, Object> row, Layout layout, Prompt prompt) {
    VllmBlockHasher hasher = hasher(row, layout);
    byte[] none = HEX.parseHex(TestJson.text(row.get("none_hash")));
    Object seed = row.get("pythonhashseed");
    if (seed != null || TestJson.text(row.get("algo")).startsWith("sha256")) {
      assertThat(hasher.noneHash(seed == null ? VllmBlockHasher.DEFAULT_SEED : TestJson.text(seed)))
          .isEqualTo(none);
    }
    return hasher.digests(none, prompt, TestJson.integer(row.get("block_size")));
  }

  private static List<String> digests(Map<String, Object> row, Layout layout, Prompt prompt) {
    return rawDigests(row, layout, prompt).stream().map(HEX::formatHex).toList();
  }

  private static List<Long> eventHashes(Map<String, Object> row, Layout layout, Prompt prompt) {
    return rawDigests(row, layout, prompt).stream().map(VllmBlockHasher::eventHash).toList();
  }

  private static List<String> hashes(Map<String, Object> row) {
    return TestJson.asList(row.get("hashes")).stream().map(hash -> (String) hash).toList();
  }

  private static Prompt prompt(Map<String, Object> row) {
    int[] ids = TestJson.ints(row.get("token_ids"));
    VllmBlockHasher.Adapter adapter = null;
    if (row.get("lora") instanceof Map<?, ?> lora) {
      adapter =
          new VllmBlockHasher.Adapter(
              TestJson.text(lora.get("name")),
              TestJson.integer(lora.get("id")),
              TestJson.text(lora.get("path")));
    }
    List<VllmBlockHasher.Media> media = List.of();
    if (row.get("mm") instanceof List<?> items) {
      media =
          items.stream()
              .map(TestJson::asObject)
              .map(
                  item ->
                      new VllmBlockHasher.Media(
                          TestJson.text(item.get("identifier")),
                          TestJson.integer(item.get("offset")),
                          TestJson.integer(item.get("length"))))
              .toList();
    }
    return new Prompt(ids, adapter, (String) row.get("cache_salt"), media, embeddings(row));
  }

  /** float32 values 0, 1, 2, … row-major. */
  private static VllmBlockHasher.@Nullable Embeddings embeddings(Map<String, Object> row) {
    if (!(row.get("prompt_embeds") instanceof Map<?, ?> tensor)) {
      return null;
    }
    int[] shape = TestJson.ints(tensor.get("shape"));
    ByteBuffer data = ByteBuffer.allocate(4 * shape[0] * shape[1]).order(ByteOrder.LITTLE_ENDIAN);
    for (int i = 0; i < shape[0] * shape[1]; i++) {
      data.putFloat(i);
    }
    return new VllmBlockHasher.Embeddings(data.array(), 4 * shape[1]);
  }
}
