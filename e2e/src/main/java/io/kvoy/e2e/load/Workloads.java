// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.load;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;

/**
 * Seeded conversations of the shapes that matter to a prefix cache. Equal seeds give equal text.
 */
public final class Workloads {
  /** Everyday words, so that one word is about one token in any tokenizer. */
  private static final List<String> WORDS =
      List.of(
          "river", "stone", "garden", "window", "paper", "winter", "table", "music", "letter",
          "market", "silver", "bridge", "forest", "engine", "summer", "doctor", "island", "coffee",
          "yellow", "morning", "people", "number", "water", "story", "green", "house", "light",
          "night", "world", "point", "order", "party", "point", "cloud", "train", "field");

  private final RandomGenerator random;

  public Workloads(long seed) {
    random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
  }

  /** About {@code words} tokens of text that no other call returns. */
  public String text(int words) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < words; i++) {
      text.append(i == 0 ? "" : " ").append(WORDS.get(random.nextInt(WORDS.size())));
    }
    return text.append('.').toString();
  }

  /**
   * Many users of few system prompts: {@code prefixes} prompts, {@code usersEach} questions to
   * each, mixed.
   */
  public List<Conversation> sharedPrefix(
      int prefixes, int usersEach, int prefixTokens, int questionTokens, int maxTokens) {
    List<Conversation> all = new ArrayList<>();
    for (int p = 0; p < prefixes; p++) {
      String system = text(prefixTokens);
      for (int u = 0; u < usersEach; u++) {
        all.add(
            new Conversation(
                "shared " + (char) ('A' + p % 26),
                system,
                List.of(text(questionTokens)),
                maxTokens));
      }
    }
    return shuffled(all);
  }

  /** Conversations that grow turn by turn. */
  public List<Conversation> multiTurn(
      int conversations, int turns, int systemTokens, int turnTokens, int maxTokens) {
    List<Conversation> all = new ArrayList<>();
    for (int c = 0; c < conversations; c++) {
      List<String> userTurns = new ArrayList<>();
      for (int t = 0; t < turns; t++) {
        userTurns.add(text(turnTokens));
      }
      all.add(new Conversation("chat " + (c + 1), text(systemTokens), userTurns, maxTokens));
    }
    return all;
  }

  /**
   * Prompts that share nothing with anything, of about {@code shortest} to {@code longest} tokens.
   */
  public List<Conversation> unique(int prompts, int shortest, int longest, int maxTokens) {
    List<Conversation> all = new ArrayList<>();
    for (int i = 0; i < prompts; i++) {
      all.add(
          new Conversation(
              "unique", "", List.of(text(random.nextInt(shortest, longest + 1))), maxTokens));
    }
    return all;
  }

  /** The same conversations in a seeded order. */
  public List<Conversation> shuffled(List<Conversation> all) {
    List<Conversation> copy = new ArrayList<>(all);
    Collections.shuffle(copy, new java.util.Random(random.nextLong()));
    return copy;
  }
}
