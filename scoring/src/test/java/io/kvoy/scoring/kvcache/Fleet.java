// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Endpoint;
import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.kvcache.KvCacheListener.SkipReason;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** Workers, events and token ids for tests. */
final class Fleet {

  private Fleet() {}

  static Worker worker(int slot, long life) {
    return new Worker(
        slot,
        life,
        "w" + slot,
        "pool",
        new Endpoint("10.0.0." + (slot % 250 + 1), 8000),
        KvPublishers.NONE);
  }

  static int[] ids(int from, int count) {
    return IntStream.range(from, from + count).toArray();
  }

  static int[] concat(int[]... parts) {
    return Arrays.stream(parts).flatMapToInt(Arrays::stream).toArray();
  }

  static KvEvent.BlockStored stored(long[] hashes, long parent, int[] tokens, int blockSize) {
    return stored(hashes, parent, tokens, blockSize, null, null);
  }

  static KvEvent.BlockStored stored(
      long[] hashes,
      long parent,
      int[] tokens,
      int blockSize,
      @org.jspecify.annotations.Nullable String lora,
      @org.jspecify.annotations.Nullable String salt) {
    return new KvEvent.BlockStored(
        hashes,
        parent != 0,
        parent,
        tokens,
        blockSize,
        lora,
        null,
        salt,
        List.of(),
        Tier.GPU,
        KvEvent.NO_GROUP,
        GroupKind.UNSTATED,
        0);
  }

  static KvEvent.BlockRemoved removed(long... hashes) {
    return new KvEvent.BlockRemoved(hashes, Tier.GPU, KvEvent.NO_GROUP);
  }

  static KvBatch batch(KvEvent... events) {
    return new KvBatch(1.0, List.of(events), 0);
  }

  static byte[] hex(String hex) {
    return HexFormat.of().parseHex(hex.strip());
  }

  /** Counts what it hears. */
  static final class Heard implements KvCacheListener {
    final Map<SkipReason, Integer> skipped = new EnumMap<>(SkipReason.class);
    final Map<KvDecodeError.Kind, Integer> malformed = new EnumMap<>(KvDecodeError.Kind.class);
    final List<String> log = new ArrayList<>();
    int gaps;
    int restarts;
    int duplicates;
    int cleared;
    int batches;
    Runnable onQueueFull = () -> {};

    @Override
    public void onQueueFull(Worker worker) {
      onQueueFull.run();
    }

    @Override
    public void onBatch(Worker worker, KvBatch batch, long queuedNanos) {
      batches++;
    }

    @Override
    public void onCleared(Worker worker) {
      cleared++;
    }

    @Override
    public void onSkipped(Worker worker, SkipReason reason, int blocks) {
      skipped.merge(reason, blocks, Integer::sum);
    }

    @Override
    public void onMalformed(Worker worker, KvDecodeError.Kind kind) {
      malformed.merge(kind, 1, Integer::sum);
    }

    @Override
    public void onGap(Worker worker, long expected, long seen) {
      gaps++;
      log.add("gap " + expected + " " + seen);
    }

    @Override
    public void onRestart(Worker worker) {
      restarts++;
    }

    @Override
    public void onDuplicate(Worker worker) {
      duplicates++;
    }

    @Override
    public void onReplayAsked(Worker worker, long fromSequence) {
      log.add("replay from " + fromSequence);
    }

    @Override
    public void onReplayEnded(Worker worker, ReplayEnd end, int batches) {
      log.add("replay " + end);
    }

    @Override
    public void onState(Worker worker, KvViewState from, KvViewState to) {
      log.add(from + " -> " + to);
    }
  }
}
