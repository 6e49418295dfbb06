// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One change of a worker's KV cache, as its publisher tells it. Engine hashes are reduced to their
 * low 64 bits, so that integer and byte forms give the same value; arrays are not to be modified.
 */
public sealed interface KvEvent {

  /** Group of an event that does not name one. */
  int NO_GROUP = -1;

  /**
   * Blocks got content.
   *
   * @param hashes engine hashes, one per block; empty in some events of window groups
   * @param hasParent whether there is a block before the first one
   * @param parent its engine hash, 0 without a parent
   * @param tokens ids of the tokens that the event covers; empty for placeholders of offloading
   *     connectors
   * @param blockSize tokens per block, 0 in placeholders
   * @param loraName adapter name, null for the base model
   * @param loraId numeric adapter id; the only hint of an adapter before vLLM 0.14
   * @param cacheSalt salt of the chain when the event carries it as a field of its own (SGLang
   *     0.5.23)
   * @param extras further key material, one element per block; empty when no block has any
   * @param tier where the blocks lie
   * @param group KV cache group, {@link #NO_GROUP} when not given
   * @param kind what the group needs
   * @param windowTokens sliding window in tokens, 0 when not given
   */
  @SuppressWarnings("ArrayRecordComponent") // Compared by content nowhere outside tests.
  record BlockStored(
      long[] hashes,
      boolean hasParent,
      long parent,
      int[] tokens,
      int blockSize,
      @Nullable String loraName,
      @Nullable Long loraId,
      @Nullable String cacheSalt,
      List<Extras> extras,
      Tier tier,
      int group,
      GroupKind kind,
      int windowTokens)
      implements KvEvent {

    /**
     * Whether the tokens are exactly those of the named blocks, so that they can be cut block by
     * block.
     */
    public boolean isDense() {
      return blockSize > 0 && (long) hashes.length * blockSize == tokens.length;
    }
  }

  /**
   * A physical copy of each block is gone; other copies may remain.
   *
   * @param group {@link #NO_GROUP} when not given
   */
  @SuppressWarnings("ArrayRecordComponent")
  record BlockRemoved(long[] hashes, Tier tier, int group) implements KvEvent {}

  /** Everything this publisher (worker and rank) had is gone, in all tiers and groups. */
  record AllBlocksCleared() implements KvEvent {}

  /** An event type that is not known here. */
  record Unknown(String type) implements KvEvent {}

  /**
   * Key material of one block besides its tokens ({@code extra_keys}).
   *
   * @param salt cache salt, only ever in the first block of a chain
   * @param media multimodal items that the block overlaps
   * @param isOpaque whether something is in it that a router cannot know (prompt embeddings, an
   *     item without position): neither this block nor its descendants can be matched
   */
  record Extras(@Nullable String salt, List<MediaRef> media, boolean isOpaque) {
    static final Extras NONE = new Extras(null, List.of(), false);

    public Extras {
      media = List.copyOf(media);
    }
  }

  /**
   * A multimodal item in a block.
   *
   * @param offset start of the item relative to the start of the block; negative when it began in
   *     an earlier one
   */
  record MediaRef(String identifier, int offset) {}
}
