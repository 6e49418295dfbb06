// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.kvoy.server.config.KvoyConfig;
import io.kvoy.server.config.ListenAddress;
import io.kvoy.server.config.LogLevel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

class PickerFlagsTest {
  private record Given(PickerFlags flags, List<String> warnings) {
    KvoyConfig config() {
      return flags.over(KvoyConfig.allDefaults());
    }
  }

  private static Given given(String... arguments) {
    PickerFlags flags = new PickerFlags();
    CommandLine line = new CommandLine(flags);
    PickerFlags.addIgnored(line.getCommandSpec());
    return new Given(flags, PickerFlags.warnings(line.parseArgs(arguments)));
  }

  @Test
  void withoutFlagsTheFileIsAsItWas() {
    assertThat(given().config()).isEqualTo(KvoyConfig.allDefaults());
  }

  // As the charts of llm-d-router and gateway-api-inference-extension write them.
  @Test
  void argumentsOfAChartMakeAnEndpointPicker() {
    Given chart =
        given(
            "--pool-name",
            "vllm-qwen3",
            "--pool-namespace",
            "default",
            "--pool-group",
            "inference.networking.k8s.io",
            "--v",
            "1",
            "--zap-encoder",
            "json",
            "--grpc-port",
            "9002",
            "--grpc-health-port",
            "9003",
            "--metrics-port",
            "9090",
            "--config-file",
            "/config/default-plugins.yaml",
            "--tracing=false",
            "--metrics-endpoint-auth=false",
            "--kv-cache-usage-percentage-metric",
            "vllm:kv_cache_usage_perc",
            "--ha-enable-leader-election");
    KvoyConfig config = chart.config();

    assertThat(config.listen().extProc()).isEqualTo(new ListenAddress.Tcp("0.0.0.0", 9002));
    assertThat(config.listen().health()).isEqualTo(new ListenAddress.Tcp("0.0.0.0", 9003));
    assertThat(config.listen().admin()).isEqualTo(new ListenAddress.Tcp("0.0.0.0", 9090));
    assertThat(config.tls())
        .as("TLS with a self-signed certificate is what gateways expect")
        .contains(new KvoyConfig.Tls(Optional.empty(), Duration.ofSeconds(10)));
    assertThat(config.logging().level()).isEqualTo(LogLevel.INFO);
    assertThat(chart.warnings())
        .anyMatch(line -> line.startsWith("flag --zap-encoder has no effect: "))
        .anyMatch(line -> line.contains("--metrics-endpoint-auth"))
        .anyMatch(line -> line.contains("--ha-enable-leader-election"))
        .noneMatch(line -> line.contains("--grpc-port"));
  }

  @Test
  void eachFlagHasItsEffect() {
    KvoyConfig config =
        given(
                "--grpc-port=1002",
                "--grpc-health-port=1003",
                "--metrics-port=1090",
                "--cert-path=/etc/certs",
                "--drain-timeout=1m30s",
                "--v=5")
            .config();

    assertThat(config.listen().extProc()).isEqualTo(new ListenAddress.Tcp("0.0.0.0", 1002));
    assertThat(config.listen().health()).isEqualTo(new ListenAddress.Tcp("0.0.0.0", 1003));
    assertThat(config.listen().admin()).isEqualTo(new ListenAddress.Tcp("0.0.0.0", 1090));
    assertThat(config.tls().orElseThrow().certificateFolder()).contains(Path.of("/etc/certs"));
    assertThat(config.timeouts().drain()).isEqualTo(Duration.ofSeconds(90));
    assertThat(config.logging().level()).isEqualTo(LogLevel.TRACE);
  }

  @ParameterizedTest
  @CsvSource({
    "--secure-serving=false, false",
    "--secure-serving=0, false",
    "--secure-serving, true",
    "--secure-serving=true, true",
    "--pool-name=x, true",
  })
  void tlsIsOnUnlessToldOtherwise(String flag, boolean encrypted) {
    assertThat(given("--grpc-port=1", flag).config().tls().isPresent()).isEqualTo(encrypted);
  }

  @ParameterizedTest
  @ValueSource(strings = {"--secure-serving=maybe", "--drain-timeout=30", "--grpc-port=x"})
  void wrongValueIsBadUsage(String flag) {
    assertThatThrownBy(() -> given(flag)).isInstanceOf(CommandLine.ParameterException.class);
  }

  @Test
  void everyFlagWithoutEffectIsTakenAndExplained() throws Exception {
    String page = Files.readString(Path.of("../docs/endpoint-picker.md"));
    for (PickerFlags.Ignored flag : PickerFlags.IGNORED) {
      Given given = given(flag.takesValue() ? flag.name() + "=1" : flag.name());
      assertThat(given.warnings()).as(flag.name()).hasSize(1);
      assertThat(page).contains("`" + flag.name() + "`").contains(flag.why());
    }
    for (CommandLine.Model.OptionSpec option :
        new CommandLine(new PickerFlags()).getCommandSpec().options()) {
      assertThat(page).contains("`" + option.longestName());
    }
  }

  @Test
  void typingErrorIsStillAnError() {
    assertThatThrownBy(() -> given("--pool-nam=x"))
        .isInstanceOf(CommandLine.UnmatchedArgumentException.class);
  }
}
