// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.tokenizer.LocalTokenizers;
import io.kvoy.tokenizer.files.FolderRead;
import io.kvoy.tokenizer.files.TokenizerFolder;
import io.kvoy.tokenizer.files.TokenizerFolderReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SegmentCacheTest {

  private static final String[] PIECES = {
    "Hello there, how are you?",
    " ",
    "\n",
    "\n\n",
    "e\u0301",
    "\u0301",
    "I'm fine",
    "'s",
    "12345",
    "\u4F60\u597D",
    "\uD83D\uDE42",
    "<|im",
    "_end|>",
    "<",
    ">",
    "x".repeat(70),
    "The quick brown fox. ".repeat(6),
    "\t\t"
  };

  @TempDir Path folder;
  private final AtomicLong ticks = new AtomicLong();
  private final List<String> encoded = Collections.synchronizedList(new ArrayList<>());

  /** One id per character, 7 for the token. */
  private final TextEncoder characters =
      (text, _) -> {
        encoded.add(text);
        return text.replace("<t>", "\u0007").chars().toArray();
      };

  @ParameterizedTest
  @ValueSource(strings = {"qwen3", "llama3_1", "gemma3", "deepseek_v3", "gptoss"})
  void idsEqualThoseOfTheWholeText(String family) {
    TokenizerFolder tokenizer = LocalTokenizers.folder(family);
    List<String> tokens = new ArrayList<>();
    tokenizer.addedTokens().forEach(token -> tokens.add(token.content()));
    DjlTextEncoder whole = LocalTokenizers.djl(family);
    var cache =
        new SegmentCache(
            whole,
            CutPoints.of(tokenizer).orElseThrow(),
            PostProcessor.read(tokenizer.pipeline().postProcessor()).orElseThrow(),
            60_000,
            ticks::incrementAndGet);
    var random = new SplittableRandom(3);
    List<String> conversations = new ArrayList<>(List.of(""));
    for (int i = 0; i < 600; i++) {
      // Goes on from an earlier text, or from a part of one, so that nodes are hit, split and
      // extended.
      String earlier = conversations.get(random.nextInt(conversations.size()));
      int kept = random.nextInt(3) == 0 ? random.nextInt(earlier.length() + 1) : earlier.length();
      var text = new StringBuilder(wellFormed(earlier.substring(0, kept)));
      for (int n = random.nextInt(12); n > 0; n--) {
        text.append(
            random.nextInt(3) == 0
                ? tokens.get(random.nextInt(tokens.size()))
                : PIECES[random.nextInt(PIECES.length)]);
      }
      if (text.length() < 6000) {
        conversations.add(text.toString());
      }
      boolean special = random.nextInt(8) == 0;
      assertThat(cache.encode(text.toString(), special))
          .isEqualTo(whole.encode(text.toString(), special));
      assertThat(cache.bytes()).isEqualTo(cache.countedBytes()).isLessThanOrEqualTo(60_000);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"qwen3", "llama3_1", "gemma3", "deepseek_v3"})
  void idsOfPartsEqualThoseOfTheWholeText(String family) {
    TokenizerFolder tokenizer = LocalTokenizers.folder(family);
    List<String> tokens = new ArrayList<>();
    tokenizer.addedTokens().forEach(token -> tokens.add(token.content()));
    DjlTextEncoder whole = LocalTokenizers.djl(family);
    var cache =
        new SegmentCache(whole, CutPoints.of(tokenizer).orElseThrow(), PostProcessor.NONE, 60_000);
    var random = new SplittableRandom(4);
    List<List<String>> earlier = new ArrayList<>(List.of(List.of("")));
    List<EncodedText> known = new ArrayList<>();
    for (int i = 0; i < 400; i++) {
      List<String> parts = new ArrayList<>(earlier.get(random.nextInt(earlier.size())));
      if (random.nextInt(4) == 0 && !parts.isEmpty()) {
        parts.set(random.nextInt(parts.size()), PIECES[random.nextInt(PIECES.length)]);
      }
      for (int n = random.nextInt(6); n > 0; n--) {
        // A special token may lie across parts.
        String token = tokens.get(random.nextInt(tokens.size()));
        int cut = random.nextInt(token.length() + 1);
        parts.add(PIECES[random.nextInt(PIECES.length)] + token.substring(0, cut));
        parts.add(token.substring(cut));
      }
      if (parts.size() < 40) {
        earlier.add(parts);
      }
      EncodedText before = known.isEmpty() ? null : known.get(random.nextInt(known.size()));
      int[] expected = whole.encode(String.join("", parts), false);

      EncodedText text = cache.encode(parts, before);

      assertThat(text == null ? null : text.ids().toArray()).isEqualTo(expected);
      if (text != null && before != null) {
        assertThat(
                Arrays.mismatch(
                    text.ids().toArray(),
                    0,
                    text.sharedIds(),
                    before.ids().toArray(),
                    0,
                    text.sharedIds()))
            .isEqualTo(-1);
      }
      if (text != null) {
        known.add(text);
      }
    }
    assertThat(known).anyMatch(text -> text.sharedIds() > 0);
  }

  private static String wellFormed(String text) {
    return !text.isEmpty() && Character.isHighSurrogate(text.charAt(text.length() - 1))
        ? text.substring(0, text.length() - 1)
        : text;
  }

  @Test
  void theNextTurnEncodesOnlyWhatIsNew() throws IOException {
    SegmentCache cache = cache(1 << 20);
    String first = "a".repeat(100) + "<t>" + "b".repeat(100) + "<t>assistant";
    cache.encode(first, false);
    encoded.clear();

    int[] ids = cache.encode(first + " answers<t>", false);

    assertThat(encoded).containsExactly("assistant answers<t>");
    assertThat(ids).isEqualTo(characters.encode(first + " answers<t>", false));
  }

  @Test
  void textsThatDivergeShareWhatTheyHaveInCommon() throws IOException {
    SegmentCache cache = cache(1 << 20);
    String system = "s".repeat(100) + "<t>";
    cache.encode(system + "user one".repeat(20) + "<t>", false);
    encoded.clear();

    cache.encode(system + "user two".repeat(20) + "<t>", false);
    assertThat(encoded).containsExactly("user two".repeat(20) + "<t>");
    encoded.clear();

    cache.encode(system + "user one".repeat(20) + "<t>", false);
    cache.encode(system + "user two".repeat(20) + "<t>", false);
    assertThat(encoded).isEmpty();
  }

  @Test
  void cutPointsCloseToEachOtherAreNotKept() throws IOException {
    SegmentCache cache = cache(1 << 20);

    cache.encode("<t>".repeat(100), false);

    assertThat(encoded).extracting(String::length).containsExactly(66, 66, 66, 66, 36);
  }

  @Test
  void whatWasNotUsedForLongestGoesFirst() throws IOException {
    SegmentCache cache = cache(10_000);
    String often = "o".repeat(100) + "<t>";
    for (int i = 0; i < 100; i++) {
      cache.encode((char) ('A' + i) + "r".repeat(100) + "<t>", false);
      cache.encode(often, false);
      assertThat(cache.bytes()).isLessThanOrEqualTo(10_000);
    }

    assertThat(encoded.stream().filter(often::equals)).hasSize(1);
  }

  @Test
  void aTextLargerThanItsShareIsNotKept() throws IOException {
    SegmentCache cache = cache(10_000);

    cache.encode("x".repeat(5000) + "<t>", false);

    assertThat(cache.bytes()).isZero();
  }

  @Test
  void PARSE_05_aLoneSurrogateIsRefusedAndNothingIsKept() throws IOException {
    var cache =
        new SegmentCache(
            (text, _) -> text.indexOf('\uD83D') < 0 ? new int[text.length()] : null,
            cutPoints(),
            PostProcessor.NONE,
            1 << 20);

    assertThat(cache.encode("x".repeat(100) + "<t>" + "y".repeat(100) + "\uD83D<t>", false))
        .isNull();
    assertThat(cache.bytes()).isZero();
  }

  @Test
  void specialTokensGoAroundTheWhole() throws IOException {
    var cache =
        new SegmentCache(
            characters, cutPoints(), new PostProcessor(List.of(1, 2), List.of(3)), 1 << 20);

    assertThat(cache.encode("ab", true)).containsExactly(1, 2, 'a', 'b', 3);
    assertThat(cache.encode("ab", false)).containsExactly('a', 'b');
  }

  @Test
  void filesWhoseParsMightTouchEachOtherHaveNoCutPoints() throws IOException {
    record Row(String tokens, String preTokenizer, boolean cuts) {}
    String plain = "{\"id\":7,\"content\":\"<t>\"}";
    String byteLevel = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}";
    for (Row row :
        List.of(
            new Row(plain, "null", true),
            new Row(plain, byteLevel, true),
            new Row(
                plain,
                "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
                    + byteLevel
                    + "]}",
                true),
            new Row(plain, "{\"type\":\"Metaspace\",\"prepend_scheme\":\"never\"}", true),
            new Row(plain, "{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\"}", false),
            new Row(plain, "{\"type\":\"UnicodeScripts\"}", false),
            new Row("", "null", false),
            new Row("{\"id\":7,\"content\":\"<t>\",\"rstrip\":true}", "null", false),
            new Row("{\"id\":7,\"content\":\"<t>\",\"lstrip\":true}", "null", false),
            new Row("{\"id\":7,\"content\":\"<t>\",\"normalized\":true}", "null", false),
            new Row(plain + ",{\"id\":8,\"content\":\"w\",\"single_word\":true}", "null", false),
            new Row(plain + ",{\"id\":8,\"content\":\"<t>x\"}", "null", true),
            new Row(plain + ",{\"id\":8,\"content\":\"<t>\\n\",\"lstrip\":true}", "null", false))) {
      write(row.tokens, row.preTokenizer);
      assertThat(CutPoints.of(read()).isPresent()).as(row.toString()).isEqualTo(row.cuts);
    }
  }

  @Test
  void aTokenThatMayGrowIsNoCutPoint() throws IOException {
    write("{\"id\":7,\"content\":\"<t>\"},{\"id\":8,\"content\":\"<t>x\"}", "null");
    CutPoints cuts = CutPoints.of(read()).orElseThrow();

    assertThat(cuts.next("a<t>b<t>xc", 0, 0)).isEqualTo(9);
  }

  @Test
  void TOK_06_manyThreadsGetTheIdsOfTheWholeText()
      throws IOException, InterruptedException, ExecutionException {
    SegmentCache cache = cache(40_000);
    Callable<Boolean> conversations =
        () -> {
          var random = new SplittableRandom(Thread.currentThread().threadId());
          for (int i = 0; i < 300; i++) {
            var text = new StringBuilder();
            for (int turn = 0; turn < 8; turn++) {
              text.append((char) ('a' + random.nextInt(3))).append("z".repeat(70)).append("<t>");
              int[] expected = text.toString().replace("<t>", "\u0007").chars().toArray();
              if (!Arrays.equals(cache.encode(text.toString(), false), expected)) {
                return false;
              }
            }
          }
          return true;
        };

    try (var threads = Executors.newFixedThreadPool(4)) {
      for (Future<Boolean> run : threads.invokeAll(Collections.nCopies(4, conversations))) {
        assertThat(run.get()).isTrue();
      }
    }
    assertThat(cache.bytes()).isEqualTo(cache.countedBytes()).isLessThanOrEqualTo(40_000);
  }

  private SegmentCache cache(long maxBytes) throws IOException {
    return new SegmentCache(
        characters, cutPoints(), PostProcessor.NONE, maxBytes, ticks::incrementAndGet);
  }

  private CutPoints cutPoints() throws IOException {
    write("{\"id\":7,\"content\":\"<t>\"}", "null");
    Optional<CutPoints> cuts = CutPoints.of(read());
    return cuts.orElseThrow();
  }

  private void write(String tokens, String preTokenizer) throws IOException {
    Files.writeString(
        folder.resolve("tokenizer.json"),
        "{\"added_tokens\":[%s],\"pre_tokenizer\":%s,\"model\":{}}"
            .formatted(tokens, preTokenizer));
  }

  private TokenizerFolder read() {
    return ((FolderRead.Complete) TokenizerFolderReader.read(folder)).folder();
  }
}
