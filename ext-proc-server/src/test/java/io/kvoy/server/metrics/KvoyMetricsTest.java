// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.metrics;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.kvoy.inference.ApiKind;
import io.kvoy.scoring.kvcache.KvCacheListener.SkipReason;
import io.kvoy.scoring.kvcache.KvViewState;
import io.kvoy.scoring.kvcache.OwnKeyCheck;
import io.kvoy.scoring.kvcache.OwnKeys;
import io.kvoy.scoring.kvcache.Tier;
import io.kvoy.scoring.latency.ErrorStats;
import io.kvoy.server.docs.GeneratedPage;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class KvoyMetricsTest {
  private static final int MAX_WORKERS = 5;

  private static final Pattern SAMPLE =
      Pattern.compile("([a-z0-9_]+)(?:\\{([^}]*)\\})? ([-+0-9.eEaNInf]+)");
  private static final Pattern LABEL = Pattern.compile("([a-z_]+)=\"([^\"]*)\"");

  private final List<String> failedRegistrations = new ArrayList<>();
  private final PrometheusMeterRegistry registry =
      new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
  private final KvoyMetrics metrics = create();

  private KvoyMetrics create() {
    registry.config().onMeterRegistrationFailed((id, why) -> failedRegistrations.add(id + why));
    return new KvoyMetrics(registry, MAX_WORKERS);
  }

  private enum View {
    LIVE,
    STALE
  }

  private enum Skip {
    ORPHAN
  }

  @AfterEach
  void close() {
    metrics.close();
  }

  private record Series(String name, Map<String, String> labels, double value) {}

  private String page() throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    metrics.writePage(out);
    return out.toString(StandardCharsets.UTF_8);
  }

  private List<Series> series() throws IOException {
    List<Series> all = new ArrayList<>();
    for (String line : page().split("\n", -1)) {
      Matcher sample = SAMPLE.matcher(line);
      if (line.startsWith("kvoy_") && sample.matches()) {
        Map<String, String> labels = new HashMap<>();
        Matcher label = LABEL.matcher(sample.group(2) == null ? "" : sample.group(2));
        while (label.find()) {
          labels.put(label.group(1), label.group(2));
        }
        all.add(
            new Series(
                sample.group(1), labels, Double.parseDouble(sample.group(3).replace("+", ""))));
      }
    }
    return all;
  }

  private double value(String name, String... labels) throws IOException {
    Map<String, String> wanted = new HashMap<>();
    for (int i = 0; i < labels.length; i += 2) {
      wanted.put(labels[i], labels[i + 1]);
    }
    return series().stream()
        .filter(s -> s.name().equals(name) && s.labels().equals(wanted))
        .mapToDouble(Series::value)
        .findFirst()
        .orElseThrow(() -> new AssertionError("no " + name + wanted));
  }

  /** Touches every method of every handle. */
  private void exerciseAll() {
    ServerMeters server = metrics.server();
    for (ApiKind api : ApiKind.values()) {
      server.requestBytes(api, 2048);
    }
    server.streamOpened();
    for (StreamEnd end : StreamEnd.values()) {
      server.streamOpened();
      server.streamClosed(end);
    }
    server.report(ServerMeters.Report.TAKEN);
    server.bindAwaitedReports(() -> 1);
    server.xdsSnapshot();
    for (ServerMeters.XdsAnswer answer : ServerMeters.XdsAnswer.values()) {
      server.xdsAnswer(ServerMeters.XdsType.ENDPOINTS, answer);
    }
    server.bindXds(() -> 1, () -> 0);
    server.tlsReload(ServerMeters.Reload.OK);
    server.bindTls(() -> 1);
    server.kvApplyDelay(1000);
    server.hubFetch("fetched");
    server.kvEventAge(1000);
    server.bindUnverifiedWorkers(() -> 1);
    server.bindSpeculative(() -> 1);
    server.bindSpeculativeEnd("confirmed", () -> 1);
    for (ServerMeters.Reload reload : ServerMeters.Reload.values()) {
      server.configReload(reload);
    }
    server.bindConfig(() -> 1, () -> true);
    server.bindIndex(() -> 2, () -> 2, () -> 3);

    for (PoolMeters pool : List.of(metrics.noPool(), metrics.pool("chat", List.of("qwen")))) {
      for (ApiKind api : ApiKind.values()) {
        for (RequestOutcome outcome : RequestOutcome.values()) {
          pool.request(api, outcome);
        }
      }
      for (DecisionMode mode : DecisionMode.values()) {
        pool.decision(mode);
      }
      pool.degraded("no-cache-events");
      for (ResponseEnd end : ResponseEnd.values()) {
        pool.response(end);
      }
      pool.decisionDuration(1000);
      pool.tokenizeDuration(1000);
      pool.lookupDuration(1000);
      pool.lookup(true);
      pool.lookup(false);
      pool.hitTokens(Tier.GPU, 32);
      pool.predictedTtft(30, 20);
      pool.actualTtft(30, 40, 20);
      pool.actualTtft(30, 20, 20);
      pool.actualCachedTokens(10, 10);
      pool.actualCachedTokens(10, 20);
      pool.actualCachedTokens(20, 10);
      pool.tokenizer(TokenizerState.READY);
      pool.tokenizerLoad("loaded");
      pool.tokenizerFallback("differs");
      pool.parity(ParityResult.MATCH);
      pool.paritySkipped("busy");
      pool.parityState(ParityState.MATCHING);
      pool.responseHome(ResponseHome.FOUND);
      pool.usageInjected(true);
      pool.model("qwen").routed(100, 64);
      pool.model("qwen").reported(48);
    }

    WorkerMeters worker = metrics.worker("chat", "gpu-0");
    worker.bind(() -> 4, () -> 0.5, () -> new ErrorStats(9, 0.08, 0.25, 0, true));
    worker.picked();
    worker.ttftError(30, 20);
    worker.scrapeFailed();
    for (WorkerMeters.KvEventKind kind : WorkerMeters.KvEventKind.values()) {
      worker.kvEvents(kind, 3);
    }
    worker.kvSkipped(Skip.ORPHAN, 2);
    worker.kvGap();
    worker.kvRestarted();
    worker.kvReplay(View.LIVE);
    worker.kvDecodeError(Skip.ORPHAN);
    worker.kvDropped();
    worker.kvView(View.LIVE);
    worker.ownKeys(OwnKeys.State.VERIFIED);
    worker.ownKeysChecked(OwnKeyCheck.Finding.WHOLE);
    worker.health(WorkerMeters.Health.READY);
  }

  @Test
  void OBS_02_everyDocumentedMetricIsOnThePageAndNoOther() throws IOException {
    exerciseAll();

    Set<String> declared = new TreeSet<>();
    for (Metric metric : Metric.values()) {
      declared.add(metric.exposedName());
    }
    Set<String> shown = new TreeSet<>();
    for (Series each : series()) {
      String name = each.name();
      shown.add(declared.contains(name) ? name : name.replaceFirst("_(bucket|sum|count|max)$", ""));
    }
    assertThat(shown).isEqualTo(declared);
    assertThat(failedRegistrations).isEmpty();
  }

  @Test
  void OBS_02_everyNameHasOneSetOfTags() throws IOException {
    exerciseAll();

    Map<String, Set<Set<String>>> tagSets = new HashMap<>();
    for (Series each : series()) {
      Set<String> tags = new HashSet<>(each.labels().keySet());
      tags.remove("le");
      tagSets.computeIfAbsent(each.name(), _ -> new HashSet<>()).add(tags);
    }
    assertThat(tagSets.values()).isNotEmpty().allSatisfy(sets -> assertThat(sets).hasSize(1));
    for (Metric metric : Metric.values()) {
      Set<String> declared = new HashSet<>();
      metric.tags().forEach(tag -> declared.add(tag.key()));
      tagSets.forEach(
          (name, sets) -> {
            if (name.equals(metric.exposedName())) {
              assertThat(sets).as(name).containsExactly(declared);
            }
          });
    }
  }

  @Test
  void OBS_01_namesFromRequestsMakeNoSeries() throws IOException {
    PoolMeters pool = metrics.pool("chat", List.of("qwen"));
    pool.model("warm-up").routed(1, 0);
    pool.degraded("no_tokenizer");
    int before = series().size();
    Random random = new Random(7);

    for (int i = 0; i < 100_000; i++) {
      pool.model("model-" + random.nextLong()).routed(1, 0);
    }

    assertThat(series()).hasSize(before);
    assertThat(value("kvoy_prompt_tokens_total", "pool", "chat", "model", "other"))
        .isEqualTo(100_001);
  }

  @Test
  void OBS_01_wordsAreBoundedEvenWhenSomebodyPutsInputIntoThem() throws IOException {
    PoolMeters pool = metrics.pool("chat", List.of());

    for (int i = 0; i < 10_000; i++) {
      pool.degraded("reason-" + i);
      pool.degraded("tell me a \"story\" {about=1} number " + i);
    }

    assertThat(
            series().stream().filter(s -> s.name().equals("kvoy_decisions_degraded_total")).count())
        .isLessThanOrEqualTo(WordCounters.MAX_WORDS + 1);
    assertThat(page()).doesNotContain("story");
  }

  @Test
  void OBS_01_workersBeyondTheBoundShareOneName() throws IOException {
    for (int i = 0; i < MAX_WORKERS; i++) {
      metrics.worker("chat", "w" + i);
    }
    int before = series().size();

    metrics.worker("chat", "late-1").picked();
    int withOther = series().size();
    metrics.worker("chat", "late-2").picked();

    assertThat(withOther).isGreaterThan(before);
    assertThat(series()).hasSize(withOther);
    assertThat(value("kvoy_picks_total", "pool", "chat", "worker", "other")).isEqualTo(2);
  }

  @Test
  void wordsThatDifferInSpellingAreOne() throws IOException {
    PoolMeters pool = metrics.pool("chat", List.of());

    pool.degraded("no-tokens");
    pool.degraded("no_tokens");
    pool.degraded("NO_TOKENS");

    assertThat(value("kvoy_decisions_degraded_total", "pool", "chat", "reason", "no_tokens"))
        .isEqualTo(3);
  }

  @Test
  void aWorkerThatLeavesTakesItsSeriesAlong() throws IOException {
    int before = series().size();
    WorkerMeters worker = metrics.worker("chat", "gpu-0");
    worker.bind(() -> 1, () -> 1, () -> ErrorStats.NONE);
    worker.kvView(View.LIVE);
    worker.kvSkipped(Skip.ORPHAN, 1);
    assertThat(series().size()).isGreaterThan(before);

    worker.close();

    assertThat(series()).hasSize(before);
  }

  @Test
  void aWorkerThatIsBackBeforeItsOldHandleIsClosedStaysOnThePage() throws IOException {
    WorkerMeters old = metrics.worker("chat", "gpu-0");
    WorkerMeters young = metrics.worker("chat", "gpu-0");
    old.close();
    young.picked();

    assertThat(value("kvoy_picks_total", "pool", "chat", "worker", "gpu-0")).isEqualTo(1);
    young.close();
    assertThat(page()).doesNotContain("gpu-0");
  }

  @Test
  void figuresOfANewLifeReplaceThoseOfTheOld() throws IOException {
    metrics.worker("chat", "gpu-0").bind(() -> 1, () -> 1, () -> ErrorStats.NONE);
    metrics.worker("chat", "gpu-0").bind(() -> 2, () -> 0.5, () -> ErrorStats.NONE);

    assertThat(value("kvoy_worker_in_flight_requests", "pool", "chat", "worker", "gpu-0"))
        .isEqualTo(2);
  }

  @Test
  void aReloadReplacesTheModelsOfAPool() throws IOException {
    PoolMeters old = metrics.pool("chat", List.of("a", "b"));
    old.model("a").routed(5, 0);
    PoolMeters young = metrics.pool("chat", List.of("a", "c"));
    old.close();

    assertThat(value("kvoy_prompt_tokens_total", "pool", "chat", "model", "a")).isEqualTo(5);
    assertThat(page()).contains("model=\"c\"").doesNotContain("model=\"b\"");
    young.close();
    assertThat(page()).doesNotContain("\"chat\"");
  }

  @Test
  void errorsCountOnTheirSide() throws IOException {
    PoolMeters pool = metrics.pool("chat", List.of());

    pool.actualCachedTokens(100, 40);
    pool.actualCachedTokens(40, 100);
    pool.actualCachedTokens(40, 41);
    pool.actualCachedTokens(40, 40);
    pool.actualTtft(100, 40, 50);
    pool.actualTtft(40, 100, 50);

    assertThat(value("kvoy_cached_tokens_error_sum", "pool", "chat", "direction", "over"))
        .isEqualTo(60);
    assertThat(value("kvoy_cached_tokens_error_sum", "pool", "chat", "direction", "under"))
        .isEqualTo(61);
    assertThat(value("kvoy_cached_tokens_error_count", "pool", "chat", "direction", "exact"))
        .isEqualTo(1);
    assertThat(value("kvoy_ttft_error_seconds_sum", "pool", "chat", "direction", "over"))
        .isEqualTo(0.06);
    assertThat(value("kvoy_ttft_error_seconds_sum", "pool", "chat", "direction", "under"))
        .isEqualTo(0.06);
    assertThat(value("kvoy_ttft_over_target_total", "pool", "chat", "stage", "actual"))
        .isEqualTo(1);
  }

  @Test
  void aStateShowsOneAndOnlyOneOfItsValues() throws IOException {
    WorkerMeters worker = metrics.worker("chat", "gpu-0");
    worker.kvView(View.LIVE);
    worker.kvView(View.STALE);

    assertThat(value("kvoy_kv_view_state", "pool", "chat", "worker", "gpu-0", "state", "stale"))
        .isEqualTo(1);
    assertThat(value("kvoy_kv_view_state", "pool", "chat", "worker", "gpu-0", "state", "live"))
        .isEqualTo(0);
  }

  @Test
  void valuesOfAnotherEnumAreRefused() {
    WorkerMeters worker = metrics.worker("chat", "gpu-0");
    worker.kvSkipped(Skip.ORPHAN, 1);

    assertThatThrownBy(() -> worker.kvSkipped(View.LIVE, 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("View");
  }

  @Test
  void openStreamsAreThoseNotClosed() throws IOException {
    metrics.server().streamOpened();
    metrics.server().streamOpened();
    metrics.server().streamClosed(StreamEnd.CANCELLED);

    assertThat(value("kvoy_ext_proc_streams")).isEqualTo(1);
    assertThat(value("kvoy_ext_proc_streams_ended_total", "result", "cancelled")).isEqualTo(1);
  }

  @Test
  void pageOfMetricsSaysWhatTheDeclarationsSay() {
    StringBuilder page = new StringBuilder();
    page.append(
        """
        # Metrics

        This page is written from `io.kvoy.server.metrics.Metric` by `KvoyMetricsTest`; change \
        that, not this page.

        `GET :9090/metrics` shows them in the Prometheus text format. A *histogram* has `_bucket`, \
        `_sum`, `_count` and `_max` (largest of the last minutes); a *summary* the same without \
        `_bucket`. Times are in seconds. Series of a worker or pool go away with it. Memory, \
        garbage collection and CPU of the process are shown with Micrometer's own names (`jvm_*`, \
        `process_*`, `system_*`).

        Values of tags come from the configuration, the fleet or closed lists in the code, never \
        from requests.

        | metric | type | unit | tags | meaning |
        | --- | --- | --- | --- | --- |
        """);
    for (Metric metric : Metric.values()) {
      List<String> tags = new ArrayList<>();
      metric.tags().forEach(tag -> tags.add("`" + tag.key() + "`"));
      page.append(
          "| `%s` | %s | %s | %s | %s |%n"
              .formatted(
                  metric.exposedName(),
                  metric.type().word(),
                  metric.type().unit(),
                  String.join(", ", tags),
                  metric.doc()));
    }
    page.append("\n## Tags\n\n| tag | values |\n| --- | --- |\n");
    for (MetricTag tag : MetricTag.values()) {
      page.append("| `%s` | %s |%n".formatted(tag.key(), tag.doc()));
    }
    page.append("\n## Closed lists\n\n");
    closedList(page, Metric.REQUESTS, MetricTag.OUTCOME, RequestOutcome.values());
    closedList(page, Metric.RESPONSES, MetricTag.END, ResponseEnd.values());
    closedList(page, Metric.DECISIONS, MetricTag.MODE, DecisionMode.values());
    closedList(page, Metric.STREAMS_ENDED, MetricTag.RESULT, StreamEnd.values());
    closedList(page, Metric.KV_EVENTS, MetricTag.KIND, WorkerMeters.KvEventKind.values());
    closedList(page, Metric.KV_VIEW_STATE, MetricTag.STATE, KvViewState.values());
    closedList(page, Metric.KV_SKIPPED, MetricTag.REASON, SkipReason.values());
    closedList(page, Metric.OWN_KEYS, MetricTag.STATE, OwnKeys.State.values());
    closedList(page, Metric.OWN_KEYS_CHECKED, MetricTag.RESULT, OwnKeyCheck.Finding.values());
    closedList(page, Metric.HEALTH, MetricTag.STATE, WorkerMeters.Health.values());
    closedList(page, Metric.TOKENIZER_STATE, MetricTag.STATE, TokenizerState.values());
    closedList(page, Metric.RESPONSE_HOMES, MetricTag.RESULT, ResponseHome.values());
    closedList(page, Metric.PARITY_CHECKS, MetricTag.RESULT, ParityResult.values());
    closedList(page, Metric.PARITY_STATE, MetricTag.STATE, ParityState.values());
    GeneratedPage.assertUpToDate("metrics.md", page.toString());
  }

  private static void closedList(
      StringBuilder page, Metric metric, MetricTag tag, Enum<?>[] values) {
    assertThat(metric.tags()).contains(tag);
    page.append("- `%s` `%s`: ".formatted(metric.exposedName(), tag.key()));
    page.append(
        String.join(
            ", ", Arrays.stream(values).map(v -> "`" + EnumCounters.word(v) + "`").toList()));
    page.append("\n");
  }
}
