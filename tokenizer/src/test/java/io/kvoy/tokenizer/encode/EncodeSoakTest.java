// SPDX-License-Identifier: Apache-2.0
package io.kvoy.tokenizer.encode;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Memory of long-lived encoders. */
final class EncodeSoakTest {
  /**
   * Encodes by each encoder; the case is about 100,000, with -Dkvoy.soak.encodes=100000, which
   * takes the library 22 ms of CPU each, more than half an hour in all.
   */
  private static final Long ENCODES = Long.getLong("kvoy.soak.encodes");

  /** Enough for what is lost with each text to show: an encoding of the library's is 300 KiB. */
  private static final long FEW_NATIVE = 800;

  private static final long FEW_JAVA = 10_000;

  /** Of resident memory after the first tenth, when every part has been in use. */
  private static final double MAX_GROWTH = 1.05;

  @TempDir Path folder;

  @ParameterizedTest
  @ValueSource(strings = {"native", "java"})
  @EnabledOnOs(OS.LINUX)
  void TOK_02_residentMemoryStaysFlatOverManyLongTexts(String encoder) throws Exception {
    long encodes = ENCODES != null ? ENCODES : encoder.equals("native") ? FEW_NATIVE : FEW_JAVA;
    Path out = folder.resolve("out.txt");
    long start = System.nanoTime();
    Process soak =
        new ProcessBuilder(command(encoder, encodes)).redirectOutput(out.toFile()).start();
    try {
      assertThat(soak.waitFor(3, TimeUnit.HOURS)).isTrue();
    } finally {
      soak.destroyForcibly();
    }
    assertThat(soak.exitValue()).isZero();
    List<Long> residentKib = new ArrayList<>();
    try (Stream<String> lines = Files.lines(out)) {
      lines.forEach(line -> residentKib.add(Long.parseLong(line.split(" ", -1)[1])));
    }
    System.out.printf(
        "%s: %d encodes of %d bytes in %d s, resident MiB %s%n",
        encoder,
        encodes,
        EncodeSoak.TEXT_CHARS,
        (System.nanoTime() - start) / 1_000_000_000,
        residentKib.stream().map(kib -> kib / 1024).toList());
    assertThat(residentKib).hasSize(20);
    long base = residentKib.get(1);
    assertThat(residentKib.subList(2, 20))
        .as("KiB, from %d after a tenth", base)
        .allMatch(kib -> kib <= MAX_GROWTH * base);
  }

  /** A heap of one size, touched from the start: what grows is not the heap. */
  private static List<String> command(String encoder, long encodes) {
    return List.of(
        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
        "--enable-native-access=ALL-UNNAMED",
        "-XX:+UseSerialGC",
        "-Xms256m",
        "-Xmx256m",
        "-XX:+AlwaysPreTouch",
        "-cp",
        System.getProperty("java.class.path"),
        EncodeSoak.class.getName(),
        encoder,
        "qwen3",
        Long.toString(encodes));
  }
}
