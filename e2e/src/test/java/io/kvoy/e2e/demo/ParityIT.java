// SPDX-License-Identifier: Apache-2.0
package io.kvoy.e2e.demo;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.kvoy.e2e.load.ChatAnswer;
import io.kvoy.e2e.load.ChatClient;
import io.kvoy.e2e.load.ChatMessage;
import io.kvoy.e2e.sim.EngineOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Live parity through a real Envoy, on simulated workers that answer {@code /tokenize}. */
final class ParityIT {
  private static SimRig rig;
  private static ChatClient client;
  private static int prompts;

  @BeforeAll
  static void start() throws IOException, InterruptedException {
    rig = SimRig.start(EngineOptions.DEFAULTS);
    client = new ChatClient(rig.stage.url(), SimRig.MODEL);
  }

  @AfterAll
  static void stop() throws IOException {
    if (client != null) {
      client.close();
    }
    if (rig != null) {
      rig.close();
    }
  }

  private static String decision() throws Exception {
    ChatAnswer answer =
        client.chat(List.of(ChatMessage.user("A secret question, number " + prompts++)), 2);
    assertThat(answer.ok()).as(answer.error()).isTrue();
    return rig.stage.kvoy().admin("/debug/decisions/" + answer.header("x-kvoy-decision-id")).body();
  }

  private static void configure(String yaml) throws Exception {
    double before = rig.stage.kvoy().metric("kvoy_config_reloads_total", "ok");
    Path fresh = rig.stage.folder().resolve("kvoy.yaml.new");
    Files.writeString(fresh, yaml);
    Files.move(fresh, rig.stage.configFile(), StandardCopyOption.ATOMIC_MOVE);
    await()
        .atMost(Duration.ofSeconds(20))
        .until(() -> rig.stage.kvoy().metric("kvoy_config_reloads_total", "ok") > before);
  }

  private static String parityMetrics() throws Exception {
    return rig.stage
        .kvoy()
        .admin("/metrics")
        .body()
        .lines()
        .filter(line -> line.startsWith("kvoy_parity"))
        .collect(Collectors.joining("\n"));
  }

  @Test
  void TOK_05_aWrongTemplateIsFoundOutOnLiveTrafficAndHealsWithTheConfiguration() throws Exception {
    String original =
        Files.readString(rig.stage.configFile())
            .replace(
                "  feedback:", "  parity: {samplesPerMinute: 6000, timeout: 10s}\n  feedback:");
    configure(original);
    for (int i = 0; i < 8; i++) {
      assertThat(decision()).contains("\"mode\":\"exact\"");
    }
    await()
        .atMost(Duration.ofSeconds(10))
        .untilAsserted(
            () ->
                assertThat(rig.stage.kvoy().metric("kvoy_parity_checks_total", "result=\"match\""))
                    .as(parityMetrics())
                    .isGreaterThanOrEqualTo(8));

    Path template = rig.stage.folder().resolve("other.jinja");
    Files.writeString(template, "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}");
    configure(original.replaceAll("(tokenizer: .*)", "$1\n  chatTemplate: " + template));
    await()
        .atMost(Duration.ofSeconds(60))
        .pollInterval(Duration.ofMillis(300))
        .until(() -> decision().contains("tokenizer_mismatch"));
    assertThat(rig.stage.kvoy().admin("/readyz").statusCode()).isEqualTo(200);
    assertThat(rig.stage.kvoy().admin("/debug/fleet").body()).contains("\"state\":\"mismatching\"");

    configure(original);
    await()
        .atMost(Duration.ofSeconds(60))
        .pollInterval(Duration.ofMillis(300))
        .until(() -> decision().contains("\"mode\":\"exact\""));
    assertThat(rig.stage.kvoy().logTail(2000))
        .contains("token_ids_differ")
        .contains("parity_lost")
        .contains("parity_regained")
        .doesNotContain("secret question");
  }
}
