// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.util.Arrays;

/**
 * Sets of index members, each stored once and named by an int.
 *
 * <p>The blocks of a chain are mostly held by the same workers, so a million keys share a few
 * thousand sets: a key costs four bytes for its set whatever the fleet's size, and a look-up that
 * meets the same id twice in a row has nothing to compare. A set is immutable; adding a member
 * leads to another id. Its hash is the xor of one secret word per member (Zobrist hashing), so the
 * id of "this set plus that member" is found without looking at the words, and nobody can choose
 * sets of one hash.
 *
 * <p>One writer. Readers call only {@link #words}, with ids that they got from {@link KeyTable}
 * after its acquire fence. An id that lost its last use is given to another set only after {@link
 * #QUARANTINE} others were freed, long after any reader that saw it has gone; one that is overtaken
 * nevertheless misjudges one request.
 */
final class WorkerSets {

  /** The set without members. */
  static final int EMPTY = 0;

  /** Ids fit so many bits; real fleets use some thousands. */
  static final int ID_BITS = 23;

  private static final int QUARANTINE = 4096;
  private static final long[] NO_WORDS = {};

  private long[][] words = new long[64][];
  private long[] hashes = new long[64];
  private int[] uses = new int[64];
  private boolean[] isQueued = new boolean[64];
  private int ids = 1;

  /** Open addressing by hash: ids, 0 is free. Holds freed ids too until they are reused. */
  private int[] byHash = new int[128];

  /** Ring of freed ids, oldest first. */
  private int[] freed = new int[64];

  private int freedHead;
  private int freedCount;
  private long heldWords;

  WorkerSets() {
    words[EMPTY] = NO_WORDS;
  }

  /** The set's bits, 64 members a word, without trailing zero words. */
  long[] words(int id) {
    long[] set = words[id];
    return set == null ? NO_WORDS : set;
  }

  boolean contains(int id, int member) {
    long[] set = words(id);
    int word = member >>> 6;
    return word < set.length && (set[word] >>> member & 1) != 0;
  }

  /**
   * The id of the set with the member added if absent, removed if present; counts a use of it. When
   * all ids are in use it is the empty set: the holders of a block are forgotten rather than made
   * up.
   */
  int toggled(int id, int member) {
    long hash = hashes[id] ^ mixed(member);
    int known = hash == 0 ? EMPTY : find(hash);
    if (known < 0) {
      known = create(id, member, hash);
    }
    if (known != EMPTY) {
      uses[known]++;
    }
    return known;
  }

  /** One use less. */
  void release(int id) {
    if (id != EMPTY && --uses[id] == 0 && !isQueued[id]) {
      isQueued[id] = true;
      enqueue(id);
    }
  }

  /** Number of sets in use, the empty one included. */
  int size() {
    return ids - freedCount;
  }

  /** Memory of the sets and their tables. */
  long bytes() {
    return heldWords * 8
        + (ids - 1) * 16L // array headers
        + words.length * (4L + 8 + 4 + 1)
        + byHash.length * 4L
        + freed.length * 4L;
  }

  private int find(long hash) {
    int mask = byHash.length - 1;
    for (int i = (int) hash & mask; ; i = (i + 1) & mask) {
      int id = byHash[i];
      if (id == 0) {
        return -1;
      }
      if (hashes[id] == hash) {
        return id;
      }
    }
  }

  private int create(int from, int member, long hash) {
    long[] old = words(from);
    int word = member >>> 6;
    long[] set = Arrays.copyOf(old, Math.max(old.length, word + 1));
    set[word] ^= 1L << member;
    int length = set.length;
    while (length > 0 && set[length - 1] == 0) {
      length--;
    }
    set = length == set.length ? set : Arrays.copyOf(set, length);
    int id = newId();
    if (id == EMPTY) {
      return EMPTY;
    }
    words[id] = set;
    hashes[id] = hash;
    uses[id] = 0;
    heldWords += set.length;
    insert(hash, id);
    return id;
  }

  private int newId() {
    int reused = freedCount > QUARANTINE ? dequeue() : 0;
    if (reused != EMPTY) {
      return reused;
    }
    if (ids == 1 << ID_BITS) {
      return dequeue();
    }
    if (ids == words.length) {
      int length = ids + (ids >> 1);
      words = Arrays.copyOf(words, length);
      hashes = Arrays.copyOf(hashes, length);
      uses = Arrays.copyOf(uses, length);
      isQueued = Arrays.copyOf(isQueued, length);
    }
    return ids++;
  }

  private void enqueue(int id) {
    if (freedCount == freed.length) {
      int[] longer = new int[freed.length * 2];
      for (int i = 0; i < freedCount; i++) {
        longer[i] = freed[(freedHead + i) & (freed.length - 1)];
      }
      freed = longer;
      freedHead = 0;
    }
    freed[(freedHead + freedCount++) & (freed.length - 1)] = id;
  }

  /** The id freed longest ago that has not come into use again, or the empty set's. */
  private int dequeue() {
    while (freedCount > 0) {
      int id = freed[freedHead];
      freedHead = (freedHead + 1) & (freed.length - 1);
      freedCount--;
      isQueued[id] = false;
      if (uses[id] == 0) {
        delete(id);
        heldWords -= words(id).length;
        return id;
      }
    }
    return 0;
  }

  private void insert(long hash, int id) {
    if (ids * 2 > byHash.length) {
      byHash = new int[byHash.length * 2];
      for (int known = 1; known < ids; known++) {
        if (known != id && words[known] != null) {
          place(hashes[known], known);
        }
      }
    }
    place(hash, id);
  }

  private void place(long hash, int id) {
    int mask = byHash.length - 1;
    int i = (int) hash & mask;
    while (byHash[i] != 0) {
      i = (i + 1) & mask;
    }
    byHash[i] = id;
  }

  private void delete(int id) {
    int mask = byHash.length - 1;
    int hole = (int) hashes[id] & mask;
    while (byHash[hole] != id) {
      hole = (hole + 1) & mask;
    }
    for (int i = (hole + 1) & mask; byHash[i] != 0; i = (i + 1) & mask) {
      int home = (int) hashes[byHash[i]] & mask;
      if (((i - home) & mask) >= ((i - hole) & mask)) {
        byHash[hole] = byHash[i];
        hole = i;
      }
    }
    byHash[hole] = 0;
  }

  private static long mixed(int member) {
    long z = Scatter.SECRET.of(member);
    z = (z ^ z >>> 30) * 0xBF58476D1CE4E5B9L;
    z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
    return z ^ z >>> 31;
  }
}
