// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.util.List;

/**
 * The names of a prompt's blocks: one 64-bit key per canonical block, each depending on everything
 * before it.
 *
 * <p>Computed once per request, by the request's thread, and used for the look-up in {@link
 * PrefixIndex}, for {@link SpeculativePrefixes} and for the check against live events. Not to be
 * modified.
 */
public final class BlockKeys {

  private static final long[] NONE = {};

  private final long[] keys;
  private final int promptTokens;
  private final int blockSize;

  private BlockKeys(long[] keys, int promptTokens, int blockSize) {
    this.keys = keys;
    this.promptTokens = promptTokens;
    this.blockSize = blockSize;
  }

  /**
   * Computes the chain.
   *
   * @param identity adapter, salt and media of the request
   * @param ids token ids of the whole prompt, as the worker will see them
   * @param blockSize canonical block size in tokens, {@link PrefixIndex#blockSize()}
   */
  public static BlockKeys of(CacheIdentity identity, int[] ids, int blockSize) {
    if (blockSize < 1) {
      throw new IllegalArgumentException("blockSize must be positive, was " + blockSize);
    }
    int count = ids.length / blockSize;
    if (count == 0) {
      return new BlockKeys(NONE, ids.length, blockSize);
    }
    long[] keys = new long[count];
    long key = KeyChain.root(identity.lora(), identity.cacheSalt());
    List<CacheIdentity.MediaItem> media = identity.media();
    int nextMedia = 0;
    for (int i = 0; i < count; i++) {
      int start = i * blockSize;
      key = KeyChain.block(key, ids, start, blockSize);
      while (nextMedia < media.size() && media.get(nextMedia).offset() < start + blockSize) {
        CacheIdentity.MediaItem item = media.get(nextMedia++);
        key = KeyChain.withMedia(key, item.identifier(), item.offset() - start);
      }
      keys[i] = key;
    }
    return new BlockKeys(keys, ids.length, blockSize);
  }

  /** Number of whole blocks in the prompt. */
  public int blocks() {
    return keys.length;
  }

  /**
   * Number of leading blocks that a worker could reuse: whole blocks within the first {@code
   * promptTokens - 1} tokens, since the last token's logits must always be computed (vLLM 0.32
   * {@code v1/core/kv_cache_manager.py}).
   */
  public int reusableBlocks() {
    return promptTokens == 0 ? 0 : (promptTokens - 1) / blockSize;
  }

  /** Key of block {@code i}, never 0. */
  public long key(int i) {
    return keys[i];
  }

  /** Length of the prompt in tokens. */
  public int promptTokens() {
    return promptTokens;
  }

  /** Canonical block size in tokens. */
  public int blockSize() {
    return blockSize;
  }

  long[] raw() {
    return keys;
  }
}
