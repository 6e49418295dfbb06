// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import io.kvoy.tokenizer.encode.TextEncoder;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.LongSupplier;

/**
 * Compares an encoder with the reference before it may serve: ordinary texts in many scripts, every
 * added token, a sample of all code points, then random texts for as long as the budget lasts. One
 * difference is enough to say no.
 *
 * <p>Runs on the loader thread, once per load of a file.
 */
public final class DifferentialCheck {

  /** Random texts at least, however slow the machine. */
  private static final int MIN_RANDOM_TEXTS = 100;

  /** One code point in so many is looked at, from a random start. */
  private static final int CODE_POINT_STEP = 7;

  /** Last code point of planes 0 and 1; the planes above have Han alone and private use. */
  private static final int LAST_SAMPLED = 0x1FFFF;

  private static final int CODE_POINTS_PER_TEXT = 200;

  /** Gemma has 6,415 added tokens; more than this are looked at as a sample. */
  private static final int MAX_ADDED_TOKENS = 2000;

  private final TextEncoder candidate;
  private final TextEncoder reference;
  private final List<String> addedTokens;
  private final long seed;
  private int texts;
  private long tokens;

  private DifferentialCheck(
      TextEncoder candidate, TextEncoder reference, List<String> addedTokens, long seed) {
    this.candidate = candidate;
    this.reference = reference;
    this.addedTokens = List.copyOf(addedTokens);
    this.seed = seed;
  }

  /** What came out. */
  public sealed interface Verdict {

    /**
     * Equal ids on everything that was tried.
     *
     * @param texts texts tried
     * @param tokens ids compared
     */
    record Equal(int texts, long tokens) implements Verdict {}

    /**
     * Different ids at least once.
     *
     * @param stage which kind of text: {@code corpus}, {@code added_tokens}, {@code code_points} or
     *     {@code random}
     */
    record Different(String stage) implements Verdict {}
  }

  /**
   * Runs the check.
   *
   * @param addedTokens contents of the file's added tokens
   * @param seed for the random texts; the same seed tries the same ones
   * @param budget time for the random texts; the other stages take about 0.3 s more
   * @param nanoTime a clock such as {@code System::nanoTime}
   */
  public static Verdict run(
      TextEncoder candidate,
      TextEncoder reference,
      List<String> addedTokens,
      long seed,
      Duration budget,
      LongSupplier nanoTime) {
    return new DifferentialCheck(candidate, reference, addedTokens, seed).run(budget, nanoTime);
  }

  private Verdict run(Duration budget, LongSupplier nanoTime) {
    if (!sameOnCorpus()) {
      return new Verdict.Different("corpus");
    }
    if (!sameOnAddedTokens()) {
      return new Verdict.Different("added_tokens");
    }
    if (!sameOnCodePoints()) {
      return new Verdict.Different("code_points");
    }
    if (!sameOnRandomTexts(budget, nanoTime)) {
      return new Verdict.Different("random");
    }
    return new Verdict.Equal(texts, tokens);
  }

  private boolean sameOnCorpus() {
    for (String text : ProbeTexts.CORPUS) {
      if (!same(text, false) || !same(text, true)) {
        return false;
      }
    }
    return same("", false) && same("", true);
  }

  private boolean sameOnAddedTokens() {
    int step = Math.ceilDiv(Math.max(1, addedTokens.size()), MAX_ADDED_TOKENS);
    for (int i = 0; i < addedTokens.size(); i += step) {
      String token = addedTokens.get(i);
      if (!same("a " + token + " b" + token + token.substring(token.length() / 2), false)) {
        return false;
      }
    }
    return true;
  }

  private boolean sameOnCodePoints() {
    var text = new StringBuilder();
    int inText = 0;
    int first = new SplittableRandom(seed).nextInt(CODE_POINT_STEP);
    for (int codePoint = first; codePoint <= LAST_SAMPLED; codePoint += CODE_POINT_STEP) {
      if (Character.getType(codePoint) == Character.SURROGATE
          || Character.getType(codePoint) == Character.PRIVATE_USE
          || isUniform(codePoint)) {
        continue;
      }
      text.append('a').appendCodePoint(codePoint).append('b').appendCodePoint(codePoint);
      if (++inText == CODE_POINTS_PER_TEXT) {
        if (!same(text.toString(), false)) {
          return false;
        }
        text.setLength(0);
        inText = 0;
      }
    }
    return same(text.toString(), false);
  }

  /** Unified ideographs and Hangul syllables are all alike; the corpus has some. */
  private static boolean isUniform(int codePoint) {
    return (codePoint >= 0x3400 && codePoint <= 0x9FFF)
        || (codePoint >= 0xAC00 && codePoint <= 0xD7A3);
  }

  private boolean sameOnRandomTexts(Duration budget, LongSupplier nanoTime) {
    var random = new ProbeTexts(seed, addedTokens);
    long start = nanoTime.getAsLong();
    for (int i = 0; i < MIN_RANDOM_TEXTS || nanoTime.getAsLong() - start < budget.toNanos(); i++) {
      if (!same(random.next(), false)) {
        return false;
      }
    }
    return true;
  }

  private boolean same(String text, boolean addSpecialTokens) {
    int[] expected = reference.encode(text, addSpecialTokens);
    texts++;
    tokens += expected == null ? 0 : expected.length;
    return Arrays.equals(expected, candidate.encode(text, addSpecialTokens));
  }
}
