// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.inference.TokenIds;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

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

  /** Tokens of the prompt's beginning that are kept, a block of any usual size. */
  private static final int HEAD_TOKENS = 256;

  private final long[] keys;
  private final int promptTokens;
  private final int blockSize;
  private final CacheIdentity identity;
  private final int[] head;

  private BlockKeys(
      long[] keys, CacheIdentity identity, int promptTokens, int[] head, int blockSize) {
    this.keys = keys;
    this.promptTokens = promptTokens;
    this.blockSize = blockSize;
    this.identity = identity;
    this.head = head;
  }

  /**
   * Computes the chain.
   *
   * @param identity adapter, salt and media of the request
   * @param ids token ids of the whole prompt, as the worker will see them
   * @param blockSize canonical block size in tokens, {@link PrefixIndex#blockSize()}
   */
  public static BlockKeys of(CacheIdentity identity, int[] ids, int blockSize) {
    return of(identity, TokenIds.of(ids), blockSize, null, 0);
  }

  /**
   * The same, with the keys of a prompt that began alike.
   *
   * @param before of the other prompt; no use if it has another identity, media or block size
   * @param sharedTokens ids in front that both prompts have
   */
  public static BlockKeys of(
      CacheIdentity identity,
      TokenIds ids,
      int blockSize,
      @Nullable BlockKeys before,
      int sharedTokens) {
    if (blockSize < 1) {
      throw new IllegalArgumentException("blockSize must be positive, was " + blockSize);
    }
    int count = ids.length() / blockSize;
    int[] head =
        before != null && before.head.length == HEAD_TOKENS && sharedTokens >= HEAD_TOKENS
            ? before.head
            : ids.first(HEAD_TOKENS);
    if (count == 0) {
      return new BlockKeys(NONE, identity, ids.length(), head, blockSize);
    }
    List<CacheIdentity.MediaItem> media = identity.media();
    long[] earlier =
        before != null
                && before.blockSize == blockSize
                && before.identity.equals(identity)
                && media.isEmpty()
            ? before.keys
            : NONE;
    int known = Math.min(count, Math.min(sharedTokens / blockSize, earlier.length));
    long[] keys = known > 0 ? Arrays.copyOf(earlier, count) : new long[count];
    long key = known > 0 ? keys[known - 1] : KeyChain.root(identity.lora(), identity.cacheSalt());
    int[] others = ids.from(known * blockSize);
    int nextMedia = 0;
    for (int i = known; i < count; i++) {
      int start = i * blockSize;
      key = KeyChain.block(key, others, start - known * blockSize, blockSize);
      while (nextMedia < media.size() && media.get(nextMedia).offset() < start + blockSize) {
        CacheIdentity.MediaItem item = media.get(nextMedia++);
        key = KeyChain.withMedia(key, item.identifier(), item.offset() - start);
      }
      keys[i] = key;
    }
    return new BlockKeys(keys, identity, ids.length(), head, blockSize);
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

  /** What the keys stand for besides the tokens. */
  CacheIdentity identity() {
    return identity;
  }

  /**
   * The key that block {@code i} would have under another identity; 0 when the block is too far
   * from the beginning to say.
   */
  long keyAs(CacheIdentity other, int i) {
    int tokens = (i + 1) * blockSize;
    return tokens > head.length ? 0 : of(other, Arrays.copyOf(head, tokens), blockSize).key(i);
  }
}
