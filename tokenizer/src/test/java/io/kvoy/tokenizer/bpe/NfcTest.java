// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.tokenizer.LocalTokenizers;
import io.kvoy.tokenizer.encode.DjlTextEncoder;
import java.nio.charset.StandardCharsets;
import java.text.Normalizer;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class NfcTest {

  private static final int PROBES_PER_TEXT = 2000;

  private static @Nullable DjlTextEncoder reference;

  /** Its ids are the bytes of the normalized text. */
  @BeforeAll
  static void createReference() {
    String vocabulary =
        IntStream.range(0, 256)
            .mapToObj(b -> "\"<0x%02X>\":%d".formatted(b, b))
            .collect(Collectors.joining(","));
    reference =
        LocalTokenizers.createDjl(
            """
            {"version":"1.0","truncation":null,"padding":null,"added_tokens":[],
             "normalizer":{"type":"NFC"},"pre_tokenizer":null,"post_processor":null,"decoder":null,
             "model":{"type":"BPE","dropout":null,"unk_token":null,"fuse_unk":false,
              "continuing_subword_prefix":null,"end_of_word_suffix":null,"byte_fallback":true,
              "vocab":{%s},"merges":[]}}"""
                .formatted(vocabulary));
  }

  @AfterAll
  static void closeReference() {
    Objects.requireNonNull(reference).close();
  }

  @Test
  void everyCodePointAloneAndBesideMarksIsNormalizedAsByTheReference() {
    var probes = new ArrayList<String>();
    for (int codePoint = 1; codePoint <= Character.MAX_CODE_POINT; codePoint++) {
      int type = Character.getType(codePoint);
      if (type == Character.SURROGATE
          || type == Character.PRIVATE_USE
          || (type == Character.UNASSIGNED && codePoint > 0x20000)
          || codePoint == '\n') {
        continue;
      }
      String c = Character.toString(codePoint);
      probes.add(c);
      probes.add("a\u0345" + c + "\u0334e\u0301" + c + "\u0323\u0307");
    }
    assertSame(probes);
  }

  @Test
  void everyCanonicalDecompositionIsComposedAsByTheReference() {
    var probes = new ArrayList<String>();
    for (int codePoint = 0; codePoint <= Character.MAX_CODE_POINT; codePoint++) {
      String c = Character.toString(codePoint);
      String decomposed = Normalizer.normalize(c, Normalizer.Form.NFD);
      if (!decomposed.equals(c)) {
        int last = decomposed.offsetByCodePoints(decomposed.length(), -1);
        probes.add(decomposed);
        probes.add(decomposed + "\u0301\u0323");
        probes.add(decomposed.substring(0, last) + "\u0334" + decomposed.substring(last));
      }
    }
    assertSame(probes);
  }

  @Test
  void randomRunsOfMarksAndBasesAreNormalizedAsByTheReference() {
    int[] alphabet =
        IntStream.rangeClosed(0x20, 0x2FA1F)
            .filter(c -> Character.getType(c) != Character.SURROGATE)
            .filter(
                c ->
                    CodePointClasses.isMark(c)
                        || !Normalizer.isNormalized(Character.toString(c), Normalizer.Form.NFC)
                        || (c >= 0x1100 && c < 0x1200)
                        || c % 997 == 0)
            .toArray();
    var random = new SplittableRandom(11);
    var probes = new ArrayList<String>();
    for (int i = 0; i < 60_000; i++) {
      var probe = new StringBuilder();
      for (int n = random.nextInt(1, 9); n > 0; n--) {
        probe.appendCodePoint(alphabet[random.nextInt(alphabet.length)]);
      }
      probes.add(probe.toString());
    }
    assertSame(probes);
  }

  @Test
  void textThatIsCertainlyInFormCIsReturnedAsItIs() {
    for (String text : List.of("", "plain", "\u00E9", "\u4E2D\u6587 \uAC00", "\uD83D\uDE42")) {
      assertThat(Nfc.normalize(text)).isSameAs(text);
    }
  }

  /** Line feeds separate the probes; nothing composes with them. */
  private static void assertSame(List<String> probes) {
    for (int i = 0; i < probes.size(); i += PROBES_PER_TEXT) {
      List<String> some = probes.subList(i, Math.min(probes.size(), i + PROBES_PER_TEXT));
      String text = String.join("\n", some);
      String expected = normalizedByReference(text);
      if (!expected.equals(Nfc.normalize(text))) {
        assertThat(some.stream().map(Nfc::normalize).map(NfcTest::hex).toList())
            .isEqualTo(expected.lines().map(NfcTest::hex).toList());
      }
    }
  }

  private static String hex(String text) {
    return text.codePoints().mapToObj(Integer::toHexString).collect(Collectors.joining(" "));
  }

  private static String normalizedByReference(String text) {
    int[] ids = Objects.requireNonNull(Objects.requireNonNull(reference).encode(text, false));
    var utf8 = new byte[ids.length];
    for (int i = 0; i < ids.length; i++) {
      utf8[i] = (byte) ids[i];
    }
    return new String(utf8, StandardCharsets.UTF_8);
  }
}
