// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.Arrays;

/**
 * What each worker has of one prompt. Filled by {@link PrefixIndex#lookup}, extended by {@link
 * SpeculativePrefixes#merge}; reusable, owned by one thread at a time.
 */
public final class PrefixMatch {

  private Members members = Members.NONE;
  private int blockSize = 1;
  private boolean wasContended;

  /**
   * Canonical blocks by member id: on the GPU, in any tier, expected after what we routed there.
   */
  int[] gpuBlocks = {};

  int[] anyTierBlocks = {};
  int[] expectedBlocks = {};

  /** Working space of the look-up. */
  long[] alive = {};

  long[] aliveAnyTier = {};
  int[] setIds = {};

  /**
   * Tokens of the prompt that the worker can take from its GPU cache, a multiple of its own block
   * size.
   */
  public int cachedTokens(Worker worker) {
    return tokens(gpuBlocks, worker);
  }

  /** Tokens that it can take from any tier, GPU included; at least {@link #cachedTokens}. */
  public int cachedTokensAnyTier(Worker worker) {
    return tokens(anyTierBlocks, worker);
  }

  /**
   * Tokens that it has in any tier, or will have once requests which we routed to it have been
   * read; at least {@link #cachedTokensAnyTier}.
   */
  public int expectedTokens(Worker worker) {
    return tokens(expectedBlocks, worker);
  }

  /**
   * How well the worker's cache is known; {@link KvViewState#DEAD} when the index does not know
   * this life.
   */
  public KvViewState view(Worker worker) {
    Members.Member member = members.of(worker);
    return member == null ? KvViewState.DEAD : member.state();
  }

  /** The worker's own block size in tokens, 0 while unknown. */
  public int blockTokens(Worker worker) {
    Members.Member member = members.of(worker);
    return member == null ? 0 : member.strideBlocks() * blockSize;
  }

  /**
   * Whether the look-up gave up on a block since it was being moved all the time; matches may be
   * too short.
   */
  public boolean wasContended() {
    return wasContended;
  }

  private int tokens(int[] blocks, Worker worker) {
    Members.Member member = members.of(worker);
    return member == null ? 0 : blocks[member.id()] * blockSize;
  }

  void reset(Members snapshot, int canonicalBlockSize) {
    members = snapshot;
    blockSize = canonicalBlockSize;
    wasContended = false;
    int size = snapshot.size();
    if (gpuBlocks.length < size) {
      gpuBlocks = new int[size];
      anyTierBlocks = new int[size];
      expectedBlocks = new int[size];
    } else {
      Arrays.fill(gpuBlocks, 0, size, 0);
      Arrays.fill(anyTierBlocks, 0, size, 0);
      Arrays.fill(expectedBlocks, 0, size, 0);
    }
    int words = snapshot.lookable.length;
    if (alive.length < words) {
      alive = new long[words];
      aliveAnyTier = new long[words];
    }
  }

  /** The worker is expected to have this many canonical blocks. */
  void expect(int slot, long life, int blocks) {
    Members.Member member = members.atSlot(slot);
    if (member == null || member.worker().life() != life || member.state() == KvViewState.SILENT) {
      return;
    }
    int stride = Math.max(1, member.strideBlocks());
    int whole = blocks - blocks % stride;
    expectedBlocks[member.id()] = Math.max(expectedBlocks[member.id()], whole);
  }

  void setContended() {
    wasContended = true;
  }

  Members members() {
    return members;
  }
}
