// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import io.kvoy.inference.ApiKind;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.Timer;
import java.util.EnumMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BooleanSupplier;
import java.util.function.DoubleSupplier;

/** Meters of the process as a whole. Any thread. */
public final class ServerMeters {
  private final Meters meters;
  private final Map<ApiKind, DistributionSummary> requestBytesByApi = new EnumMap<>(ApiKind.class);
  private final LongAdder openStreams = new LongAdder();
  private final EnumCounters streamsEnded;
  private final Timer kvApplyDelay;
  private final EnumCounters configReloads;

  /** What became of a change of the configuration file. */
  public enum Reload {
    OK,
    REJECTED
  }

  ServerMeters(Meters meters) {
    this.meters = meters;
    for (ApiKind api : ApiKind.values()) {
      requestBytesByApi.put(api, meters.summary(Metric.REQUEST_BYTES, EnumCounters.word(api)));
    }
    meters.gauge(Metric.STREAMS, openStreams::sum);
    this.streamsEnded = new EnumCounters(meters, Metric.STREAMS_ENDED);
    this.kvApplyDelay = meters.timer(Metric.KV_APPLY_DELAY);
    this.configReloads = new EnumCounters(meters, Metric.CONFIG_RELOADS);
  }

  /** A body of {@code bytes} was received. */
  public void requestBytes(ApiKind api, long bytes) {
    Objects.requireNonNull(requestBytesByApi.get(api)).record((double) bytes);
  }

  public void streamOpened() {
    openStreams.increment();
  }

  /** Exactly once for each {@link #streamOpened}. */
  public void streamClosed(StreamEnd end) {
    openStreams.decrement();
    streamsEnded.increment(end);
  }

  /** A batch of KV events waited this long to be applied. */
  public void kvApplyDelay(long nanos) {
    kvApplyDelay.record(nanos, TimeUnit.NANOSECONDS);
  }

  public void configReload(Reload result) {
    configReloads.increment(result);
  }

  /** Shows the configuration's age; called once. */
  public void bindConfig(DoubleSupplier ageSeconds, BooleanSupplier isRejected) {
    meters.gauge(Metric.CONFIG_AGE, ageSeconds);
    meters.gauge(Metric.CONFIG_REJECTED, () -> isRejected.getAsBoolean() ? 1 : 0);
  }

  /** Shows the size of the index; called once. */
  public void bindIndex(DoubleSupplier entries, DoubleSupplier bytes) {
    meters.gauge(Metric.INDEX_ENTRIES, entries);
    meters.gauge(Metric.INDEX_BYTES, bytes);
  }
}
