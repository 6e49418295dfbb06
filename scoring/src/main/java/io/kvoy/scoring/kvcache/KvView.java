// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.Worker;

/**
 * The view of a worker, or of one of its ranks, for people: state page, metrics, logs.
 *
 * @param rank data-parallel rank, 0 when there is one
 * @param cursor sequence of the last message applied, -1 before the first
 * @param blocks distinct blocks, those in several tiers counted in each
 * @param references physical copies
 * @param blockTokens the worker's block size, 0 while unknown
 */
public record KvView(
    Worker worker,
    int rank,
    KvViewState state,
    long cursor,
    int blocks,
    long references,
    int blockTokens,
    HashVerification hashes) {

  static KvView of(KvStream stream) {
    WorkerBlocks blocks = stream.blocks();
    return new KvView(
        blocks.worker(),
        blocks.rank(),
        blocks.state(),
        stream.cursor(),
        blocks.blocks(),
        blocks.references(),
        blocks.blockTokens(),
        blocks.hashVerification());
  }
}
