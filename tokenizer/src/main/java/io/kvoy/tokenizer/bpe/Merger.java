// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.Arrays;

/**
 * Merges the bytes of one word: the pair of lowest rank first, of several the leftmost, until none
 * is left. Holds the work arrays; used by one thread, for one word after the other.
 *
 * <p>Short words are scanned for their best pair after every merge. Long ones (a run of letters
 * without a space may be a whole prompt) use a heap of candidates, so n bytes cost n log n.
 * Candidates are not taken back when a neighbour merges; one that no longer fits is recognised by
 * the rank of the pair that stands there at that moment.
 */
final class Merger {

  /** Up to this many bytes a scan beats the heap. */
  private static final int SCAN_MAX_BYTES = 24;

  private final MergeTable merges;
  private final SingleBytes bytes;

  private int[] ids = new int[64];

  /** Rank of the pair that starts here. */
  private int[] ranks = new int[64];

  /** Heap way only: neighbours of a position; -1 beyond the ends. */
  private int[] previous = new int[0];

  private int[] next = new int[0];
  private long[] heap = new long[0];
  private int heapSize;

  Merger(MergeTable merges, SingleBytes bytes) {
    this.merges = merges;
    this.bytes = bytes;
  }

  /** Merges the word; its tokens are then the first ones of {@link #ids}. */
  int merge(byte[] utf8, int start, int end) {
    int length = end - start;
    if (length > ids.length) {
      ids = new int[length];
      ranks = new int[length];
    }
    for (int i = 0; i < length; i++) {
      ids[i] = bytes.id(utf8[start + i]);
    }
    for (int i = 0; i + 1 < length; i++) {
      ranks[i] = bytes.rank(utf8[start + i], utf8[start + i + 1]);
    }
    return length <= SCAN_MAX_BYTES ? mergeByScan(length) : mergeByHeap(length);
  }

  /** Overwritten by the next word. */
  int[] ids() {
    return ids;
  }

  private int mergeByScan(int length) {
    int count = length;
    while (true) {
      int best = MergeTable.NO_MERGE;
      int at = -1;
      for (int i = 0; i + 1 < count; i++) {
        if (ranks[i] < best) {
          best = ranks[i];
          at = i;
        }
      }
      if (at < 0) {
        return count;
      }
      ids[at] = merges.merged(best);
      count--;
      for (int i = at + 1; i < count; i++) {
        ids[i] = ids[i + 1];
        ranks[i] = ranks[i + 1];
      }
      if (at > 0) {
        ranks[at - 1] = merges.rank(ids[at - 1], ids[at]);
      }
      if (at + 1 < count) {
        ranks[at] = merges.rank(ids[at], ids[at + 1]);
      }
    }
  }

  private int mergeByHeap(int length) {
    if (length > next.length) {
      previous = new int[length];
      next = new int[length];
    }
    heapSize = 0;
    for (int i = 0; i < length; i++) {
      previous[i] = i - 1;
      next[i] = i + 1 < length ? i + 1 : -1;
    }
    ranks[length - 1] = MergeTable.NO_MERGE;
    for (int i = 0; i + 1 < length; i++) {
      push(ranks[i], i);
    }
    while (heapSize > 0) {
      long candidate = pop();
      int rank = (int) (candidate >>> Integer.SIZE);
      int at = (int) candidate;
      if (ranks[at] == rank) {
        mergePair(at, rank);
      }
    }
    return compact();
  }

  private void mergePair(int at, int rank) {
    int right = next[at];
    int after = next[right];
    int before = previous[at];
    ids[at] = merges.merged(rank);
    next[at] = after;
    ranks[right] = MergeTable.NO_MERGE;
    if (after >= 0) {
      previous[after] = at;
      ranks[at] = merges.rank(ids[at], ids[after]);
      push(ranks[at], at);
    } else {
      ranks[at] = MergeTable.NO_MERGE;
    }
    if (before >= 0) {
      ranks[before] = merges.rank(ids[before], ids[at]);
      push(ranks[before], before);
    }
  }

  private int compact() {
    int count = 0;
    for (int at = 0; at >= 0; at = next[at]) {
      ids[count++] = ids[at];
    }
    return count;
  }

  private void push(int rank, int at) {
    if (rank == MergeTable.NO_MERGE) {
      return;
    }
    if (heapSize == heap.length) {
      heap = Arrays.copyOf(heap, Math.max(64, heapSize * 2));
    }
    long candidate = (long) rank << Integer.SIZE | at;
    int child = heapSize++;
    while (child > 0) {
      int parent = (child - 1) >> 1;
      if (heap[parent] <= candidate) {
        break;
      }
      heap[child] = heap[parent];
      child = parent;
    }
    heap[child] = candidate;
  }

  private long pop() {
    long top = heap[0];
    long last = heap[--heapSize];
    int parent = 0;
    while (true) {
      int child = 2 * parent + 1;
      if (child >= heapSize) {
        break;
      }
      if (child + 1 < heapSize && heap[child + 1] < heap[child]) {
        child++;
      }
      if (last <= heap[child]) {
        break;
      }
      heap[parent] = heap[child];
      parent = child;
    }
    heap[parent] = last;
    return top;
  }
}
