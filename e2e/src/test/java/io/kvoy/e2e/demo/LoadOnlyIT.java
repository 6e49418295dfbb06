// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import static org.assertj.core.api.Assertions.assertThat;

import io.kvoy.e2e.load.ChatAnswer;
import io.kvoy.e2e.load.ChatClient;
import io.kvoy.e2e.load.LoadRun;
import io.kvoy.e2e.load.LoadRun.Turn;
import io.kvoy.e2e.load.Workloads;
import io.kvoy.e2e.sim.EngineOptions;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** With the tokenizer gone Kvoy picks by load alone, says so, and refuses nobody. */
final class LoadOnlyIT {
  private static SimRig rig;

  @BeforeAll
  static void start() throws IOException, InterruptedException {
    rig = SimRig.start(EngineOptions.DEFAULTS, Path.of("no-such-tokenizer-folder"));
  }

  @AfterAll
  static void stop() throws IOException {
    rig.close();
  }

  @Test
  void TOK_01_requestsAreSpreadByLoadAndTheReasonIsShownAndCounted() throws Exception {
    List<Turn> turns;
    try (ChatClient client = new ChatClient(rig.stage.url(), SimRig.MODEL)) {
      turns = LoadRun.run(client, new Workloads(1).unique(30, 200, 200, 4), 6, _ -> {});
    }
    assertThat(turns).extracting(Turn::answer).allMatch(ChatAnswer::ok);
    assertThat(turns)
        .extracting(turn -> turn.answer().header("x-kvoy-degraded"))
        .allMatch(degraded -> degraded.contains("tokenizer"));
    assertThat(
            turns.stream()
                .collect(
                    Collectors.groupingBy(
                        turn -> turn.answer().header("x-kvoy-target"), Collectors.counting())))
        .hasSize(3)
        .allSatisfy((_, count) -> assertThat(count).isBetween(5L, 15L));
    assertThat(rig.stage.kvoy().metric("kvoy_decisions_total", "load_only"))
        .isGreaterThanOrEqualTo(30);
    assertThat(rig.stage.kvoy().metric("kvoy_decisions_degraded_total", "tokenizer"))
        .isGreaterThanOrEqualTo(30);
  }
}
