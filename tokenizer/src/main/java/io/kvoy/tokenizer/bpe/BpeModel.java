// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.bpe;

import java.util.Arrays;
import java.util.List;

/**
 * Vocabulary and merges of one file: turns the bytes of a word into ids. Thread-safe; the only
 * thing that changes is the word cache.
 *
 * <p>A word is looked up among the words that are one token, then among words seen lately, and only
 * then merged. That a word of the vocabulary is one token is not a matter of course: merging may
 * never reach it. So each entry is merged once while the model is built, and only those that come
 * back whole count, unless the file says {@code ignore_merges}, where the vocabulary has the first
 * word.
 */
final class BpeModel {

  private final MergeTable merges;
  private final SingleBytes bytes;
  private final WholeWords wholeWords;
  private final WordCache cache = new WordCache();

  private BpeModel(MergeTable merges, SingleBytes bytes, WholeWords wholeWords) {
    this.merges = merges;
    this.bytes = bytes;
    this.wholeWords = wholeWords;
  }

  /**
   * An entry of the vocabulary.
   *
   * @param bytes the bytes that it stands for
   */
  @SuppressWarnings("ArrayRecordComponent") // only handed over, compared nowhere
  record VocabularyEntry(byte[] bytes, int id) {}

  /**
   * @param entries all entries that stand for bytes; each single byte must be among them
   * @param byteIds id of each single byte
   */
  static BpeModel build(
      List<VocabularyEntry> entries, int[] byteIds, MergeTable merges, boolean ignoreMerges) {
    var singleBytes = new SingleBytes(byteIds, merges);
    var merger = new Merger(merges, singleBytes);
    var wholeWords = new WholeWords(entries.stream().mapToInt(e -> e.bytes.length).toArray());
    for (VocabularyEntry entry : entries) {
      byte[] bytes = entry.bytes;
      if (ignoreMerges
          || (merger.merge(bytes, 0, bytes.length) == 1 && merger.ids()[0] == entry.id)) {
        wholeWords.put(bytes, entry.id);
      }
    }
    return new BpeModel(merges, singleBytes, wholeWords);
  }

  /** Heap taken, by estimate. */
  long memoryBytes() {
    return merges.memoryBytes()
        + bytes.memoryBytes()
        + wholeWords.memoryBytes()
        + cache.memoryBytes();
  }

  /** A merger for this model, for one thread. */
  Merger newMerger() {
    return new Merger(merges, bytes);
  }

  /** Appends the ids of one word. */
  void encodeWord(byte[] utf8, int start, int end, Merger merger, IdList out) {
    int whole = wholeWords.find(utf8, start, end - start);
    if (whole != WholeWords.NONE) {
      out.add(whole);
      return;
    }
    if (end - start > WordCache.MAX_WORD_BYTES) {
      int count = merger.merge(utf8, start, end);
      out.addAll(merger.ids(), count);
      return;
    }
    long hash = WordBytes.hash(utf8, start, end);
    int[] ids = cache.lookup(hash, utf8, start, end);
    if (ids == null) {
      int count = merger.merge(utf8, start, end);
      ids = Arrays.copyOf(merger.ids(), count);
      cache.remember(hash, utf8, start, end, ids);
    }
    out.addAll(ids);
  }
}
