// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.Meter;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.DoubleSupplier;

/**
 * Makes meters from {@link Metric}s, all with the same first tag values, and removes them together.
 *
 * <p>Any thread; making a meter is slow and happens once per series.
 */
final class Meters implements AutoCloseable {
  private final MeterRegistry registry;
  private final List<String> leadingValues;
  private final ConcurrentLinkedQueue<Meter> made = new ConcurrentLinkedQueue<>();

  /** Meters whose first tags have the given values. */
  Meters(MeterRegistry registry, String... leadingValues) {
    this.registry = registry;
    this.leadingValues = List.of(leadingValues);
  }

  /** Meters with the same first tag values that are removed on their own. */
  Meters alike() {
    return new Meters(registry, leadingValues.toArray(String[]::new));
  }

  Counter counter(Metric metric, String... values) {
    require(metric, metric.type() == Metric.Type.COUNTER);
    return kept(
        Counter.builder(metric.registeredName())
            .description(metric.doc())
            .tags(tags(metric, values))
            .register(registry));
  }

  /** A counter that somebody else counts. */
  void counted(Metric metric, DoubleSupplier count, String... values) {
    require(metric, metric.type() == Metric.Type.COUNTER);
    kept(
        FunctionCounter.builder(metric.registeredName(), count, DoubleSupplier::getAsDouble)
            .description(metric.doc())
            .tags(tags(metric, values))
            .register(registry));
  }

  void gauge(Metric metric, DoubleSupplier value, String... values) {
    require(metric, metric.type() == Metric.Type.GAUGE);
    kept(
        Gauge.builder(metric.registeredName(), value::getAsDouble)
            .description(metric.doc())
            .tags(tags(metric, values))
            .strongReference(true)
            .register(registry));
  }

  Timer timer(Metric metric, String... values) {
    require(metric, metric.type().isTime());
    return kept(
        Timer.builder(metric.registeredName())
            .description(metric.doc())
            .tags(tags(metric, values))
            .serviceLevelObjectives(
                Arrays.stream(metric.type().buckets())
                    .mapToObj(seconds -> Duration.ofNanos(Math.round(seconds * 1e9)))
                    .toArray(Duration[]::new))
            .register(registry));
  }

  DistributionSummary summary(Metric metric, String... values) {
    require(metric, metric.type() == Metric.Type.TOKENS || metric.type() == Metric.Type.SIZES);
    return kept(
        DistributionSummary.builder(metric.registeredName())
            .description(metric.doc())
            .tags(tags(metric, values))
            .serviceLevelObjectives(metric.type().buckets())
            .register(registry));
  }

  private static void require(Metric metric, boolean isRightType) {
    if (!isRightType) {
      throw new IllegalArgumentException(metric + " is of type " + metric.type());
    }
  }

  private List<Tag> tags(Metric metric, String... values) {
    List<String> all = new ArrayList<>(metric.tags().isEmpty() ? List.of() : leadingValues);
    all.addAll(Arrays.asList(values));
    if (all.size() != metric.tags().size()) {
      throw new IllegalArgumentException(
          metric + " has the tags " + metric.tags() + ", values were " + all);
    }
    List<Tag> tags = new ArrayList<>(all.size());
    for (int i = 0; i < all.size(); i++) {
      tags.add(Tag.of(metric.tags().get(i).key(), all.get(i)));
    }
    return tags;
  }

  private <M extends Meter> M kept(M meter) {
    made.add(meter);
    return meter;
  }

  /** Takes all meters made here off the page. */
  @Override
  public void close() {
    for (Meter meter = made.poll(); meter != null; meter = made.poll()) {
      registry.remove(meter);
    }
  }
}
