// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import io.kvoy.tokenizer.files.AddedToken;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Finds added tokens in text the way {@code tokenizers} does: leftmost first, of several that start
 * at the same place the longest, never overlapping. Knows nothing of flags; the caller passes only
 * tokens for which that is the whole rule.
 *
 * <p>A trie in flat arrays. At most one walk per character of the text, each as long as the longest
 * token, so a hostile text costs no more than length times longest token. Immutable and
 * thread-safe.
 */
public final class AddedTokenMatcher {

  /** Returned by {@link #find} when there is no further match. */
  public static final long NONE = -1;

  private static final int START_BITS = 31;

  private final int[] ids;
  private final int[] lengths;

  /** Children of node n: {@code labels[n]}, sorted, and {@code targets[n]}. */
  private final char[][] labels;

  private final int[][] targets;

  /** Index of the token that ends at node n, or -1. */
  private final int[] tokenAt;

  /** First characters below 128; the trie's root has the others too. */
  private final boolean[] startsAscii = new boolean[128];

  private final boolean startsBeyondAscii;

  /**
   * Set when all tokens start with this one character, which the JDK finds faster than any loop;
   * else 0.
   */
  private final char onlyStart;

  /**
   * Matches these tokens; of two with the same content the first one counts. Empty contents match
   * nothing.
   */
  public AddedTokenMatcher(List<AddedToken> tokens) {
    var root = new Node();
    ids = new int[tokens.size()];
    lengths = new int[tokens.size()];
    for (int i = 0; i < tokens.size(); i++) {
      AddedToken token = tokens.get(i);
      ids[i] = token.id();
      lengths[i] = token.content().length();
      root.add(token.content(), i);
    }
    int nodes = root.count();
    labels = new char[nodes][];
    targets = new int[nodes][];
    tokenAt = new int[nodes];
    root.flatten(0, this);
    boolean beyondAscii = false;
    for (char first : labels[0]) {
      if (first < 128) {
        startsAscii[first] = true;
      } else {
        beyondAscii = true;
      }
    }
    startsBeyondAscii = beyondAscii;
    onlyStart = labels[0].length == 1 ? labels[0][0] : 0;
  }

  public boolean isEmpty() {
    return labels[0].length == 0;
  }

  /**
   * The first match that starts in {@code [from, to)} and ends by {@code to}.
   *
   * @return {@link #NONE}, or a value for {@link #start} and {@link #token}
   */
  public long find(String text, int from, int to) {
    if (isEmpty()) {
      return NONE;
    }
    for (int at = from; at < to; at++) {
      if (onlyStart != 0) {
        at = text.indexOf(onlyStart, at, to);
        if (at < 0) {
          return NONE;
        }
      } else if (!canStart(text.charAt(at))) {
        continue;
      }
      int token = longestAt(text, at, to);
      if (token >= 0) {
        return (long) token << START_BITS | at;
      }
    }
    return NONE;
  }

  /** Where the match starts. */
  public static int start(long match) {
    return (int) (match & ((1L << START_BITS) - 1));
  }

  /** Index of the matched token in the list given to the constructor. */
  public static int token(long match) {
    return (int) (match >>> START_BITS);
  }

  /** Where the match ends. */
  public int end(long match) {
    return start(match) + lengths[token(match)];
  }

  /** Id of the matched token. */
  public int id(long match) {
    return ids[token(match)];
  }

  /**
   * Marks the tokens that stand inside another token of this matcher and end before that one does.
   * Whether such a token matches depends on the text behind it.
   */
  BitSet insideOthers(List<AddedToken> tokens) {
    var inside = new BitSet();
    for (AddedToken token : tokens) {
      String content = token.content();
      for (int start = 0; start < content.length(); start++) {
        markTokens(content, start, inside);
      }
    }
    return inside;
  }

  private void markTokens(String content, int start, BitSet inside) {
    int node = 0;
    for (int at = start; at + 1 < content.length(); at++) {
      int child = Arrays.binarySearch(labels[node], content.charAt(at));
      if (child < 0) {
        return;
      }
      node = targets[node][child];
      if (tokenAt[node] >= 0) {
        inside.set(tokenAt[node]);
      }
    }
  }

  private boolean canStart(char c) {
    return c < 128 ? startsAscii[c] : startsBeyondAscii;
  }

  private int longestAt(String text, int start, int to) {
    int longest = -1;
    int node = 0;
    for (int at = start; at < to; at++) {
      int child = Arrays.binarySearch(labels[node], text.charAt(at));
      if (child < 0) {
        break;
      }
      node = targets[node][child];
      if (tokenAt[node] >= 0) {
        longest = tokenAt[node];
      }
    }
    return longest;
  }

  /** Trie node while building. */
  private static final class Node {
    private final SortedMap<Character, Node> children = new TreeMap<>();
    private int token = -1;

    void add(String content, int index) {
      Node node = this;
      for (int i = 0; i < content.length(); i++) {
        node = node.children.computeIfAbsent(content.charAt(i), _ -> new Node());
      }
      if (node != this && node.token < 0) {
        node.token = index;
      }
    }

    int count() {
      int nodes = 1;
      for (Node child : children.values()) {
        nodes += child.count();
      }
      return nodes;
    }

    /**
     * Writes this node as number {@code self}, its descendants behind it; returns the next free
     * number.
     */
    int flatten(int self, AddedTokenMatcher into) {
      into.tokenAt[self] = token;
      var nodeLabels = new char[children.size()];
      var nodeTargets = new int[children.size()];
      into.labels[self] = nodeLabels;
      into.targets[self] = nodeTargets;
      int next = self + 1;
      int i = 0;
      for (var child : children.entrySet()) {
        nodeLabels[i] = child.getKey();
        nodeTargets[i] = next;
        next = child.getValue().flatten(next, into);
        i++;
      }
      return next;
    }
  }
}
