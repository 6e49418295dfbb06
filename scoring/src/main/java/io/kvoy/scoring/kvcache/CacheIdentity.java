// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import java.util.Comparator;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What, besides the token ids, decides whether two prompts may share KV cache blocks.
 *
 * <p>The base model is not part of it: a worker serves one base model, often under several names,
 * and the caller offers only workers that serve the requested one as candidates.
 *
 * @param lora adapter name as in the request's {@code model} field, null for the base model
 * @param cacheSalt the request's {@code cache_salt}, null when it has none
 * @param media multimodal items in the prompt, by position
 */
public record CacheIdentity(
    @Nullable String lora, @Nullable String cacheSalt, List<MediaItem> media) {

  /** Plain text for the base model, no salt. */
  public static final CacheIdentity PLAIN = new CacheIdentity(null, null, List.of());

  public CacheIdentity {
    media = media.stream().sorted(Comparator.comparingInt(MediaItem::offset)).toList();
  }

  /** Text only, with an adapter, a salt, both or neither. */
  public static CacheIdentity of(@Nullable String lora, @Nullable String cacheSalt) {
    return lora == null && cacheSalt == null
        ? PLAIN
        : new CacheIdentity(lora, cacheSalt, List.of());
  }

  /**
   * One image, audio clip or video in a prompt.
   *
   * @param identifier vLLM's name of the content ({@code mm_hash} or the client's UUID)
   * @param offset index of its first placeholder token in the prompt
   * @param length number of its placeholder tokens
   */
  public record MediaItem(String identifier, int offset, int length) {
    public MediaItem {
      if (offset < 0 || length < 1) {
        throw new IllegalArgumentException(
            "media item needs offset >= 0 and length >= 1, had " + offset + " and " + length);
      }
    }
  }
}
