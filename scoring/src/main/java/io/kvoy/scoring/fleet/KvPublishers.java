// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.fleet;

import java.util.ArrayList;
import java.util.List;

/**
 * Where a worker publishes its KV events: one pair of sockets for each data-parallel rank behind
 * its address, each with a sequence of its own (vLLM 0.32 {@code distributed/kv_events.py}).
 *
 * @param ranks in order; empty when the worker publishes nothing
 * @param bind whether Kvoy binds the event endpoints and the worker connects to them
 * @param topic prefix of its messages' topics, empty for any
 */
public record KvPublishers(List<Rank> ranks, boolean bind, String topic) {

  /** Publishes nothing. */
  public static final KvPublishers NONE = new KvPublishers(List.of(), false, "");

  /**
   * The sockets of one rank.
   *
   * @param events ZeroMQ endpoint of the publisher
   * @param replay ZeroMQ endpoint of the replay socket, empty when there is none
   */
  public record Rank(String events, String replay) {}

  public KvPublishers {
    ranks = List.copyOf(ranks);
  }

  /** A worker with one rank, or none when {@code events} is empty. */
  public static KvPublishers of(String events, String replay, boolean bind) {
    return events.isEmpty() ? NONE : new KvPublishers(List.of(new Rank(events, replay)), bind, "");
  }

  /**
   * {@code count} ranks, of which the first one has the given endpoints and each further one uses
   * ports one higher, as vLLM 0.32 does.
   */
  public static KvPublishers consecutive(
      String events, String replay, int count, boolean bind, String topic) {
    List<Rank> ranks = new ArrayList<>();
    for (int rank = 0; rank < count; rank++) {
      ranks.add(new Rank(atRank(events, rank), atRank(replay, rank)));
    }
    return new KvPublishers(ranks, bind, topic);
  }

  /**
   * The endpoint of rank {@code rank} when rank 0 has {@code endpoint}; unchanged for rank 0 and
   * for non-TCP ones.
   */
  public static String atRank(String endpoint, int rank) {
    int colon = endpoint.lastIndexOf(':');
    if (rank == 0 || !endpoint.startsWith("tcp://") || colon < "tcp://".length()) {
      return endpoint;
    }
    Endpoint address = Endpoint.parse(endpoint.substring("tcp://".length()));
    if (address == null || address.port() + rank > 65_535) {
      return endpoint;
    }
    return "tcp://" + new Endpoint(address.host(), address.port() + rank);
  }
}
