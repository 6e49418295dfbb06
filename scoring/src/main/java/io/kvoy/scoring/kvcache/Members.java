// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Who the bits of the index stand for, frozen. A member is one content of one worker (of one of its
 * data-parallel ranks, if it has several): emptying a view or starting a new life takes a new
 * member at once, and the old one's bits are swept away later without anyone looking at them.
 *
 * <p>Made by the index writer, read by look-ups, which keep one snapshot from start to end.
 */
final class Members {

  static final Members NONE = new Members(new Member[0]);

  private final @Nullable Member[] byId;

  /** By slot: the ids of its worker's ranks, in order of the ranks. */
  private final int[][] idsBySlot;

  private static final int[] NO_IDS = {};

  /** Members that a look-up considers: block size known and state worth something. */
  final long[] lookable;

  /** Of these, the ones with blocks outside the GPU. */
  final long[] offloading;

  /** Of these, the ones with groups that can veto. */
  final long[] hybrid;

  /** Distinct distances, in canonical blocks, between the blocks of a worker. */
  final int[] strides;

  /** Greatest common divisor of the strides: nobody has blocks at other positions. */
  final int step;

  /** Members by stride. */
  final long[][] byStride;

  /**
   * One member.
   *
   * @param rank data-parallel rank of the worker
   * @param strideBlocks its block size in canonical blocks, 0 while unknown
   * @param vetoes its further cache groups
   */
  record Member(
      Worker worker,
      int rank,
      int id,
      int strideBlocks,
      boolean hasOffload,
      List<Veto> vetoes,
      KvViewState state) {
    Member {
      vetoes = List.copyOf(vetoes);
    }
  }

  /**
   * A further cache group of a hybrid model: a prefix can be used only if this group still has its
   * end.
   *
   * @param plane where the group's blocks are in {@link KeyTable}
   * @param strideBlocks its block size in canonical blocks
   * @param needBlocks how many of its blocks before the end of the prefix must be there
   */
  record Veto(int plane, int strideBlocks, int needBlocks) {}

  Members(@Nullable Member[] byId) {
    this.byId = byId;
    int words = (byId.length + 63) >>> 6;
    lookable = new long[words];
    offloading = new long[words];
    hybrid = new long[words];
    int slots = 0;
    for (Member member : byId) {
      slots = member == null ? slots : Math.max(slots, member.worker().slot() + 1);
    }
    idsBySlot = new int[slots][];
    Arrays.fill(idsBySlot, NO_IDS);
    List<Integer> distances = new ArrayList<>();
    List<long[]> masks = new ArrayList<>();
    for (Member member : byId) {
      if (member == null) {
        continue;
      }
      int slot = member.worker().slot();
      int[] ids = Arrays.copyOf(idsBySlot[slot], idsBySlot[slot].length + 1);
      ids[ids.length - 1] = member.id();
      idsBySlot[slot] = ids;
      if (member.strideBlocks() == 0 || member.state().trust() == KvViewState.Trust.NONE) {
        continue;
      }
      set(lookable, member.id());
      if (member.hasOffload()) {
        set(offloading, member.id());
      }
      if (!member.vetoes().isEmpty()) {
        set(hybrid, member.id());
      }
      int at = distances.indexOf(member.strideBlocks());
      if (at < 0) {
        at = distances.size();
        distances.add(member.strideBlocks());
        masks.add(new long[words]);
      }
      set(masks.get(at), member.id());
    }
    strides = distances.stream().mapToInt(Integer::intValue).toArray();
    int divisor = 0;
    for (int stride : strides) {
      divisor = gcd(stride, divisor);
    }
    step = Math.max(1, divisor);
    byStride = masks.toArray(long[][]::new);
  }

  /** A copy in which the id stands for {@code member}, or for nobody. */
  Members with(int id, @Nullable Member member) {
    @Nullable Member[] copy = Arrays.copyOf(byId, Math.max(byId.length, id + 1));
    copy[id] = member;
    int length = copy.length;
    while (length > 0 && copy[length - 1] == null) {
      length--;
    }
    return new Members(length == copy.length ? copy : Arrays.copyOf(copy, length));
  }

  /** One more than the highest id. */
  int size() {
    return byId.length;
  }

  @Nullable Member get(int id) {
    return id < byId.length ? byId[id] : null;
  }

  /** One more than the highest slot. */
  int slots() {
    return idsBySlot.length;
  }

  /** The ids that stand for the slot's present life, one per rank; not to be modified. */
  int[] atSlot(int slot) {
    return slot < idsBySlot.length ? idsBySlot[slot] : NO_IDS;
  }

  /** The ids that stand for this life of the worker, one per rank; not to be modified. */
  int[] of(Worker worker) {
    int[] ids = atSlot(worker.slot());
    if (ids.length > 0) {
      Member member = byId[ids[0]];
      if (member != null && member.worker().life() == worker.life()) {
        return ids;
      }
    }
    return NO_IDS;
  }

  private static int gcd(int a, int b) {
    return b == 0 ? a : gcd(b, a % b);
  }

  private static void set(long[] mask, int id) {
    mask[id >>> 6] |= 1L << id;
  }
}
