// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import io.kvoy.scoring.fleet.KvPublishers;
import io.kvoy.scoring.fleet.Worker;

/**
 * One publisher that is followed: a worker, or one of its data-parallel ranks. Each has its own
 * sockets, sequence and cache.
 */
record Feed(Worker worker, int rank) {

  /** ZeroMQ endpoint of its events; empty for a worker that publishes none. */
  String events() {
    return rank < worker.kv().ranks().size() ? sockets().events() : "";
  }

  /** ZeroMQ endpoint of its replay socket, empty when it has none. */
  String replay() {
    return rank < worker.kv().ranks().size() ? sockets().replay() : "";
  }

  boolean isBound() {
    return worker.kv().bind();
  }

  /** Prefix of the topics that are its own, empty for any. */
  String topic() {
    return worker.kv().topic();
  }

  /** For logs. */
  String name() {
    return worker.kv().ranks().size() > 1 ? worker.name() + "/rank-" + rank : worker.name();
  }

  private KvPublishers.Rank sockets() {
    return worker.kv().ranks().get(rank);
  }
}
