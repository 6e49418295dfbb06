// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;

import io.kvoy.scoring.TestFleet;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class PrometheusTextTest {
  private static WorkerGauges file(String name) throws IOException {
    byte[] page = TestFleet.resource("/load/" + name);
    return PrometheusText.parse(page, page.length, 7);
  }

  private static WorkerGauges text(String text) {
    byte[] page = text.getBytes(StandardCharsets.UTF_8);
    return PrometheusText.parse(page, page.length, 7);
  }

  @Test
  void readsAPageOfALoadedWorker() throws IOException {
    WorkerGauges gauges = file("loaded.txt");

    assertThat(gauges.running().value()).isEqualTo(5);
    assertThat(gauges.waiting().value()).isEqualTo(7);
    assertThat(gauges.kvUsage().value()).isEqualTo(1);
    assertThat(gauges.blockSizeTokens()).isEqualTo(32);
    assertThat(gauges.kvBlocks()).isEqualTo(66);
    assertThat(gauges.kvCapacityTokens()).isEqualTo(2112);
    assertThat(gauges.prefixQueriedTokens().value()).isEqualTo(10_175);
    assertThat(gauges.prefixHitTokens().value()).isEqualTo(1_312);
    assertThat(gauges.promptTokens().value()).isEqualTo(10_175);
    assertThat(gauges.generatedTokens().value()).isEqualTo(4_437);
    assertThat(gauges.preemptions().value()).isZero();
    assertThat(gauges.scrapedAtNanos()).isEqualTo(7);
    assertThat(gauges.invalidSamples()).isZero();
    assertThat(gauges.usedOldName()).isFalse();
  }

  @Test
  void anIdleWorkersZerosAreNumbersNotAbsence() throws IOException {
    WorkerGauges gauges = file("idle.txt");

    assertThat(gauges.running()).isEqualTo(new Reading(Reading.State.KNOWN, 0));
    assertThat(gauges.tellsLoad()).isTrue();
  }

  @Test
  void MET_01_oldNamesAreReadAndAbsentOnesAreUnknown() throws IOException {
    WorkerGauges gauges = file("met-renamed.txt");

    assertThat(gauges.kvUsage().value()).isEqualTo(0.42);
    assertThat(gauges.usedOldName()).isTrue();
    assertThat(gauges.running().value()).isEqualTo(3);
    assertThat(gauges.waiting()).isEqualTo(Reading.MISSING);
    assertThat(gauges.tellsLoad()).isFalse();
  }

  @Test
  void whereOldAndNewNameStandSideBySideTheNewOneCounts() {
    String older = "vllm:gpu_cache_usage_perc 0.9\n";
    String newer = "vllm:kv_cache_usage_perc 0.1\n";

    assertThat(text(older + newer).kvUsage().value()).isEqualTo(0.1);
    assertThat(text(newer + older).kvUsage().value()).isEqualTo(0.1);
  }

  @Test
  void MET_04_nanInfinityAndNegativesAreStatesAndCounted() throws IOException {
    WorkerGauges gauges = file("met-nan.txt");

    assertThat(gauges.running()).isEqualTo(Reading.INVALID);
    assertThat(gauges.waiting()).isEqualTo(Reading.INVALID);
    assertThat(gauges.kvUsage()).isEqualTo(Reading.INVALID);
    assertThat(gauges.promptTokens().value()).isEqualTo(1000);
    assertThat(gauges.invalidSamples()).isEqualTo(3);
  }

  @Test
  void MET_05_theAdapterSeriesWithTheLatestTimeWins() throws IOException {
    AdapterLoad adapters = file("met-lora.txt").adapters();

    assertThat(adapters.maxAdapters()).isEqualTo(4);
    assertThat(adapters.running()).containsExactly("alpha", "beta");
    assertThat(adapters.waiting()).containsExactly("gamma");
  }

  @Test
  void seriesOfSeveralRanksAddUpAndTheFullestCounts() {
    WorkerGauges gauges =
        text(
            """
            vllm:num_requests_running{engine="0",model_name="m"} 2.0
            vllm:num_requests_running{engine="1",model_name="m"} 3.0
            vllm:kv_cache_usage_perc{engine="0"} 0.2
            vllm:kv_cache_usage_perc{engine="1"} 0.7
            """);

    assertThat(gauges.running().value()).isEqualTo(5);
    assertThat(gauges.kvUsage().value()).isEqualTo(0.7);
  }

  @Test
  void readsSglangNames() {
    WorkerGauges gauges =
        text(
            """
            sglang:num_running_reqs{model_name="m"} 4
            sglang:num_queue_reqs{model_name="m"} 9
            sglang:token_usage{model_name="m"} 0.28
            """);

    assertThat(gauges.running().value()).isEqualTo(4);
    assertThat(gauges.waiting().value()).isEqualTo(9);
    assertThat(gauges.kvUsage().value()).isEqualTo(0.28);
    assertThat(gauges.usedOldName()).isFalse();
  }

  @ParameterizedTest
  @CsvSource({
    "'vllm:num_requests_running{a=\"}\"} 3', 3",
    "'vllm:num_requests_running{a=\"\\\"}\",b=\"x\"} 3', 3",
    "'vllm:num_requests_running{} 3 1700000000000', 3",
    "'vllm:num_requests_running\t3\r', 3",
    "'vllm:num_requests_running 3e2', 300"
  })
  void readsTheLineInAllItsSpellings(String line, double value) {
    assertThat(text(line).running().value()).isEqualTo(value);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "vllm:num_requests_running{a=\"b\" 3",
        "vllm:num_requests_running",
        "vllm:num_requests_running abc",
        "vllm:num_requests_running 1234567890123456789012345678901234567890"
      })
  void aBrokenLineIsCountedAndNeverANumber(String line) {
    WorkerGauges gauges = text(line + "\nvllm:num_requests_waiting 1");

    assertThat(gauges.running().isKnown()).isFalse();
    assertThat(gauges.invalidSamples()).isEqualTo(1);
    assertThat(gauges.waiting().value()).isEqualTo(1);
  }

  @Test
  void similarNamesAreNotTaken() {
    WorkerGauges gauges =
        text(
            """
            vllm:num_requests_waiting_by_reason{reason="capacity"} 7
            vllm:num_requests_runnin 7
            xvllm:num_requests_running 7
            """);

    assertThat(gauges.running()).isEqualTo(Reading.MISSING);
    assertThat(gauges.waiting()).isEqualTo(Reading.MISSING);
  }

  @Test
  void aLineBeyondTheLimitIsSkipped() {
    String label = "x".repeat(PrometheusText.MAX_LINE_BYTES);
    WorkerGauges gauges = text("vllm:num_requests_running{a=\"" + label + "\"} 3");

    assertThat(gauges.running()).isEqualTo(Reading.MISSING);
  }

  @Test
  void anyBytesAreReadWithoutFailing() throws IOException {
    byte[] original = TestFleet.resource("/load/met-lora.txt");
    byte[] config = TestFleet.resource("/load/loaded.txt");
    var random = new Random(4711);
    for (int round = 0; round < 5_000; round++) {
      byte[] page = original.clone();
      if (round % 20 == 0) {
        int at = new String(config, StandardCharsets.US_ASCII).indexOf("vllm:cache_config_info{");
        page = Arrays.copyOfRange(config, at, at + 1000);
      }
      for (int hit = 0; hit < 1 + round % 9; hit++) {
        byte[] bytes = {'"', '\\', '{', '}', '=', ',', '\n', ' ', (byte) random.nextInt()};
        page[random.nextInt(page.length)] = bytes[random.nextInt(bytes.length)];
      }
      byte[] hostile = page;
      int length = random.nextInt(page.length + 1);
      assertThatCode(() -> PrometheusText.parse(hostile, length, 0)).doesNotThrowAnyException();
    }
  }
}
