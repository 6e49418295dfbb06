// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** What the cache tells its listeners, before it is put into bytes. */
sealed interface KvEvent {

  /**
   * Consecutive blocks of one request became reusable.
   *
   * @param parent the block before the first one, null at the start of a prompt
   * @param tokenIds ids of all the blocks together
   * @param loraId number of the adapter, null without one
   * @param extraKeys untagged keys of each block, null entries for none
   */
  @SuppressWarnings("ArrayRecordComponent") // Never compared; ids stay primitive.
  record Stored(
      List<Digest> hashes,
      @Nullable Digest parent,
      int[] tokenIds,
      int blockSize,
      @Nullable Integer loraId,
      @Nullable String loraName,
      List<@Nullable List<String>> extraKeys,
      @Nullable String sessionId)
      implements KvEvent {}

  /** One physical block was taken for other content. */
  record Removed(Digest hash) implements KvEvent {}

  /** The whole cache was emptied. */
  record AllCleared() implements KvEvent {}
}
