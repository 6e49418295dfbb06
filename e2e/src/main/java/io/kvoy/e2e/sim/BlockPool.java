// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The physical blocks of one worker's KV cache, by the rules of vLLM 0.32 ({@code
 * v1/core/block_pool.py}).
 *
 * <ul>
 *   <li>A block in use has references; a block without references waits in the free queue, still
 *       findable by its content until it is handed out again from the front of that queue. Handing
 *       it out is the eviction.
 *   <li>Freed blocks with content join the back of the queue (least recently used leaves first),
 *       freed blocks without content join the front.
 *   <li>Equal content may live in several blocks. Each was announced on its own and will be taken
 *       back on its own; lookups find the one stored first.
 * </ul>
 *
 * <p>Not thread-safe: belongs to the engine thread.
 */
final class BlockPool {

  /** One physical block. */
  static final class Block {
    private int references;
    private @Nullable Digest content;
    // Neighbours in the free queue; a block points at itself while it is not queued.
    private Block before = this;
    private Block after = this;

    private Block() {}

    int references() {
      return references;
    }

    @Nullable Digest content() {
      return content;
    }

    private void unlink() {
      before.after = after;
      after.before = before;
      before = this;
      after = this;
    }

    private void linkBefore(Block next) {
      before = next.before;
      after = next;
      before.after = this;
      next.before = this;
    }
  }

  private final int usableBlocks;
  private final List<KvEvent> events;
  // Head and tail of the free queue in one: its successor is the next to be handed out.
  private final Block ring = new Block();
  private final Map<Digest, List<Block>> byContent = new HashMap<>();
  private final List<Block> all;
  private int free;

  /**
   * @param usableBlocks blocks that requests can hold; vLLM's {@code num_gpu_blocks} is one more,
   *     its null block
   * @param events receives what happens, in order
   */
  BlockPool(int usableBlocks, List<KvEvent> events) {
    this.usableBlocks = usableBlocks;
    this.events = events;
    this.all = new ArrayList<>(usableBlocks);
    for (int i = 0; i < usableBlocks; i++) {
      Block block = new Block();
      block.linkBefore(ring);
      all.add(block);
    }
    free = usableBlocks;
  }

  int free() {
    return free;
  }

  /** Share of blocks held by requests, 0..1; blocks that are only cached do not count. */
  double usage() {
    return 1.0 - (double) free / usableBlocks;
  }

  /** Blocks whose content can be found. */
  int cached() {
    int count = 0;
    for (Block block : all) {
      if (block.content != null) {
        count++;
      }
    }
    return count;
  }

  /** The first stored block with this content, or null. */
  @Nullable Block lookup(Digest content) {
    List<Block> blocks = byContent.get(content);
    return blocks == null ? null : blocks.getFirst();
  }

  /** Adds a reference to each block, taking it out of the free queue where it was in. */
  void touch(List<Block> blocks) {
    for (Block block : blocks) {
      if (block.references == 0) {
        block.unlink();
        free--;
      }
      block.references++;
    }
  }

  /**
   * Hands out the block that was free longest, forgetting what it held. The caller checked {@link
   * #free()}.
   */
  Block take() {
    Block block = ring.after;
    if (block == ring) {
      throw new IllegalStateException("no free block; the caller must ask free() first");
    }
    block.unlink();
    free--;
    Digest content = block.content;
    if (content != null) {
      forget(block, content);
      events.add(new KvEvent.Removed(content));
    }
    block.references = 1;
    return block;
  }

  /** Makes a full block findable by its content. The caller announces it. */
  void store(Block block, Digest content) {
    if (block.content != null) {
      throw new IllegalStateException("block already holds " + block.content);
    }
    block.content = content;
    byContent.computeIfAbsent(content, _ -> new ArrayList<>(1)).add(block);
  }

  /**
   * Takes one reference off each block.
   *
   * @param tailFirst in order of eviction: the first one leaves first
   */
  void release(List<Block> tailFirst) {
    Block front = ring.after;
    for (Block block : tailFirst) {
      block.references--;
      if (block.references == 0) {
        free++;
        block.linkBefore(block.content == null ? front : ring);
        if (block.content != null && front == ring) {
          // The queue was empty of older blocks: what is appended stays behind what is put in
          // front.
          front = block;
        }
      }
    }
  }

  /** Empties the cache if nothing is in use; false, and nothing done, otherwise. */
  boolean reset() {
    if (free != usableBlocks) {
      return false;
    }
    byContent.clear();
    for (Block block : all) {
      block.content = null;
    }
    events.add(new KvEvent.AllCleared());
    return true;
  }

  private void forget(Block block, Digest content) {
    List<Block> blocks = byContent.get(content);
    if (blocks == null || !blocks.remove(block)) {
      throw new IllegalStateException("cached block is not in the table: " + content);
    }
    if (blocks.isEmpty()) {
      byContent.remove(content);
    }
    block.content = null;
  }
}
