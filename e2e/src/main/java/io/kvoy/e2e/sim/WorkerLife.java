// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.sim;

import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * One life of a worker, from its start to its end: an empty cache, counters at zero and event
 * sequence numbers from 0. What a restart keeps belongs to {@link SimWorker}. Thread-safe.
 */
final class WorkerLife implements AutoCloseable {
  private final EngineMetrics metrics;
  private final EngineLoop loop;
  private final @Nullable KvEventPublisher publisher;
  private final SimClock clock;
  private final long startedUnixSeconds;
  private final AtomicLong ids;

  WorkerLife(SimOptions options, WordModel words, long number) {
    Supplier<Double> now = () -> System.currentTimeMillis() / 1e3;
    startedUnixSeconds = System.currentTimeMillis() / 1000;
    clock = new SimClock(options.timeScale());
    ids = new AtomicLong(SeededNoise.mix(options.seed() + number));
    metrics = new EngineMetrics(options.model(), options.engine(), options.loras().size(), now);
    SimEngine engine = new SimEngine(options.engine(), words, metrics, options.seed() + number);
    Consumer<List<KvEvent>> publish;
    if (options.events().endpoint().isEmpty()) {
      publisher = null;
      publish = _ -> {};
    } else {
      KvEventPublisher zmq = new KvEventPublisher(options.model(), options.events(), now);
      zmq.start();
      publisher = zmq;
      publish = zmq::publish;
    }
    loop = new EngineLoop(options.model(), engine, clock, publish);
    loop.start();
  }

  EngineMetrics metrics() {
    return metrics;
  }

  EngineLoop loop() {
    return loop;
  }

  @Nullable KvEventPublisher publisher() {
    return publisher;
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
    Map<String, EngineRequest.Lora> loras = new java.util.LinkedHashMap<>();
    for (String lora : options.loras()) {
      int equals = lora.indexOf('=');
      String name = lora.substring(0, equals);
      loras.put(name, new EngineRequest.Lora(loras.size() + 1, name, lora.substring(equals + 1)));
    }
    return loras;
  }

  @Override
  public void close() {
    loop.close();
    KvEventPublisher zmq = publisher;
    if (zmq != null) {
      zmq.close();
    }
  }
}
