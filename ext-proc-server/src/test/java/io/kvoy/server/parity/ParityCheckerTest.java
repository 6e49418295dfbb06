// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server.parity;

import static org.assertj.core.api.Assertions.assertThat;

import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import io.kvoy.inference.ApiKind;
import io.kvoy.inference.RequestParse;
import io.kvoy.inference.dialect.Dialects;
import io.kvoy.inference.dialect.ParseOptions;
import io.kvoy.inference.dialect.ParsedBody;
import io.kvoy.scoring.fleet.FleetRegistry;
import io.kvoy.scoring.fleet.HealthSettings;
import io.kvoy.scoring.fleet.Worker;
import io.kvoy.scoring.fleet.WorkerSpec;
import io.kvoy.server.ModelPoolRuntime;
import io.kvoy.server.RequestHead;
import io.kvoy.server.TestPools;
import io.kvoy.server.Understanding;
import io.kvoy.server.config.DataSize;
import io.kvoy.server.config.KvoyConfig;
import io.kvoy.server.metrics.KvoyMetrics;
import io.kvoy.server.metrics.ParityState;
import io.kvoy.server.tokens.AskWorker;
import io.kvoy.server.tokens.FakeWorker;
import io.kvoy.tokenizer.Tokenization;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.slf4j.LoggerFactory;

class ParityCheckerTest {
  private static final String SECRET = "the prompt that nobody must see";
  private static final String CHAT =
      "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" + SECRET + "\"}]}";

  private FakeWorker http;
  private Worker worker;
  private long now = 1;
  private KvoyConfig.Parity settings =
      new KvoyConfig.Parity(6, new DataSize(1000), Duration.ofSeconds(5), 3);
  private Tokenization own = new Tokenization.Exact(List.of(new int[] {1, 2, 3}));
  private final List<String> verdicts = new ArrayList<>();
  private final KvoyMetrics metrics = new KvoyMetrics();
  private final AskWorker ask = new AskWorker(System::nanoTime);
  private final ModelPoolRuntime pool =
      new ModelPoolRuntime(
          TestPools.pool("pool", List.of("m"), false),
          _ -> new Tokenization.Unavailable("unused"),
          null,
          metrics.pool("pool", List.of("m")));
  private final ParityChecker checker =
      new ParityChecker(
          ask,
          (_, _) -> own,
          (name, matches) -> verdicts.add(name + " " + matches),
          () -> settings,
          () -> now,
          Duration.ofMinutes(1));
  private final ListAppender<ILoggingEvent> log = new ListAppender<>();
  private final Logger logger = (Logger) LoggerFactory.getLogger(ParityChecker.class);

  @BeforeEach
  void start() throws IOException {
    http = new FakeWorker();
    http.tokenizes(1, 2, 3);
    FleetRegistry registry = new FleetRegistry(HealthSettings.DEFAULTS, () -> now);
    registry.apply("pool", List.of(WorkerSpec.ready("pool", "gpu-0", http.endpoint())));
    worker = registry.fleet().workers().getFirst();
    log.start();
    logger.addAppender(log);
  }

  @AfterEach
  void stop() {
    logger.detachAppender(log);
    ask.close();
    http.close();
    metrics.close();
  }

  private void routed(String body) {
    ParsedBody read =
        Dialects.read(
            ApiKind.CHAT_COMPLETIONS, body.getBytes(StandardCharsets.UTF_8), ParseOptions.DEFAULTS);
    checker.routed(
        new Understanding.Routable(
            new RequestHead("POST", "/", ApiKind.CHAT_COMPLETIONS, "id", "", null, false),
            pool,
            ((RequestParse.Parsed) read.parse()).request(),
            List.of(),
            3,
            "",
            read.body(),
            null,
            0),
        worker);
  }

  private void sample() {
    now += Duration.ofSeconds(10).toNanos();
    routed(CHAT);
    checker.doWork();
  }

