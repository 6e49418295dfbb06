// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * What each worker has of one prompt. Filled by {@link PrefixIndex#lookup}, extended by {@link
 * SpeculativePrefixes#merge}; reusable, owned by one thread at a time.
 */
public final class PrefixMatch {

  private Members members = Members.NONE;
  private int blockSize = 1;
  private boolean wasContended;

  /**
   * Canonical blocks by member id: on the GPU; there or in host memory; in any tier; expected after
   * what we routed there.
   */
  int[] gpuBlocks = {};

  int[] cpuBlocks = {};
  int[] anyTierBlocks = {};
  int[] expectedBlocks = {};

  /** Working space of the look-up. */
  long[] alive = {};

  long[] aliveCpu = {};
  long[] aliveAnyTier = {};

  /** Workers whose prompts have other blocks than we think; mostly none. */
  private Set<Worker> distrusted = Set.of();

  /**
   * Tokens of the prompt that the worker can take from its GPU cache, a multiple of its own block
   * size. A worker of several data-parallel ranks chooses the rank by itself, so this is the mean
   * over its ranks: what can be expected before the choice is known.
   */
  public int cachedTokens(Worker worker) {
    return tokens(gpuBlocks, worker);
  }

  /** Tokens that it can take from any tier, GPU included; at least {@link #cachedTokens}. */
  public int cachedTokensAnyTier(Worker worker) {
    return tokens(anyTierBlocks, worker);
  }

  /** Tokens that come from the tier: the slower ones go on where the faster ones end. */
  public int cachedTokens(Worker worker, Tier tier) {
    return switch (tier) {
      case GPU -> tokens(gpuBlocks, worker);
      case CPU -> tokens(cpuBlocks, worker) - tokens(gpuBlocks, worker);
      case STORAGE -> tokens(anyTierBlocks, worker) - tokens(cpuBlocks, worker);
    };
  }

  /**
   * Tokens whose prefill is saved: those on the GPU whole, those in slower tiers by their share.
   */
  public double savedTokens(Worker worker, TierShares shares) {
    return cachedTokens(worker)
        + shares.cpu() * cachedTokens(worker, Tier.CPU)
        + shares.storage() * cachedTokens(worker, Tier.STORAGE);
  }

  /**
   * Tokens that it has in any tier, or will have once requests which we routed to it have been
   * read; at least {@link #cachedTokensAnyTier}.
   */
  public int expectedTokens(Worker worker) {
    return tokens(expectedBlocks, worker);
  }

  /**
   * How well the worker's cache is known, that of the least known rank; {@link KvViewState#DEAD}
   * when the index does not know this life.
   */
  public KvViewState view(Worker worker) {
    if (distrusted.contains(worker)) {
      return KvViewState.MISMATCHED;
    }
    KvViewState least = null;
    for (int id : members.of(worker)) {
      Members.Member member = members.get(id);
      if (member != null && (least == null || isLess(member.state(), least))) {
        least = member.state();
      }
    }
    return least == null ? KvViewState.DEAD : least;
  }

  private static boolean isLess(KvViewState a, KvViewState b) {
    int trust = a.trust().compareTo(b.trust());
    return trust < 0 || (trust == 0 && a.compareTo(b) > 0);
  }

  /** The worker's own block size in tokens, 0 while unknown. */
  public int blockTokens(Worker worker) {
    int stride = 0;
    for (int id : members.of(worker)) {
      Members.Member member = members.get(id);
      stride = member == null ? stride : Math.max(stride, member.strideBlocks());
    }
    return stride * blockSize;
  }

  /**
   * Whether the look-up gave up on a block since it was being moved all the time; matches may be
   * too short.
   */
  public boolean wasContended() {
    return wasContended;
  }

  /** From here on the worker has nothing of this prompt. */
  void distrust(Worker worker) {
    if (distrusted.isEmpty()) {
      distrusted = new HashSet<>();
    }
    distrusted.add(worker);
  }

  private int tokens(int[] blocks, Worker worker) {
    int[] ids = members.of(worker);
    if (ids.length == 0 || (!distrusted.isEmpty() && distrusted.contains(worker))) {
      return 0;
    }
    if (ids.length == 1) {
      return blocks[ids[0]] * blockSize;
    }
    long sum = 0;
    for (int id : ids) {
      sum += blocks[id];
    }
    return (int) (sum * blockSize / ids.length);
  }

  void reset(Members snapshot, int canonicalBlockSize) {
    members = snapshot;
    blockSize = canonicalBlockSize;
    wasContended = false;
    distrusted = Set.of();
    int size = snapshot.size();
    if (gpuBlocks.length < size) {
      gpuBlocks = new int[size];
      cpuBlocks = new int[size];
      anyTierBlocks = new int[size];
      expectedBlocks = new int[size];
    } else {
      Arrays.fill(gpuBlocks, 0, size, 0);
      Arrays.fill(cpuBlocks, 0, size, 0);
      Arrays.fill(anyTierBlocks, 0, size, 0);
      Arrays.fill(expectedBlocks, 0, size, 0);
    }
    int words = snapshot.lookable.length;
    if (alive.length < words) {
      alive = new long[words];
      aliveCpu = new long[words];
      aliveAnyTier = new long[words];
    }
  }

  /**
   * The worker is expected to have this many canonical blocks. If it has several ranks nobody knows
   * at which: at the one that has least, as far as we say.
   */
  void expect(int slot, long life, int blocks) {
    Members.Member least = null;
    for (int id : members.atSlot(slot)) {
      Members.Member member = members.get(id);
      if (member != null
          && member.worker().life() == life
          && member.state() != KvViewState.SILENT
          && (least == null || anyTierBlocks[id] < anyTierBlocks[least.id()])) {
        least = member;
      }
    }
    if (least != null) {
      int stride = Math.max(1, least.strideBlocks());
      int whole = blocks - blocks % stride;
      expectedBlocks[least.id()] = Math.max(expectedBlocks[least.id()], whole);
    }
  }

  void setContended() {
    wasContended = true;
  }

  Members members() {
    return members;
  }
}
