// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * One life of a worker, from its start to its end: empty caches, counters at zero and event
 * sequence numbers from 0. It has one engine per data parallel rank, usually one. What a restart
 * keeps belongs to {@link SimWorker}. Thread-safe.
 */
final class WorkerLife implements AutoCloseable {
  /**
   * Weight of a waiting request against a running one when a rank is chosen ({@code
   * DPLBAsyncMPClient}).
   */
  private static final int WAITING_WEIGHT = 4;

  /** One engine with its cache, counters and event publisher. */
  record Rank(EngineMetrics metrics, EngineLoop loop, @Nullable KvEventPublisher publisher) {}

  private final List<Rank> ranks = new ArrayList<>();
  private final SimClock clock;
  private final long startedUnixSeconds;
  private final AtomicLong ids;

  /**
   * @param events of each rank
   * @param number counts the lives of the worker; another one brings other ids and jitter
   */
  WorkerLife(SimOptions options, List<EventOptions> events, WordModel words, long number) {
    Supplier<Double> now = () -> System.currentTimeMillis() / 1e3;
    startedUnixSeconds = System.currentTimeMillis() / 1000;
    clock = new SimClock(options.timeScale());
    ids = new AtomicLong(SeededNoise.mix(options.seed() + number));
    try {
      for (int rank = 0; rank < events.size(); rank++) {
        ranks.add(rank(options, events.get(rank), words, rank, number, now));
      }
    } catch (RuntimeException e) {
      close();
      throw e;
    }
    ranks.forEach(rank -> rank.loop().start());
  }

  private Rank rank(
      SimOptions options,
      EventOptions events,
      WordModel words,
      int rank,
      long number,
      Supplier<Double> now) {
    String name = options.model() + (rank == 0 ? "" : "-" + rank);
    EngineMetrics metrics =
        new EngineMetrics(options.model(), rank, options.engine(), options.loras().size(), now);
    SimEngine engine =
        new SimEngine(options.engine(), words, metrics, options.seed() + number * 64 + rank);
    KvEventPublisher publisher = null;
    Consumer<List<KvEvent>> publish = _ -> {};
    if (!events.endpoint().isEmpty()) {
      publisher = new KvEventPublisher(name, events, rank, now);
      publisher.start();
      publish = publisher::publish;
    }
    return new Rank(metrics, new EngineLoop(name, engine, clock, publish), publisher);
  }

  List<Rank> ranks() {
    return ranks;
  }

  /** The rank for a request that names none: the one with the least to do, the first of equals. */
  Rank leastLoaded() {
    Rank best = ranks.getFirst();
    for (Rank rank : ranks) {
      if (load(rank) < load(best)) {
        best = rank;
      }
    }
    return best;
  }

  private static int load(Rank rank) {
    return WAITING_WEIGHT * rank.metrics().waiting() + rank.metrics().running();
  }

  int running() {
    return ranks.stream().mapToInt(rank -> rank.metrics().running()).sum();
  }

  int waiting() {
    return ranks.stream().mapToInt(rank -> rank.metrics().waiting()).sum();
  }

  /** Share of cache blocks in use on the fullest rank. */
  double usage() {
    return ranks.stream().mapToDouble(rank -> rank.metrics().usage()).max().orElse(0);
  }

  SimClock clock() {
    return clock;
  }

  long startedUnixSeconds() {
    return startedUnixSeconds;
  }

  /** 16 hex digits, never the same in one life. */
  String nextId() {
    return "%016x".formatted(SeededNoise.mix(ids.getAndAdd(0x9E3779B97F4A7C15L)));
  }

  /** Adapters by name, numbered in the order given. */
  static Map<String, EngineRequest.Lora> loras(SimOptions options) {
    Map<String, EngineRequest.Lora> loras = new LinkedHashMap<>();
    for (String lora : options.loras()) {
      int equals = lora.indexOf('=');
      String name = lora.substring(0, equals);
      loras.put(name, new EngineRequest.Lora(loras.size() + 1, name, lora.substring(equals + 1)));
    }
    return loras;
  }

  @Override
  public void close() {
    for (Rank rank : ranks) {
      rank.loop().close();
      KvEventPublisher publisher = rank.publisher();
      if (publisher != null) {
        publisher.close();
      }
    }
  }
}
