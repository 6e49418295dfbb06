// SPDX-License-Identifier: Apache-2.0
package io.kvoy.envoy;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What {@code docs/envoy.md} tells people to write works in the real Envoy and agrees with the
 * code.
 */
class EnvoyGuideIT {
  private static final Pattern BLOCK =
      Pattern.compile("```yaml\n(# envoy\\.yaml\n.*?)```", Pattern.DOTALL);

  @TempDir Path folder;

  @Test
  void envoyTakesTheGuidesConfiguration() throws Exception {
    RealEnvoy.accepts(folder, guidesYaml(), ".yaml");
  }

  @Test
  void guideRemovesTheHeadersThatTheCodeRemoves() throws Exception {
    List<String> removed = new ArrayList<>();
    Matcher line = Pattern.compile("- remove: (\\S+)").matcher(guidesYaml());
    while (line.find()) {
      removed.add(line.group(1));
    }
    List<String> wanted = new ArrayList<>(ControlHeaders.STEERING);
    wanted.addAll(ControlHeaders.IDENTITY);

    assertThat(removed).containsExactlyElementsOf(wanted);
  }

  @Test
  void guideKeepsTheNumbersOfTheDefaults() throws Exception {
    String yaml = guidesYaml();
    String defaults = Samples.DEFAULTS.bootstrap().toYaml();

    for (String setting :
        List.of(
            "per_connection_buffer_limit_bytes",
            "max_requests",
            "max_retries",
            "initial_stream_window_size",
            "initial_connection_window_size",
            "num_retries")) {
      assertThat(valueOf(setting, yaml)).as(setting).isEqualTo(valueOf(setting, defaults));
    }
  }

  private static String valueOf(String setting, String yaml) {
    Matcher found = Pattern.compile("\\b" + setting + ": *(\\d+)").matcher(yaml);
    assertThat(found.find()).as("%s in %s", setting, yaml).isTrue();
    return found.group(1);
  }

  private static String guidesYaml() throws IOException {
    Path guide = RealEnvoy.repository().resolve("docs/envoy.md");
    Matcher block = BLOCK.matcher(Files.readString(guide));
    assertThat(block.find())
        .as("a yaml block that starts with '# envoy.yaml' in %s", guide)
        .isTrue();
    return block.group(1);
  }
}
