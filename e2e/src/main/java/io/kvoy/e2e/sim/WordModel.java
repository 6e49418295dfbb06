// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import io.kvoy.tokenizer.Tokenization;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The simulated model's speech: English words, each of which is exactly one token.
 *
 * <p>The first word of an answer is written without a space before it, the others with one, and
 * only words that are a single token that way are used. So an answer that a client sends back in
 * the next turn tokenizes to the very ids that were generated, and finds its blocks. Which word
 * comes is drawn from the seed, the prompt and the position.
 *
 * <p>Immutable after construction, thread-safe.
 */
final class WordModel implements TokenSource {
  private static final List<String> WORDS =
      List.of(
          "the",
          "and",
          "for",
          "that",
          "with",
          "from",
          "this",
          "have",
          "which",
          "their",
          "water",
          "river",
          "mountain",
          "train",
          "light",
          "house",
          "garden",
          "window",
          "stone",
          "green",
          "winter",
          "summer",
          "morning",
          "night",
          "road",
          "bridge",
          "field",
          "forest",
          "island",
          "music",
          "paper",
          "number",
          "letter",
          "story",
          "market",
          "school",
          "city",
          "village",
          "table",
          "bread",
          "fish",
          "bird",
          "horse",
          "cloud",
          "rain",
          "snow",
          "wind",
          "fire",
          "gold",
          "silver",
          "small",
          "large",
          "early",
          "late",
          "old",
          "young",
          "first",
          "last",
          "many",
          "every",
          "other",
          "between",
          "under",
          "above");

  private final long seed;
  private final int meanTokens;
  private final int endId;
  private final int[] openers;
  private final int[] followers;
  private final Map<Integer, String> texts = new HashMap<>();

  /**
   * @param meanTokens mean length of an answer that is not cut short, in tokens; 0 for answers
   *     without end
   */
  WordModel(SimTokenizer tokenizer, long seed, int meanTokens) {
    this.seed = seed;
    this.meanTokens = meanTokens;
    this.endId = tokenizer.endId();
    openers = ids(tokenizer, "");
    followers = ids(tokenizer, " ");
    texts.put(endId, "");
  }

  private int[] ids(SimTokenizer tokenizer, String before) {
    List<Integer> ids = new ArrayList<>();
    for (String word : WORDS) {
      String text = before + word;
      if (tokenizer.text(text) instanceof Tokenization.Exact exact
          && exact.prompts().size() == 1
          && exact.totalTokens() == 1) {
        int id = exact.prompts().getFirst()[0];
        if (texts.putIfAbsent(id, text) == null) {
          ids.add(id);
        }
      }
    }
    if (ids.size() < 8) {
      throw new IllegalArgumentException(
          "only %d of %d words are single tokens of this tokenizer; the simulator needs 8"
              .formatted(ids.size(), WORDS.size()));
    }
    return ids.stream().mapToInt(Integer::intValue).toArray();
  }

  @Override
  public int next(long promptSeed, int index, boolean mayEnd) {
    long own = SeededNoise.mix(seed ^ SeededNoise.mix(promptSeed));
    if (mayEnd && meanTokens > 0) {
      // Between half and one and a half of the mean, the end token included.
      int length = meanTokens / 2 + (int) Math.floorMod(SeededNoise.mix(own), meanTokens + 1L);
      if (index + 1 >= length) {
        return endId;
      }
    }
    int[] choice = index == 0 ? openers : followers;
    return choice[Math.floorMod(SeededNoise.mix(own + index + 1), choice.length)];
  }

  @Override
  public boolean isEnd(int tokenId) {
    return tokenId == endId;
  }

  /** The text of a token that this model said. */
  String text(int tokenId) {
    return texts.getOrDefault(tokenId, "");
  }
}
