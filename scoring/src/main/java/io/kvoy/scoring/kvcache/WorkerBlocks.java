// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.KvCacheListener.SkipReason;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One life of one worker, or of one of its data-parallel ranks, in the {@link PrefixIndex}: turns
 * its events into entries.
 *
 * <h2>Rules (vLLM 0.32, recorded sessions)</h2>
 *
 * <ul>
 *   <li>A hash that is stored twice has two physical copies and must be removed twice.
 *   <li>A client may have the prefix that its request hit announced once more ({@code
 *       kv_cache_report_mode}); no removal belongs to that. It shows as a chain's beginning of
 *       which everything is there, directly before the blocks that continue it, and is not counted.
 *       (A model with one cache group never computes the beginning of a chain again that it holds,
 *       except for requests that ask for prompt log probabilities.)
 *   <li>A block is placed behind its parent's key; one whose parent is unknown is an orphan and
 *       left out.
 *   <li>Placeholders of offloading connectors (no tokens) take the key that the hash already has in
 *       another tier.
 *   <li>Of a hybrid model's groups the first full attention group is the main one. The others carry
 *       the same hashes and take their keys from it, in whichever order the events come.
 *   <li>A group vetoes matches only after one of its hashes was placed: a group that never agrees
 *       with the main one is not understood, and must not hide what is there.
 * </ul>
 *
 * <p>Index writer thread only. After {@link #close} nothing has an effect any more.
 */
public final class WorkerBlocks {

  private static final int GPU = Tier.GPU.plane();
  private static final int FIRST_GROUP_PLANE = Tier.COUNT;
  private static final int NO_PLANE = -1;

  /** Blocks that are taken out one by one when the view is emptied: some microseconds of work. */
  private static final int FEW_BLOCKS = 256;

  private static final long[] NO_HASHES = {};

  private final PrefixIndex index;
  private final Worker worker;
  private final int rank;
  private final KvCacheListener listener;
  private int member;
  private KvViewState state;
  private boolean isClosed;

  private @Nullable EngineTable[] planes = new @Nullable EngineTable[KeyTable.MAX_PLANES];

  /**
   * Own keys that more than one hash leads to, per plane; such a key stays until the last hash is
   * gone.
   */
  private EngineTable.@Nullable LongCounts[] shared =
      new EngineTable.@Nullable LongCounts[KeyTable.MAX_PLANES];

  private final List<Group> groups = new ArrayList<>();
  private int mainGroup = KvEvent.NO_GROUP;
  private int blockTokens;
  private boolean hasOffload;

  /** Blocks of the last event, if it began a chain and brought only what was there already. */
  private long[] repeated = NO_HASHES;

  private HashVerification hashes = new HashVerification.Pending(0);

  WorkerBlocks(
      PrefixIndex index,
      Worker worker,
      int rank,
      int member,
      KvViewState state,
      KvCacheListener listener) {
    this.index = index;
    this.worker = worker;
    this.rank = rank;
    this.member = member;
    this.state = state;
    this.listener = listener;
  }

  /** A cache group other than the main one. */
  private static final class Group {
    final int number;
    final int plane;
    final int blockTokens;
    final int needBlocks;
    boolean hasPlaced;

    Group(int number, int plane, int blockTokens, int needBlocks) {
      this.number = number;
      this.plane = plane;
      this.blockTokens = blockTokens;
      this.needBlocks = needBlocks;
    }
  }

  /** Applies the events of a batch in their order. */
  public void apply(KvBatch batch) {
    if (isClosed) {
      listener.onSkipped(worker, SkipReason.DEAD_LIFE, batch.events().size());
      return;
    }
    for (KvEvent event : batch.events()) {
      switch (event) {
        case KvEvent.BlockStored stored -> stored(stored);
        case KvEvent.BlockRemoved removed -> removed(removed);
        case KvEvent.AllBlocksCleared _ -> {
          clear();
          listener.onCleared(worker);
        }
        case KvEvent.Unknown _ -> skip(SkipReason.UNKNOWN_KIND, 1);
      }
    }
  }

  /**
   * The publisher started anew: forgets all blocks and what was learned about groups and block
   * size.
   */
  public void restart() {
    clear();
    if (!isClosed) {
      groups.clear();
      mainGroup = KvEvent.NO_GROUP;
      blockTokens = 0;
      hashes = new HashVerification.Pending(0);
      index.publish(member());
    }
  }

  /** Forgets all blocks, at once for look-ups. */
  public void clear() {
    if (isClosed || names() == 0) {
      return;
    }
    if (names() <= FEW_BLOCKS) {
      clearFew();
      return;
    }
    int old = member;
    @Nullable EngineTable[] oldPlanes = planes;
    member = index.newId();
    planes = new @Nullable EngineTable[KeyTable.MAX_PLANES];
    shared = new EngineTable.@Nullable LongCounts[KeyTable.MAX_PLANES];
    hasOffload = false;
    repeated = NO_HASHES;
    index.retire(old, oldPlanes, member());
    index.placements.emptied(worker);
  }

  /**
   * Takes a few blocks out one by one. A new member costs as much as there are workers: too much
   * for a batch in which each block is followed by a clearing.
   */
  private void clearFew() {
    for (int plane = 0; plane < planes.length; plane++) {
      EngineTable table = planes[plane];
      if (table != null) {
        int at = plane;
        for (int slot = 0; slot >= 0; ) {
          slot = table.sweep(slot, Integer.MAX_VALUE, key -> index.remove(at, key, member));
        }
        index.forget(table.size());
      }
    }
    planes = new @Nullable EngineTable[KeyTable.MAX_PLANES];
    shared = new EngineTable.@Nullable LongCounts[KeyTable.MAX_PLANES];
    repeated = NO_HASHES;
    index.placements.emptied(worker);
  }

  /**
   * The life is over: look-ups no longer find it, and events that are still queued have no effect.
   */
  public void close() {
    if (!isClosed) {
      isClosed = true;
      state = KvViewState.DEAD;
      index.retire(member, planes, null);
      index.placements.emptied(worker);
      planes = new @Nullable EngineTable[KeyTable.MAX_PLANES];
    }
  }

  /** How far the view can be trusted from now on. */
  public void setState(KvViewState newState) {
    if (!isClosed && newState != state) {
      state = newState;
      index.publish(member());
    }
  }

  public KvViewState state() {
    return state;
  }

  public Worker worker() {
    return worker;
  }

  /** The data-parallel rank, 0 when there is one. */
  public int rank() {
    return rank;
  }

  /** Distinct blocks of the main group, over all tiers (a block in two tiers counts twice). */
  public int blocks() {
    int total = 0;
    for (int plane = 0; plane < FIRST_GROUP_PLANE; plane++) {
      EngineTable table = planes[plane];
      total += table == null ? 0 : table.size();
    }
    return total;
  }

  /** Physical copies of blocks of the main group, over all tiers. */
  public long references() {
    long total = 0;
    for (int plane = 0; plane < FIRST_GROUP_PLANE; plane++) {
      EngineTable table = planes[plane];
      total += table == null ? 0 : table.references();
    }
    return total;
  }

  /** The worker's block size in tokens, 0 until an event told it. */
  public int blockTokens() {
    return blockTokens;
  }

  /** What is known of the engine's hashes. */
  public HashVerification hashVerification() {
    return hashes;
  }

  /** Memory of the worker's own tables. */
  public long bytes() {
    long total = 0;
    for (int plane = 0; plane < planes.length; plane++) {
      EngineTable table = planes[plane];
      EngineTable.LongCounts counts = shared[plane];
      total += (table == null ? 0 : table.bytes()) + (counts == null ? 0 : counts.bytes());
    }
    return total;
  }

  /** Whether a block with this engine hash is in the main group's GPU cache. */
  public boolean holds(long engineHash) {
    EngineTable table = planes[GPU];
    return table != null && table.key(engineHash) != EngineTable.ABSENT;
  }

  Members.Member member() {
    int canonical = index.blockSize();
    List<Members.Veto> vetoes = new ArrayList<>();
    for (Group group : groups) {
      if (group.hasPlaced) {
        vetoes.add(new Members.Veto(group.plane, group.blockTokens / canonical, group.needBlocks));
      }
    }
    return new Members.Member(
        worker, rank, member, blockTokens / canonical, hasOffload, vetoes, state);
  }

  private long names() {
    long total = 0;
    for (EngineTable table : planes) {
      total += table == null ? 0 : table.size();
    }
    return total;
  }

  private void stored(KvEvent.BlockStored event) {
    int plane = planeOf(event);
    if (plane == NO_PLANE || event.hashes().length == 0) {
      return;
    }
    int added;
    if (event.tokens().length == 0 || event.blockSize() == 0) {
      added = storedByHash(event, plane, SkipReason.ORPHAN);
    } else if (plane >= FIRST_GROUP_PLANE) {
      added = storedInGroup(event, plane);
    } else {
      added = storedInChain(event, plane);
    }
    if (added > 0) {
      listener.onStored(worker, event.tier(), added);
    }
  }

  /** Blocks of the main group, with their tokens. */
  private int storedInChain(KvEvent.BlockStored event, int plane) {
    int count = event.hashes().length;
    int canonical = index.blockSize();
    if (!event.isDense()) {
      skip(SkipReason.NOT_DENSE, count);
      return 0;
    }
    if (event.blockSize() % canonical != 0
        || (blockTokens != 0 && event.blockSize() != blockTokens)) {
      skip(SkipReason.BLOCK_SIZE, count);
      if (event.blockSize() % canonical != 0) {
        listener.onRefusedBlockSize(worker, event.blockSize());
      }
      return 0;
    }
    long key;
    if (event.hasParent()) {
      key = keyInAnyTier(event.parent());
      if (key == EngineTable.ABSENT) {
        skip(SkipReason.ORPHAN, count);
        return 0;
      }
    } else {
      key = root(event);
      verify(event);
    }
    if (blockTokens == 0) {
      blockTokens = event.blockSize();
      index.publish(member());
    }
    if (event.hasParent()
        && repeated.length > 0
        && event.parent() == repeated[repeated.length - 1]) {
      takeBackRepeated(plane);
    }
    boolean isRepeat = !event.hasParent() && plane == GPU && count > 1 && holdsAll(event.hashes());
    repeated = isRepeat && groups.isEmpty() ? event.hashes() : NO_HASHES;
    int added = 0;
    int opaque = 0;
    for (int i = 0; i < count; i++) {
      KvEvent.Extras extras =
          i < event.extras().size() ? event.extras().get(i) : KvEvent.Extras.NONE;
      if (key == EngineTable.UNPLACED || extras.isOpaque()) {
        key = EngineTable.UNPLACED;
        opaque++;
      } else {
        key = keyOf(key, event, i, extras);
      }
      added += put(plane, event.hashes()[i], key) ? 1 : 0;
    }
    if (opaque > 0) {
      skip(SkipReason.OPAQUE, opaque);
    }
    return added;
  }

  private boolean holdsAll(long[] blocks) {
    for (long hash : blocks) {
      if (!holds(hash)) {
        return false;
      }
    }
    return true;
  }

  private void takeBackRepeated(int plane) {
    EngineTable table = planes[plane];
    for (long hash : repeated) {
      if (table != null) {
        table.removeCopy(hash);
      }
    }
    skip(SkipReason.REPEATED, repeated.length);
  }

  private void verify(KvEvent.BlockStored event) {
    HashVerification now = index.verifier.after(hashes, event);
    if (!now.equals(hashes)) {
      hashes = now;
      listener.onHashes(worker, now);
    }
  }

  /**
   * The canonical blocks of the event's block {@code i} behind {@code parent}: the last one's key.
   */
  private long keyOf(long parent, KvEvent.BlockStored event, int i, KvEvent.Extras extras) {
    int canonical = index.blockSize();
    int start = i * event.blockSize();
    long key = parent;
    for (int at = 0; at < event.blockSize(); at += canonical) {
      key = KeyChain.block(key, event.tokens(), start + at, canonical);
      for (KvEvent.MediaRef item : extras.media()) {
        // Items that began in an earlier block are in its key already.
        if (item.offset() >= at && item.offset() < at + canonical) {
          key = KeyChain.withMedia(key, item.identifier(), item.offset() - at);
        }
      }
    }
    return key;
  }

  private static long root(KvEvent.BlockStored event) {
    String salt = event.cacheSalt();
    if (salt == null && !event.extras().isEmpty()) {
      salt = event.extras().getFirst().salt();
    }
    String lora = event.loraName();
    Long id = event.loraId();
    if (lora == null && id != null) {
      // Before vLLM 0.14 only the number is told. It must not pass for the base model, and no
      // request asks for it.
      lora = "\0lora-id " + id;
    }
    return KeyChain.root(lora, salt);
  }

  /** Blocks named by hashes alone: they have the key that the hash has in another tier. */
  private int storedByHash(KvEvent.BlockStored event, int plane, SkipReason otherwise) {
    int added = 0;
    int skipped = 0;
    for (long hash : event.hashes()) {
      long key = keyInAnyTier(hash);
      if (key == EngineTable.ABSENT) {
        skipped++;
      } else {
        added += put(plane, hash, key) ? 1 : 0;
      }
    }
    if (skipped > 0) {
      skip(otherwise, skipped);
    }
    return added;
  }

  /** Blocks of a further group: placed through the main group, now or when that one names them. */
  private int storedInGroup(KvEvent.BlockStored event, int plane) {
    int added = 0;
    int unplaced = 0;
    for (long hash : event.hashes()) {
      long key = keyInAnyTier(hash);
      if (key == EngineTable.ABSENT) {
        key = EngineTable.UNPLACED;
        unplaced++;
      } else {
        notePlaced(plane);
      }
      added += put(plane, hash, key) ? 1 : 0;
    }
    if (unplaced > 0) {
      skip(SkipReason.WINDOW_GROUP, unplaced);
    }
    return added;
  }

  private void notePlaced(int plane) {
    for (Group group : groups) {
      if (group.plane == plane && !group.hasPlaced) {
        group.hasPlaced = true;
        index.publish(member());
      }
    }
  }

  /** Adds a copy of the block; false when the index is full. */
  private boolean put(int plane, long hash, long key) {
    EngineTable table = planes[plane];
    if (table == null) {
      table = new EngineTable();
      planes[plane] = table;
    }
    long known = table.key(hash);
    if (known == key
        || (known != EngineTable.ABSENT && key == EngineTable.UNPLACED)
        || (known != EngineTable.UNPLACED && table.isToldApart(hash))) {
      // A worker that gives one hash to several blocks keeps the block that had it.
      table.addCopy(hash);
      if (plane == GPU && known != EngineTable.UNPLACED) {
        index.placements.placed(worker, known);
      }
      return true;
    }
    if (known == EngineTable.UNPLACED) {
      table.place(hash, key);
      table.addCopy(hash);
      enter(plane, key);
    } else {
      if (index.isFull()) {
        skip(SkipReason.INDEX_FULL, 1);
        return false;
      }
      table.put(hash, key);
      index.remember();
      if (key != EngineTable.UNPLACED) {
        enter(plane, key);
      }
    }
    if (plane == GPU && key != EngineTable.UNPLACED && !groups.isEmpty()) {
      placeInGroups(hash, key);
    }
    return true;
  }

  private void enter(int plane, long key) {
    if (!index.add(plane, key, member)) {
      EngineTable.LongCounts counts = shared[plane];
      if (counts == null) {
        counts = new EngineTable.LongCounts();
        shared[plane] = counts;
      }
      counts.increment(key);
    }
    if (plane == GPU) {
      index.placements.placed(worker, key);
    }
    if (!hasOffload && plane > GPU && plane < FIRST_GROUP_PLANE) {
      hasOffload = true;
      index.publish(member());
    }
  }

  /** The main group has named a block that further groups may have announced before. */
  private void placeInGroups(long hash, long key) {
    for (Group group : groups) {
      EngineTable table = planes[group.plane];
      if (table != null && table.unplaced() > 0 && table.key(hash) == EngineTable.UNPLACED) {
        table.place(hash, key);
        enter(group.plane, key);
        notePlaced(group.plane);
      }
    }
  }

  private void removed(KvEvent.BlockRemoved event) {
    int plane = planeOf(event);
    EngineTable table = plane == NO_PLANE ? null : planes[plane];
    SkipReason unknown =
        plane >= FIRST_GROUP_PLANE || (plane == NO_PLANE && mainGroup != KvEvent.NO_GROUP)
            ? SkipReason.SKIPPED_GROUP_REMOVAL
            : SkipReason.UNKNOWN_REMOVAL;
    if (table == null) {
      skip(unknown, event.hashes().length);
      return;
    }
    int removed = 0;
    for (long hash : event.hashes()) {
      if (table.removeCopy(hash)) {
        removed++;
        continue;
      }
      long key = table.remove(hash);
      if (key == EngineTable.ABSENT) {
        skip(unknown, 1);
        continue;
      }
      removed++;
      index.forget();
      if (key != EngineTable.UNPLACED) {
        EngineTable.LongCounts counts = shared[plane];
        if (counts == null || !counts.decrement(key)) {
          index.remove(plane, key, member);
          if (plane == GPU) {
            index.placements.removed(worker, key);
          }
        }
      }
    }
    if (removed > 0) {
      listener.onRemoved(worker, event.tier(), removed);
    }
  }

  private long keyInAnyTier(long hash) {
    for (int plane = 0; plane < FIRST_GROUP_PLANE; plane++) {
      EngineTable table = planes[plane];
      long key = table == null ? EngineTable.ABSENT : table.key(hash);
      if (key != EngineTable.ABSENT) {
        return key;
      }
    }
    return EngineTable.ABSENT;
  }

  private int planeOf(KvEvent.BlockStored event) {
    int count = Math.max(1, event.hashes().length);
    if (isMain(event)) {
      mainGroup = event.group() == KvEvent.NO_GROUP ? mainGroup : event.group();
      return event.tier().plane();
    }
    if (event.tier() != Tier.GPU) {
      skip(SkipReason.WINDOW_GROUP, count);
      return NO_PLANE;
    }
    for (Group group : groups) {
      if (group.number == event.group()) {
        return group.plane;
      }
    }
    return newGroup(event, count);
  }

  private boolean isMain(KvEvent.BlockStored event) {
    boolean isFirst = mainGroup == KvEvent.NO_GROUP;
    return switch (event.kind()) {
      case FULL -> isFirst || event.group() == KvEvent.NO_GROUP || event.group() == mainGroup;
      // vLLM before 0.22 and SGLang do not say; vLLM 0.20 and 0.21 number the groups.
      case UNSTATED ->
          event.group() == KvEvent.NO_GROUP || event.group() == (isFirst ? 0 : mainGroup);
      case WINDOW, STATE, OTHER -> false;
    };
  }

  private int newGroup(KvEvent.BlockStored event, int count) {
    int size = event.blockSize();
    int need =
        switch (event.kind()) {
          case FULL -> Integer.MAX_VALUE;
          case STATE -> 1;
          // vLLM 0.32 v1/core/single_type_kv_cache_manager.py: ceil((window - 1) / block size), at
          // least one.
          case WINDOW ->
              event.windowTokens() > 0 && size > 0
                  ? Math.max(1, (event.windowTokens() - 1 + size - 1) / size)
                  : 0;
          case OTHER, UNSTATED -> 0;
        };
    if (need == 0 || groups.size() == KeyTable.MAX_PLANES - FIRST_GROUP_PLANE) {
      skip(SkipReason.UNKNOWN_KIND, count);
      return NO_PLANE;
    }
    if (size == 0 || size % index.blockSize() != 0) {
      skip(SkipReason.BLOCK_SIZE, count);
      return NO_PLANE;
    }
    Group group = new Group(event.group(), FIRST_GROUP_PLANE + groups.size(), size, need);
    groups.add(group);
    return group.plane;
  }

  private int planeOf(KvEvent.BlockRemoved event) {
    if (event.group() == KvEvent.NO_GROUP || event.group() == mainGroup) {
      return event.tier().plane();
    }
    for (Group group : groups) {
      if (group.number == event.group() && event.tier() == Tier.GPU) {
        return group.plane;
      }
    }
    return NO_PLANE;
  }

  private void skip(SkipReason reason, int blocks) {
    listener.onSkipped(worker, reason, blocks);
  }
}
