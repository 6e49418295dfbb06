// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.Worker;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class OwnKeyCheckTest {

  private static final long DELAY = 500;

  private long now;
  private final PrefixIndex index = new PrefixIndex(PrefixIndexConfig.DEFAULT);
  private final Worker worker = Fleet.worker(0, 1);
  private final WorkerBlocks blocks = index.open(worker, KvViewState.LIVE, KvCacheListener.NONE);
  private final OwnKeyCheck check = new OwnKeyCheck(index, () -> now, DELAY);

  private void answered(int... ids) {
    check.answered(worker, BlockKeys.of(CacheIdentity.PLAIN, ids, 16));
  }

  private void store(int first, int count) {
    long[] hashes = new long[count];
    Arrays.setAll(hashes, i -> first + i);
    blocks.apply(Fleet.batch(Fleet.stored(hashes, 0, Fleet.ids(first, 32 * count), 32)));
  }

  @Test
  void promptsAreComparedWithWhatTheEventsBroughtMeanwhile() {
    answered(Fleet.ids(100, 97));
    answered(Fleet.ids(5000, 97));
    answered(Fleet.ids(9000, 97));
    answered(Fleet.ids(9000, 10)); // no whole block

    assertThat(check.doWork()).isZero();
    store(100, 3);
    store(5000, 2);
    now += DELAY;

    assertThat(check.doWork()).isEqualTo(3);
    assertThat(check.parity(worker)).isEqualTo(new OwnKeyCheck.Parity(1, 1, 1));
    assertThat(check.parity(worker).absentShare()).isEqualTo(1.0 / 3);
  }

  @Test
  void wholeMeansWholeBlocksOfTheWorker() {
    store(100, 3);
    answered(Fleet.ids(100, 60)); // 3 canonical blocks, 1 of the worker
    now += DELAY;

    check.doWork();

    assertThat(check.parity(worker)).isEqualTo(new OwnKeyCheck.Parity(1, 0, 0));
  }

  @Test
  void viewsThatAreNotLiveProveNothing() {
    blocks.setState(KvViewState.PARTIAL);
    answered(Fleet.ids(100, 97));
    now += DELAY;

    check.doWork();

    assertThat(check.parity(worker)).isEqualTo(OwnKeyCheck.Parity.NONE);
  }

  @Test
  void workersThatLeftAreForgottenAndTheQueueIsBounded() {
    for (int i = 0; i < 5_000; i++) {
      answered(Fleet.ids(100, 97));
    }
    now += DELAY;
    assertThat(check.doWork()).isEqualTo(1024);
    assertThat(check.parity(worker).absent()).isEqualTo(1024);

    check.retain(List.of());
    assertThat(check.parity(worker)).isEqualTo(OwnKeyCheck.Parity.NONE);
  }
}
