// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

/**
 * One candidate: an HTTP endpoint that serves models with one KV cache behind it.
 *
 * <p>A worker that is removed and added again is another worker: it gets a new {@link #slot} or a
 * new {@link #life}, and nothing that was known of the earlier life is believed.
 *
 * @param slot small dense number, unique among live workers; array index in every per-worker table
 * @param life counts the workers that have used this slot, so that late news of a dead one is told
 *     apart
 * @param name stable name for people and metrics
 * @param pool name of the pool it belongs to
 * @param endpoint where requests go
 * @param kv where its KV events come from
 */
public record Worker(
    int slot, long life, String name, String pool, Endpoint endpoint, KvPublishers kv) {}
