// SPDX-License-Identifier: Apache-2.0
package io.kvoy.bench.lab;

import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * KV blocks of a simulated worker: blocks in use by requests, and full blocks that are kept for
 * their prefix until the space is needed, least recently used first; as vLLM's block pool does
 * (vLLM 0.32, {@code vllm/v1/core/block_pool.py}).
 */
final class BlockCache {
  /** Tokens per block; coarser than vLLM's 16 to make the simulation quick. */
  static final int BLOCK_TOKENS = 64;

  /** Hears which keys come and go; the stand-in for KV events. */
  interface Events {
    void stored(long key);

    void removed(long key);
  }

  private static final class Block {
    final long key;
    int references;
    @Nullable Block older;
    @Nullable Block newer;

    Block(long key) {
      this.key = key;
    }
  }

  private final int capacity;
  private final Events events;
  private final Map<Long, Block> byKey = new HashMap<>();

  /** Unreferenced blocks by age. */
  private @Nullable Block oldest;

  private @Nullable Block newest;

  /** Blocks in use that have no key or a key that another block has. */
  private int anonymous;

  private int referenced;

  BlockCache(int capacity, Events events) {
    this.capacity = capacity;
    this.events = events;
  }

  /** Blocks that can be had, by eviction if need be. */
  int available() {
    return capacity - anonymous - referenced;
  }

  int capacity() {
    return capacity;
  }

  boolean contains(long key) {
    return byKey.containsKey(key);
  }

  /** Leading blocks of a request that are here. */
  int match(SimRequest request) {
    int blocks = request.cacheableBlocks();
    int found = 0;
    while (found < blocks && byKey.containsKey(request.blockKeys[found])) {
      found++;
    }
    return found;
  }

  /** How many of the first blocks are here but in nobody's use: taking them shrinks the rest. */
  int idleAmong(SimRequest request, int blocks) {
    int idle = 0;
    for (int i = 0; i < blocks; i++) {
      Block block = byKey.get(request.blockKeys[i]);
      if (block != null && block.references == 0) {
        idle++;
      }
    }
    return idle;
  }

  /** Takes a present block into use. */
  void retain(long key) {
    Block block = byKey.get(key);
    if (block == null) {
      throw new IllegalStateException("retained a block that is not there");
    }
    if (block.references++ == 0) {
      unlink(block);
      referenced++;
    }
  }

  /** Takes free blocks into use, evicting as needed; the caller has checked {@link #available}. */
  void allocate(int blocks) {
    anonymous += blocks;
    while (anonymous + byKey.size() > capacity) {
      Block victim = oldest;
      if (victim == null) {
        throw new IllegalStateException("allocated more than available");
      }
      unlink(victim);
      byKey.remove(victim.key);
      events.removed(victim.key);
    }
  }

  /**
   * A block in use has become full and has a key.
   *
   * @return false when another block has that key: this one stays anonymous
   */
  boolean publish(long key) {
    if (byKey.containsKey(key)) {
      return false;
    }
    Block block = new Block(key);
    block.references = 1;
    byKey.put(key, block);
    referenced++;
    anonymous--;
    events.stored(key);
    return true;
  }

  /** Ends the use of a block with a key; it stays until evicted. */
  void release(long key) {
    Block block = byKey.get(key);
    if (block == null || block.references == 0) {
      throw new IllegalStateException("released a block that is not in use");
    }
    if (--block.references == 0) {
      referenced--;
      link(block);
    }
  }

  /** Ends the use of blocks without a key. */
  void releaseAnonymous(int blocks) {
    anonymous -= blocks;
  }

  /** Forgets everything, as after a restart. */
  void clear() {
    byKey.keySet().forEach(events::removed);
    byKey.clear();
    oldest = null;
    newest = null;
    anonymous = 0;
    referenced = 0;
  }

  private void link(Block block) {
    Block before = newest;
    block.older = before;
    if (before != null) {
      before.newer = block;
    } else {
      oldest = block;
    }
    newest = block;
  }

  private void unlink(Block block) {
    Block before = block.older;
    Block after = block.newer;
    if (before != null) {
      before.newer = after;
    } else if (oldest != null && oldest.equals(block)) {
      oldest = after;
    }
    if (after != null) {
      after.older = before;
    } else if (newest != null && newest.equals(block)) {
      newest = before;
    }
    block.older = null;
    block.newer = null;
  }
}
