// SPDX-License-Identifier: Apache-2.0
package io.kvoy.scoring.kvcache;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.scoring.fleet.KvPublishers;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class KvEventSourcesTest {

  @Test
  void readsTheAnswerOfVllm() {
    assertThat(KvEventSources.parse(TestJson.resource("kv_event_sources.json"), "10.0.0.7"))
        .isEqualTo(
            new KvEventSources.Found(
                List.of(
                    new KvEventSources.Source(
                        0,
                        "tcp://10.0.0.7:18101",
                        "tcp://10.0.0.7:18102",
                        10_000,
                        "kv@w0@tiny-qwen3"))));
  }

  @Test
  void KVE_07_everyRankHasItsOwnEndpoints() {
    String json =
        """
        {"1":{"publisher":"zmq","endpoint":"tcp://*:5558","replay_endpoint":null,"new":{"a":[1]}},
         "0":{"publisher":"zmq","endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5657"},
         "2":{"publisher":"null","endpoint":"tcp://*:5559"},
         "3":{"enable_kv_cache_events":false,"endpoint":"tcp://*:5560"}}
        """;

    assertThat(KvEventSources.parse(json, "2001:db8::7"))
        .isEqualTo(
            new KvEventSources.Found(
                List.of(
                    new KvEventSources.Source(
                        0, "tcp://[2001:db8::7]:5557", "tcp://[2001:db8::7]:5657", 0, ""),
                    new KvEventSources.Source(1, "tcp://[2001:db8::7]:5558", "", 0, ""))));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"", "[]", "{", "{\"x\":{}}", "{\"0\":1}", "<html>", "{\"0\":{\"endpoint\":\"a\""})
  void answersOfNoUseAreValues(String json) {
    assertThat(KvEventSources.parse(json, "h")).isInstanceOf(KvEventSources.Unreadable.class);
  }

  @Test
  void workerThatNamesRanksWithoutMeasureIsRefused() {
    StringBuilder json = new StringBuilder("{");
    for (int rank = 0; rank < 257; rank++) {
      json.append(rank == 0 ? "" : ",").append("\"" + rank + "\":{\"endpoint\":\"tcp://*:1\"}");
    }

    assertThat(KvEventSources.parse(json.append('}').toString(), "h"))
        .isEqualTo(new KvEventSources.Unreadable("answer of 257 ranks, limit 256"));
  }

  @ParameterizedTest
  @CsvSource({
    "tcp://*:5557, w1, tcp://w1:5557",
    "tcp://0.0.0.0:5557, w1, tcp://w1:5557",
    "tcp://[::]:5557, 10.1.2.3, tcp://10.1.2.3:5557",
    "tcp://127.0.0.1:5557, ::1, tcp://[::1]:5557",
    "tcp://10.9.9.9:5557, w1, tcp://10.9.9.9:5557",
    "ipc:///tmp/kv, w1, ipc:///tmp/kv"
  })
  void wildcardAndLoopbackMeanTheWorkersHost(String endpoint, String host, String expected) {
    assertThat(KvEventSources.reachable(endpoint, host)).isEqualTo(expected);
  }

  @ParameterizedTest
  @CsvSource({
    "tcp://w1:5557, 0, tcp://w1:5557",
    "tcp://w1:5557, 3, tcp://w1:5560",
    "tcp://[2001:db8::7]:5557, 1, tcp://[2001:db8::7]:5558",
    "ipc:///tmp/kv, 1, ipc:///tmp/kv",
    "tcp://w1:65535, 1, tcp://w1:65535"
  })
  void KVE_07_rankMovesThePort(String endpoint, int rank, String expected) {
    assertThat(KvPublishers.atRank(endpoint, rank)).isEqualTo(expected);
  }
}
