// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import com.code_intelligence.jazzer.junit.FuzzTest;
import java.util.ArrayList;
import java.util.List;

/**
 * Any bytes as payload of an event message, read and put into an index that holds something
 * already.
 */
class KvPayloadFuzzTest {

  private final KvEventDecoder decoder = new KvEventDecoder();

  @FuzzTest(maxDuration = "10m")
  void anyPayloadIsReadWithoutHarm(byte[] payload) {
    PrefixIndex index = new PrefixIndex(new PrefixIndexConfig(1, 10_000));
    WorkerBlocks blocks = index.open(Fleet.worker(0, 1), KvViewState.LIVE, KvCacheListener.NONE);
    KvStream stream =
        new KvStream(blocks, false, KvStreamConfig.DEFAULT, decoder, KvCacheListener.NONE);
    stream.start(0);
    stream.onPublished(new KvMessage.Published("", 0, payload), 0, 0);
    stream.onPublished(new KvMessage.Published("", 1, payload), 0, 0);
    assertThat(blocks.references()).isGreaterThanOrEqualTo(blocks.blocks());
    assertThat(index.blocks()).isLessThanOrEqualTo(10_000);
    if (decoder.decode(payload) instanceof KvDecode.Decoded(KvBatch batch)) {
      for (KvEvent event : batch.events()) {
        if (event instanceof KvEvent.BlockStored stored) {
          PrefixMatch match = new PrefixMatch();
          index.lookup(BlockKeys.of(CacheIdentity.PLAIN, stored.tokens(), 1), match);
          assertThat(match.cachedTokens(blocks.worker()))
              .isBetween(0, Math.max(0, stored.tokens().length - 1));
        }
      }
    }
    stream.close();
    boolean hasMore = true;
    while (hasMore) {
      hasMore = index.sweep(1_000);
    }
    assertThat(index.keys()).isZero();
    assertThat(index.blocks()).isZero();
  }

  @FuzzTest(maxDuration = "10m")
  void anyFramesAreReadWithoutHarm(byte[] bytes) {
    // The first byte tells where to cut.
    List<byte[]> frames = new ArrayList<>();
    int step = bytes.length == 0 ? 1 : 1 + (bytes[0] & 0x1F);
    for (int at = 0; at < bytes.length && frames.size() < 6; at += step) {
      frames.add(java.util.Arrays.copyOfRange(bytes, at, Math.min(bytes.length, at + step)));
    }
    assertThat(KvMessage.ofPublished(frames)).isNotNull();
    if (!frames.isEmpty()) {
      frames.set(0, new byte[0]);
    }
    assertThat(KvMessage.ofReplayed(frames)).isNotNull();
  }
}
