// SPDX-License-Identifier: Apache-2.0
package io.kvoy.server;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class HeapGoalTest {
  private static final long GIB = 1L << 30;

  /** What a server's JVM does, by its options. */
  static final class Probe {
    private Probe() {}

    public static void main(String[] args) {
      System.out.println("goal " + HeapGoal.set());
    }
  }

  @Test
  void anEighthOfTheHeapAndAGibibyteAtLeast() {
    assertThat(HeapGoal.of(64 * GIB)).isEqualTo(8 * GIB);
    assertThat(HeapGoal.of(4 * GIB)).isEqualTo(GIB);
    assertThat(HeapGoal.of(GIB / 2)).isEqualTo(GIB / 2);
  }

  @ParameterizedTest
  @CsvSource({
    "-XX:+UseZGC -XX:MaxRAM=32g -XX:MaxRAMPercentage=50, 2147483648",
    "-XX:+UseZGC -XX:MaxRAM=1g -XX:MaxRAMPercentage=50, 536870912",
    "-XX:+UseZGC -Xmx4g, 0",
    "-XX:+UseZGC -XX:MaxRAM=32g -XX:SoftMaxHeapSize=3g, 0",
    "-XX:+UseSerialGC, 0"
  })
  void onlyWhereZgcCollectsAndNobodyChose(String options, long goal) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of(options.split(" ")));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), Probe.class.getName()));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), UTF_8);

    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(said).contains("goal " + goal + System.lineSeparator());
  }
}
