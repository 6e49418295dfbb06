// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.load;

import static java.util.Objects.requireNonNull;
import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.TestFleet;
import io.kvoy.scoring.fleet.Worker;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.junit.jupiter.api.Test;

class LoadBookTest {
  private final TestFleet fleet = new TestFleet(2);
  private final Worker worker = fleet.worker(0);

  private void page(String text, int own) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    fleet.book.put(
        worker,
        PrometheusText.parse(bytes, bytes.length, fleet.clock.getAsLong()),
        new OwnShare(own, 0, 0, 0));
  }

  private ScrapedLoad latest() {
    return requireNonNull(fleet.book.latest(worker));
  }

  @Test
  void MET_02_whatIsTooOldIsUnknown() {
    fleet.gauges(worker, 1, 0);
    fleet.clock.advance(Duration.ofSeconds(5));
    assertThat(fleet.book.fresh(worker, fleet.clock.getAsLong())).isNotNull();

    fleet.clock.advanceMillis(1);

    assertThat(fleet.book.fresh(worker, fleet.clock.getAsLong())).isNull();
    assertThat(fleet.book.ageMillis(worker)).isEqualTo(5001);
  }

  @Test
  void aPageWithoutRequestCountsIsUnknownAndCounted() {
    page("vllm:num_requests_running 3\n", 0);

    assertThat(fleet.book.fresh(worker, fleet.clock.getAsLong())).isNull();
    assertThat(fleet.book.pagesWithoutLoad()).isEqualTo(1);
  }

  @Test
  void anEarlierLifesGaugesAreNotInherited() {
    fleet.gauges(worker, 1, 0);
    fleet.registry.restarted(worker);

    assertThat(fleet.book.fresh(fleet.worker(0), fleet.clock.getAsLong())).isNull();

    fleet.gauges(fleet.worker(0), 2, 0);
    fleet.gauges(worker, 9, 9);
    assertThat(requireNonNull(fleet.book.latest(fleet.worker(0))).gauges().running().value())
        .isEqualTo(2);
  }

  @Test
  void whatIsOursIsNotForeign() {
    page("vllm:num_requests_running 6\nvllm:num_requests_waiting 2\n", 4);

    assertThat(latest().foreignRunning()).isEqualTo(3);
    assertThat(latest().foreignWaiting()).isEqualTo(1);

    page("vllm:num_requests_running 6\nvllm:num_requests_waiting 2\n", 20);
    assertThat(latest().foreignRunning()).isZero();
    assertThat(latest().foreignWaiting()).isZero();
  }

  @Test
  void MET_04_ratesAreNeverNegativeAfterACounterFell() {
    String gauges = "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n";
    page(gauges + "vllm:prompt_tokens_total 5000\n", 0);
    assertThat(latest().promptTokensPerSecond()).isEqualTo(Reading.MISSING);
    fleet.clock.advance(Duration.ofSeconds(2));
    page(gauges + "vllm:prompt_tokens_total 9000\n", 0);
    assertThat(latest().promptTokensPerSecond().value()).isEqualTo(2000);

    fleet.clock.advance(Duration.ofSeconds(2));
    page(gauges + "vllm:prompt_tokens_total 100\n", 0);
    assertThat(latest().promptTokensPerSecond()).isEqualTo(Reading.MISSING);

    fleet.clock.advance(Duration.ofSeconds(2));
    page(gauges + "vllm:prompt_tokens_total 300\n", 0);
    assertThat(latest().promptTokensPerSecond().value()).isEqualTo(100);
  }

  @Test
  void hitShareIsThatOfTheLastInterval() {
    String gauges = "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n";
    page(gauges + "vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 0\n", 0);
    fleet.clock.advance(Duration.ofSeconds(1));
    page(gauges + "vllm:prefix_cache_queries_total 300\nvllm:prefix_cache_hits_total 150\n", 0);

    assertThat(latest().prefixHitShare().value()).isEqualTo(0.75);
  }

  @Test
  void kvDemandIsWhatIsInUseAndWhatOurWaitingRequestsWillTake() {
    byte[] page =
        """
        vllm:num_requests_running 6
        vllm:num_requests_waiting 2
        vllm:kv_cache_usage_perc 0.5
        vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1
        """
            .getBytes(StandardCharsets.UTF_8);
    WorkerGauges gauges = PrometheusText.parse(page, page.length, fleet.clock.getAsLong());

    fleet.book.put(worker, gauges, new OwnShare(8, 4, 4000, 9000));

    assertThat(latest().kvDemandTokens().value()).isEqualTo(8000 + 2000);
    assertThat(latest().ownRoomTokens()).isEqualTo(9000);
    assertThat(fleet.book.isFull(worker, fleet.clock.getAsLong())).isFalse();

    page("vllm:num_requests_running 6\nvllm:num_requests_waiting 2\n", 8);
    assertThat(latest().kvDemandTokens()).as("capacity unknown").isEqualTo(Reading.MISSING);
  }

  @Test
  void whatALostReplicaHadOnAWorkerIsForeignUntilTheWorkerHasEndedIt() {
    Work work = new Work(100, 100, 10, Duration.ofMinutes(1).toNanos(), 0, true);
    Reservation own = fleet.ledger.reserve(worker, work);

    // Three of the other replica run on, which reports to nobody any more.
    fleet.gauges(worker, 4, 0);
    assertThat(latest().foreignRunning()).isEqualTo(3);

    fleet.gauges(worker, 1, 0);
    assertThat(latest().foreignRunning()).isZero();
    own.end();
    fleet.gauges(worker, 0, 0);
    assertThat(latest().foreignRunning()).isZero();
    assertThat(fleet.ledger.load(worker).isIdle()).isTrue();
  }
}
