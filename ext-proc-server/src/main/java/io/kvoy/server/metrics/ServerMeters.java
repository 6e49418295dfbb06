// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import io.kvoy.inference.ApiKind;
import io.micrometer.core.instrument.Counter;
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
  private final Timer kvEventAge;
  private final EnumCounters configReloads;
  private final WordCounters hubFetches;
  private final EnumCounters reports;
  private final Map<XdsType, EnumCounters> xdsAnswers = new EnumMap<>(XdsType.class);
  private final Counter xdsSnapshots;
  private final EnumCounters tlsReloads;

  /** What became of a change of the configuration file. */
  public enum Reload {
    OK,
    REJECTED
  }

  /** What became of an access log record of the proxy. */
  public enum Report {
    TAKEN,
    /** Its request is over, or was never ours. */
    UNKNOWN_ID,
    /** Of a request that was not routed by Kvoy. */
    WITHOUT_ID
  }

  /** What is sent over xDS. */
  public enum XdsType {
    CLUSTERS,
    ENDPOINTS,
    LISTENERS,
    ROUTES
  }

  /** What a proxy said to it. */
  public enum XdsAnswer {
    ACCEPTED,
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
    this.hubFetches = new WordCounters(meters, Metric.HUB_FETCHES);
    this.kvEventAge = meters.timer(Metric.KV_EVENT_AGE);
    this.configReloads = new EnumCounters(meters, Metric.CONFIG_RELOADS);
    this.reports = new EnumCounters(meters, Metric.REPORTS);
    for (XdsType type : XdsType.values()) {
      xdsAnswers.put(type, new EnumCounters(meters, Metric.XDS_ANSWERS, EnumCounters.word(type)));
    }
    this.tlsReloads = new EnumCounters(meters, Metric.TLS_RELOADS);
    this.xdsSnapshots = meters.counter(Metric.XDS_SNAPSHOTS);
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

  /** A hub repository was looked at; {@code result} is a word of ours. */
  public void hubFetch(String result) {
    hubFetches.increment(result);
  }

  /** An access log record came. */
  public void report(Report result) {
    reports.increment(result);
  }

  /** Certificate files changed; {@code result} is an enum of the reader's. */
  public void tlsReload(Enum<?> result) {
    tlsReloads.increment(result);
  }

  /** Shows how long the certificate lasts; called once. */
  public void bindTls(DoubleSupplier secondsLeft) {
    meters.gauge(Metric.TLS_SECONDS_LEFT, secondsLeft);
  }

  /** A configuration was published over xDS. */
  public void xdsSnapshot() {
    xdsSnapshots.increment();
  }

  /** A proxy answered to what it was sent. */
  public void xdsAnswer(XdsType type, XdsAnswer answer) {
    Objects.requireNonNull(xdsAnswers.get(type)).increment(answer);
  }

  /** Shows the proxies that are connected; called once. */
  public void bindXds(DoubleSupplier streams, DoubleSupplier rejecting) {
    meters.gauge(Metric.XDS_STREAMS, streams);
    meters.gauge(Metric.XDS_REJECTING, rejecting);
  }

  /** Shows how many answers are awaited from reports; called once. */
  public void bindAwaitedReports(DoubleSupplier awaited) {
    meters.gauge(Metric.REPORTS_AWAITED, awaited);
  }

  /** Shows the configuration's age; called once. */
  public void bindConfig(DoubleSupplier ageSeconds, BooleanSupplier isRejected) {
    meters.gauge(Metric.CONFIG_AGE, ageSeconds);
    meters.gauge(Metric.CONFIG_REJECTED, () -> isRejected.getAsBoolean() ? 1 : 0);
  }

  /** A batch of KV events is so old by the worker's clock. */
  public void kvEventAge(long nanos) {
    kvEventAge.record(nanos, TimeUnit.NANOSECONDS);
  }

  /** Shows the size of the index; called once. */
  public void bindIndex(DoubleSupplier entries, DoubleSupplier keys, DoubleSupplier bytes) {
    meters.gauge(Metric.INDEX_ENTRIES, entries);
    meters.gauge(Metric.INDEX_KEYS, keys);
    meters.gauge(Metric.INDEX_BYTES, bytes);
  }

  /** Shows how many workers' keys are not verified; called once. */
  public void bindUnverifiedWorkers(DoubleSupplier workers) {
    meters.gauge(Metric.UNVERIFIED_WORKERS, workers);
  }

  /** Shows how many blocks are expected at workers; called once. */
  public void bindSpeculative(DoubleSupplier blocks) {
    meters.gauge(Metric.SPECULATIVE_BLOCKS, blocks);
  }

  /** Shows how often an expectation ended so; called once per way. */
  public void bindSpeculativeEnd(String end, DoubleSupplier blocks) {
    meters.counted(Metric.SPECULATIVE_ENDED, blocks, end);
  }
}
