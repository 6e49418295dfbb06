// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import io.kvoy.inference.TokenIds;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/**
 * A text in parts with its ids, kept so that a text that begins alike need not be encoded whole.
 * Immutable but for what a caller keeps along the ids; not to be modified.
 */
public final class EncodedText {
  private final List<String> parts;

  /** Where each part ends in the text: comparing parts that are the same strings touches none. */
  private final int[] ends;

  private final TokenIds ids;

  /** Cut points as offsets into the text, ascending. */
  final int[] cuts;

  /** How many ids end at each of them. */
  final int[] cutIds;

  private final int sharedIds;
  private final AtomicReference<@Nullable Object> before;
  private final AtomicReference<@Nullable Object> kept = new AtomicReference<>();

  private EncodedText(
      List<String> parts,
      int[] ends,
      TokenIds ids,
      int[] cuts,
      int[] cutIds,
      int sharedIds,
      AtomicReference<@Nullable Object> before) {
    this.parts = parts;
    this.ends = ends;
    this.ids = ids;
    this.cuts = cuts;
    this.cutIds = cutIds;
    this.sharedIds = sharedIds;
    this.before = before;
  }

  /** A text that goes on from none. */
  static EncodedText of(List<String> parts, TokenIds ids, int[] cuts, int[] cutIds) {
    int[] ends = ends(parts, new int[0], 0);
    return new EncodedText(parts, ends, ids, cuts, cutIds, 0, new AtomicReference<>());
  }

  /**
   * A text that begins like one before.
   *
   * @param sameParts of the one before
   * @param sharedIds how many ids in front are those of the text before
   */
  static EncodedText after(
      EncodedText before,
      int sameParts,
      List<String> parts,
      TokenIds ids,
      int[] cuts,
      int[] cutIds,
      int sharedIds) {
    int[] ends = ends(parts, before.ends, sameParts);
    return new EncodedText(parts, ends, ids, cuts, cutIds, sharedIds, before.kept);
  }

  /** Where the parts end, the first of them known. */
  private static int[] ends(List<String> parts, int[] before, int known) {
    int[] ends = new int[parts.size()];
    System.arraycopy(before, 0, ends, 0, known);
    int end = known == 0 ? 0 : ends[known - 1];
    for (int i = known; i < ends.length; i++) {
      end += parts.get(i).length();
      ends[i] = end;
    }
    return ends;
  }

  /** The ids of the whole text, without those that a post-processor adds. */
  public TokenIds ids() {
    return ids;
  }

  /** How many ids in front are those of the text that this one was encoded after. */
  public int sharedIds() {
    return sharedIds;
  }

  /**
   * What a caller keeps along these ids, such as what it computed from them one after the other.
   */
  public AtomicReference<@Nullable Object> kept() {
    return kept;
  }

  /** The same of the text that this one was encoded after; empty when there was none. */
  public AtomicReference<@Nullable Object> keptBefore() {
    return before;
  }

  /** Memory, with that of the parts' text. */
  public long bytes() {
    long chars = ends.length == 0 ? 0 : ends[ends.length - 1];
    return 200 + 2 * chars + ids.bytes() + 8L * cuts.length + 12L * parts.size();
  }

  /**
   * How many characters the parts have in common with the text's beginning.
   *
   * @param same {@link #sameParts} of them
   */
  int sharedChars(List<String> others, int same) {
    int chars = same == 0 ? 0 : ends[same - 1];
    return same < Math.min(parts.size(), others.size())
        ? chars + sameChars(parts.get(same), others.get(same))
        : chars;
  }

  /**
   * The text of these parts from an offset on, up to which they are this text.
   *
   * @param from at most {@link #sharedChars}
   */
  String textFrom(List<String> others, int from) {
    int found = Arrays.binarySearch(ends, from);
    int part = found >= 0 ? found + 1 : -found - 1;
    int start = part == 0 ? 0 : ends[part - 1];
    var text = new StringBuilder();
    for (int i = part; i < others.size(); i++) {
      String other = others.get(i);
      text.append(other, i == part ? from - start : 0, other.length());
    }
    return text.toString();
  }

  /** How many parts in front are this text's. */
  @SuppressWarnings("ReferenceEquality") // sooner than comparing what is the same string
  int sameParts(List<String> others) {
    int count = Math.min(parts.size(), others.size());
    int same = 0;
    while (same < count) {
      String own = parts.get(same);
      String other = others.get(same);
      if (own != other && !own.equals(other)) {
        break;
      }
      same++;
    }
    return same;
  }

  private static int sameChars(String a, String b) {
    int length = Math.min(a.length(), b.length());
    int i = 0;
    while (i < length && a.charAt(i) == b.charAt(i)) {
      i++;
    }
    return i;
  }
}