  private List<String> page(String name) throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    metrics.writePage(out);
    return out.toString(StandardCharsets.UTF_8)
        .lines()
        .filter(line -> line.startsWith(name))
        .toList();
  }

  @Test
  void equalIdsAreCountedAndChangeNothing() throws IOException {
    sample();

    assertThat(page("kvoy_parity_checks_total"))
        .containsExactly("kvoy_parity_checks_total{pool=\"pool\",result=\"match\"} 1.0");
    assertThat(checker.report("pool"))
        .isEqualTo(new ParityChecker.Report(ParityState.MATCHING, 1, 0));
    assertThat(verdicts).isEmpty();
  }

  @Test
  void differencesInARowTakeThePoolOutAndAgreementsBringItBack() {
    http.tokenizes(1, 2, 4, 5);
    sample();
    sample();
    assertThat(verdicts).isEmpty();
    sample();
    assertThat(verdicts).containsExactly("pool false");

    http.tokenizes(1, 2, 3);
    sample();
    sample();
    assertThat(verdicts).hasSize(1);
    sample();
    assertThat(verdicts).containsExactly("pool false", "pool true");
  }

  @Test
  void aDifferenceIsLoggedOncePerPeriodWithItsPlaceAndWithoutTextOrIds() {
    http.tokenizes(1, 2, 4711, 5);
    sample();
    sample();

    assertThat(log.list).hasSize(1);
    String line = log.list.getFirst().getMessage() + log.list.getFirst().getKeyValuePairs();
    assertThat(line)
        .contains("token_ids_differ")
        .contains("model=\"m\"")
        .contains("worker=\"gpu-0\"")
        .contains("position=\"2\"")
        .contains("own_tokens=\"3\"")
        .contains("worker_tokens=\"4\"")
        .doesNotContain(SECRET)
        .doesNotContain("4711");
  }

  @Test
  void requestsBetweenTwoSamplesCostNothing() {
    sample();
    routed(CHAT);
    routed(CHAT);
    checker.doWork();

    assertThat(http.seen).filteredOn(line -> line.startsWith("/tokenize")).hasSize(1);
  }

  @Test
  void aHigherRateIsTakenAtOnce() {
    sample();
    settings = new KvoyConfig.Parity(6000, new DataSize(1000), Duration.ofSeconds(5), 3);
    routed(CHAT);
    checker.doWork();

    assertThat(checker.report("pool").checked()).isEqualTo(2);
  }

  @Test
  void aDoubtIsSettledOneSampleASecond() {
    http.tokenizes(9);
    sample();
    now += Duration.ofSeconds(1).toNanos();
    routed(CHAT);
    checker.doWork();

    assertThat(checker.report("pool").checked()).isEqualTo(2);
  }

  @Test
  void whatCannotBeComparedIsCountedByItsReason() throws IOException {
    now += Duration.ofSeconds(10).toNanos();
    routed(CHAT.replace(SECRET, "x".repeat(1000)));
    now += Duration.ofSeconds(10).toNanos();
    routed(CHAT.replace("\"messages\"", "\"truncate_prompt_tokens\":3,\"messages\""));
    own = new Tokenization.Unavailable("tokenizer_loading");
    sample();
    own = new Tokenization.Exact(List.of(new int[] {1, 2, 3}));
    http.answers.put("/tokenize", new FakeWorker.Answer(503, "{}"));
    sample();

    assertThat(page("kvoy_parity_skipped_total"))
        .containsExactlyInAnyOrder(
            "kvoy_parity_skipped_total{pool=\"pool\",reason=\"body_size\"} 1.0",
            "kvoy_parity_skipped_total{pool=\"pool\",reason=\"truncation\"} 1.0",
            "kvoy_parity_skipped_total{pool=\"pool\",reason=\"tokenizer_loading\"} 1.0",
            "kvoy_parity_skipped_total{pool=\"pool\",reason=\"worker_error\"} 1.0");
    assertThat(checker.report("pool").checked()).isZero();
  }

  @Test
  void samplesBeyondTheQueueAreDroppedAndCounted() throws IOException {
    for (int i = 0; i < 10; i++) {
      now += Duration.ofSeconds(10).toNanos();
      routed(CHAT);
    }

    assertThat(page("kvoy_parity_skipped_total"))
        .containsExactly("kvoy_parity_skipped_total{pool=\"pool\",reason=\"busy\"} 2.0");
  }

  @Test
  void zeroSamplesSwitchItOff() {
    settings = new KvoyConfig.Parity(0, new DataSize(1000), Duration.ofSeconds(5), 3);
    sample();

    assertThat(http.seen).isEmpty();
  }
}
