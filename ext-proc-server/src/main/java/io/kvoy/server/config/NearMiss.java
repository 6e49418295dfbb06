// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.config;

import java.util.Collection;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/** Finds the word that a misspelt one was meant to be. */
final class NearMiss {
  /** Longer words are no typing mistakes of ours; bounds the quadratic comparison. */
  private static final int MAX_CHARS = 64;

  private NearMiss() {}

  /** Advice to append to a refusal of {@code word}; empty when no known word is close. */
  static String advice(String word, Collection<String> known) {
    String near = closest(word, known);
    return near == null ? "" : "did you mean '" + near + "'?";
  }

  /**
   * The known word with the fewest letters inserted, deleted, replaced or swapped, when those are
   * at most a third of the word (and one for short words); letter case costs nothing.
   */
  static @Nullable String closest(String word, Collection<String> known) {
    if (word.length() > MAX_CHARS) {
      return null;
    }
    String best = null;
    int bestDistance = Math.max(1, word.length() / 3) + 1;
    for (String candidate : known) {
      int distance = distance(word.toLowerCase(Locale.ROOT), candidate.toLowerCase(Locale.ROOT));
      if (distance < bestDistance) {
        best = candidate;
        bestDistance = distance;
      }
    }
    return best;
  }

  /** Damerau-Levenshtein distance with adjacent swaps (optimal string alignment). */
  private static int distance(String a, String b) {
    int[] twoBack = new int[b.length() + 1];
    int[] back = new int[b.length() + 1];
    int[] row = new int[b.length() + 1];
    for (int j = 0; j <= b.length(); j++) {
      back[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      row[0] = i;
      for (int j = 1; j <= b.length(); j++) {
        int replace = back[j - 1] + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        row[j] = Math.min(replace, Math.min(back[j], row[j - 1]) + 1);
        if (i > 1
            && j > 1
            && a.charAt(i - 1) == b.charAt(j - 2)
            && a.charAt(i - 2) == b.charAt(j - 1)) {
          row[j] = Math.min(row[j], twoBack[j - 2] + 1);
        }
      }
      int[] spare = twoBack;
      twoBack = back;
      back = row;
      row = spare;
    }
    return back[b.length()];
  }
}
